"""The model file of a federation: the same for every owner, but for the time and the signature."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.certificate import Certificate
from sordino.federation.member_folder import MemberFolder
from sordino.linear_task import LinearTask, target_coding
from sordino.model_file import released_weights, save_model
from sordino.problem import Problem
from sordino.tabular.columns import ClassTarget
from sordino.train import Trained


@dataclass(frozen=True, eq=False)
class FittedTogether:
    """What a model file takes from an estimator."""

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    classes_: NDArray[Any] | None
    certificate_: Certificate


def save(member_folder: MemberFolder, trained: Trained, out: Path) -> Certificate:
    """Weights for raw rows of the schema, with the certificate, which this member signs."""
    plan, schema = member_folder.signed_plan.plan, member_folder.signed_plan.schema
    assert isinstance(plan.problem, Problem)
    assert plan.rows is not None
    task = LinearTask(plan.problem.loss, plan.rows, target_coding(schema))
    coefficients, intercepts = task.to_raw(trained.weights)
    classes = np.array(schema.target.sorted) if isinstance(schema.target, ClassTarget) else None
    fitted = FittedTogether(coefficients, intercepts, classes, trained.certificate)
    about_it = trained.about(released_weights(fitted, schema))
    return save_model(replace(fitted, certificate_=about_it), out, schema, member_folder.identity)
