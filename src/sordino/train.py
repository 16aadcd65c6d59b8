"""Plan, run, certify: the one path from public facts and records to a released model."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino import sentences, wire
from sordino.budget import Budget, Relation
from sordino.certificate import LIBRARIES, Certificate, said_of_intervals, weights_digest
from sordino.checkpoint import RunRecorder
from sordino.evaluation.statistic import Statistic, StatisticPlan
from sordino.ledger.ledger import Reservation
from sordino.methods.protocol import (
    AnyMethod,
    AnyProblem,
    Method,
    OracleT,
    Plan,
    PlanT,
    Release,
    planned,
    require_offered,
)
from sordino.oracle.rows import Rows
from sordino.oracle.statistics import FoundValues
from sordino.privacy.accountants import Guarantee, guarantee
from sordino.privacy.events import Event
from sordino.privacy.randomness import SEEDED, Randomness
from sordino.problem import HeldOut
from sordino.release import release
from sordino.row_bound import RowBound


class PrivacyWarning(UserWarning):
    """Something that weakens what a guarantee means, though not whether it holds."""


@dataclass(frozen=True, eq=False)
class Trained:
    weights: NDArray[np.float64]
    certificate: Certificate
    chosen: int | None = None
    """Which setting of a search the weights come from."""
    reservation: Reservation | None = None
    """What has paid for it, where a ledger was charged."""
    covariance: NDArray[np.float64] | None = None
    """Of the weights, where it was asked for and came out."""
    found: FoundValues | None = None
    """The values of categories, where they were discovered."""
    row_bound: RowBound | None = None
    """Where rows were prepared: what they were kept within."""

    def about(self, weights: Mapping[str, NDArray[Any]]) -> Certificate:
        """The certificate for what was made of the weights, which the ledger then names."""
        return about(self.certificate, weights, self.reservation)


def about(certificate: Certificate, weights: Mapping[str, NDArray[Any]], paid: Reservation | None) -> Certificate:
    """The certificate for what was made of the released weights, which the ledger then names as well."""
    bound = certificate.about(weights)
    if paid is not None:
        paid.name_model(bound.weights)
    return bound


def train(
    problem: AnyProblem,
    budget: Budget,
    method: Method[PlanT, OracleT],
    oracle: OracleT,
    randomness: Randomness | None = None,
    rows: Rows | None = None,
    enforced: tuple[str, ...] = (),
    assumed: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    start: NDArray[np.float64] | None = None,
    recorder: RunRecorder | None = None,
    reference: str | None = None,
) -> Trained:
    """Follow `method` on the oracle's records and say what was guaranteed.

    `enforced`, `assumed` and `notes` are `sentences` for the certificate, beside those that follow from the public
    facts: what was made true of every record, what was taken as public on the caller's word, and remarks. `start` is
    one first iterate, which does not depend on the records. With a `recorder` the run can be watched, and go on after
    it was cut off. `reference` names the run in a ledger, for whoever keeps it elsewhere and may have to begin again.
    """
    randomness = Randomness.system() if randomness is None else randomness
    if start is not None and np.ndim(start) > 1:
        raise ValueError(
            f"start has shape {np.shape(start)}: a stack of first iterates makes as many models, and what is accounted "
            "for is one of them. Train each by itself, with a budget of its own."
        )
    warn_of_large(budget, problem)
    require_offered(method, oracle)
    plan = planned(method, problem, budget)
    # account before a record is touched: what cannot be certified is not run
    stated = stated_epsilon(plan.event, method, budget)
    note = f"{type(method).__name__}, epsilon {stated:.6g}"
    paid: Reservation | None = None

    def run(asked: Any) -> Release:
        nonlocal paid
        released, paid = method.run(plan, problem, asked, randomness, start), asked.reservation
        if paid is not None:
            paid.model = weights_digest({"weights": released.weights})
        return released

    # lost steps count as taken ones, so what was planned, and reserved, covers them
    with nullcontext() if recorder is None else recorder.recording(problem, budget, method, plan, randomness):
        released, earned = release(
            plan.event,
            budget,
            note,
            oracle,
            run,
            reference if recorder is None else recorder.reference,
            problem.unit,
        )
    course = () if recorder is None else recorder.notes
    certificate = certify(
        problem,
        budget,
        method,
        plan,
        released.event,
        earned,
        weights_digest({"weights": released.weights}),
        SEEDED if recorder is not None and recorder.seeded else randomness.describe(),
        rows,
        enforced,
        assumed,
        (*course, *notes),
    )
    return Trained(
        released.weights,
        certificate,
        released.chosen,
        paid,
        released.covariance,
        released.found,
        released.row_bound,
    )


def certify(
    problem: AnyProblem | HeldOut,
    budget: Budget,
    method: AnyMethod | Statistic,
    plan: Plan | StatisticPlan,
    event: Event,
    earned: Guarantee,
    digest: str,
    randomness: str,
    rows: Rows | None = None,
    enforced: tuple[str, ...] = (),
    assumed: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Certificate:
    """What was guaranteed of a release with this digest that followed `plan`, was `event` and cost `earned`."""
    always = sentences.required(problem, budget, method, rows, earned.epsilon, said_of_intervals(method))
    return Certificate(
        epsilon=stated_epsilon(plan.event, method, budget),
        delta=budget.delta,
        relation=budget.relation,
        requested=budget,
        problem=problem,
        method=method,
        plan=wire.to_plain(plan),
        event=event,
        accountant=earned.accountant,
        accounting_error=earned.error,
        rows=rows,
        enforced=(*always["enforced"], *enforced),
        assumed=(*always["assumed"], *assumed),
        notes=(*always["notes"], *notes),
        randomness=randomness,
        versions=dict(_versions()),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        weights=digest,
    )


def public_count(given: int | None, actual: int, relation: Relation, unit: str = "record") -> int:
    """n as the problem states it."""
    if relation is Relation.REPLACE_ONE:
        if given not in (None, actual):
            raise ValueError(
                f"records is {given}, but there are {actual}: under replace_one the number of {unit}s is public and is "
                "counted; leave `records` out."
            )
        return actual
    if given is None:
        raise ValueError(
            f"records is required with relation='add_remove', where the true number of {unit}s is private: give a "
            "public stand-in of about the same size."
        )
    if not isinstance(given, Integral):
        raise TypeError(f"records is {wire.shown(given)}: it must be a whole number.")
    return given


def stated_epsilon(event: Event, method: AnyMethod | Statistic, budget: Budget) -> float:
    """The epsilon to print: the one asked for when the noise was calibrated to it, else the one it truly gives."""
    earned = guarantee(event, budget.delta, budget.relation).epsilon
    if method.calibration == "given":
        if earned > budget.epsilon:
            raise ValueError(
                f"{type(method).__name__} with the noise multiplier it was given would cost epsilon {earned:.6g} where "
                f"{budget.epsilon:.6g} was asked for, so nothing was run: take fewer steps or smaller batches, or "
                "leave noise_multiplier out, which takes the noise that the budget needs."
            )
        return earned
    if method.calibration == "tight":
        if earned > budget.epsilon * (1 + 1e-9):
            raise RuntimeError(
                f"{type(method).__name__} planned noise for epsilon {earned:.6g} where {budget.epsilon:.6g} was asked "
                "for; nothing was run. This is a bug: please report it."
            )
        return budget.epsilon
    return earned


def warn_of_large(budget: Budget, problem: AnyProblem | HeldOut) -> None:
    if budget.delta >= 1 / problem.records:
        warnings.warn(
            f"delta is {budget.delta:g}, not below 1/n = {1 / problem.records:g}: it permits publishing a "
            f"{problem.unit}'s data outright. Use a delta well below one over the number of {problem.unit}s.",
            PrivacyWarning,
            stacklevel=4,
        )
    if budget.epsilon > 10:
        warnings.warn(
            f"epsilon is {budget.epsilon:g}: above about 10 the guarantee says little about any one {problem.unit}.",
            PrivacyWarning,
            stacklevel=4,
        )


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    # looked up once: each reads a file
    return ("python", platform.python_version()), *((name, version(name)) for name in LIBRARIES)
