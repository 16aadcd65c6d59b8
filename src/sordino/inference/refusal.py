"""Why a model has no intervals, in a sentence."""

from __future__ import annotations

import math
from typing import Protocol

from sordino.budget import Budget
from sordino.inference.newton import CLEAR
from sordino.inference.with_intervals import IntervalsPlan, WithIntervals, curvature_deviation
from sordino.losses import Squared
from sordino.methods.protocol import planned
from sordino.problem import Problem

NOT_ASKED = "this model has no intervals: fit it with intervals=True, which pays for what they follow from."


class Stated(Protocol):
    """A certificate."""

    @property
    def method(self) -> object: ...
    @property
    def problem(self) -> object: ...
    @property
    def requested(self) -> Budget: ...


def why_no_intervals(certificate: Stated) -> str:
    method, problem = certificate.method, certificate.problem
    if not isinstance(method, WithIntervals) or not isinstance(problem, Problem):
        return NOT_ASKED
    enough = enough_penalty(planned(method, problem, certificate.requested), problem)
    return (
        "intervals were asked for and none is given: the noise left too little of the curvature that they follow from, "
        "and whatever was said would be false. The model stands, and that it was tried is paid for. More records, "
        "fewer columns or a larger epsilon help; and so does a penalty, without which columns that add up to one "
        f"another (the categories of a column always do) have none: l2={enough:.2g} is enough for any records, and the "
        "intervals are then about the coefficients so penalised."
    )


def enough_penalty(plan: IntervalsPlan, problem: Problem) -> float:
    """An l2 with which a curvature is clear even where it has a direction without any: a norm of the noise more."""
    if isinstance(problem.loss, Squared):
        s = plan.inner.noise.std * problem.row_norm**2
    else:
        s = curvature_deviation(plan.newton) * problem.loss.smoothness(problem.row_norm)
    return float((CLEAR + 1.1) * s * math.sqrt(2 * problem.dim) / problem.records)
