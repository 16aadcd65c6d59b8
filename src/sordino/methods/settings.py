"""What settings of methods may be, and what follows from them: batches, clips, noise, and what must be given."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Protocol, get_args

from sordino.budget import Budget, Relation
from sordino.given import require_number
from sordino.methods.plan import Batches, DescentPlan, KeptOutput, LastStep, Stop, UniformStep
from sordino.methods.protocol import AnyProblem, Calibration
from sordino.oracle.sampling import FixedSize, FullBatch, Poisson
from sordino.privacy.calibrate import calibrate
from sordino.problem import NetworkProblem, Problem

Drawn = Literal["poisson", "fixed_size"]
Released = Literal["last", "average", "random", "trajectory"]
"""The last iterate, their mean, one drawn uniformly before the run, or all of them."""

Clipping = Literal["norm", "automatic"]
"""g min(1, clip / |g|), or clip g / (|g| + 1/100), for networks (Bu, Wang, Zha and Karypis 2023): no longer than the
clip either way, so the noise is the same. Of the latter only the product of clip and step size matters, and with
moments not even that."""

SOFTENING = 0.01


def softening_of(clipping: Clipping, problem: AnyProblem) -> float:
    if clipping == "norm":
        return 0.0
    if not isinstance(problem, NetworkProblem):
        raise ValueError(
            "clipping is 'automatic' on a linear model, whose contributions have a known bound: leave it out."
        )
    return SOFTENING


def batches_of(kind: Drawn, batch_size: int, records: int) -> Batches:
    """Batches of this expected size; all records where it is all of them, whatever the kind."""
    if not 1 <= batch_size <= records:
        raise ValueError(f"batch_size is {batch_size}: it must lie between 1 and the {records} records.")
    if batch_size == records:
        return FullBatch()
    return Poisson(batch_size / records) if kind == "poisson" else FixedSize(int(batch_size))


def clip_of(problem: AnyProblem, clip: float | None) -> float:
    """C: a record of a linear model never adds more than L, so a larger clip would only be paid for."""
    if isinstance(problem, NetworkProblem):
        assert clip is not None
        return clip
    return problem.usual_clip if clip is None else min(problem.constants.L, clip)


def kept_of(release: Released | Literal["moving average"]) -> tuple[KeptOutput, Stop]:
    """What a plan says of a setting `release`: a random iterate is the last of a run that ends there."""
    return ("last", UniformStep()) if release == "random" else (release, LastStep())


def calibrated(
    plan_at: Callable[[float], DescentPlan], budget: Budget, noise_multiplier: float | None = None
) -> DescentPlan:
    """The plan at the noise that was given, or at the least whose event costs at most the budget.

    `noise_multiplier` is std / clip, as everywhere in the field; `plan_at` takes std / sensitivity, as events do.
    """
    if noise_multiplier is not None:
        return plan_at(noise_multiplier / budget.relation.distance)
    return plan_at(calibrate(lambda multiplier: plan_at(multiplier).event, budget))


class Multiplied(Protocol):
    """Settings of a method that may be given its noise."""

    @property
    def noise_multiplier(self) -> float | None: ...
    @property
    def calibration(self) -> Calibration: ...


def settle_calibration(method: Multiplied) -> None:
    """A multiplier that is given says where the noise comes from."""
    if method.noise_multiplier is not None and method.calibration == "tight":
        object.__setattr__(method, "calibration", "given")


def check_calibration(method: Multiplied, unprinted: str | None = None) -> None:
    """Raise a sentence unless it is clear where the noise comes from. `unprinted` is why no paper says."""
    if (method.noise_multiplier is None) == (method.calibration == "given"):
        raise ValueError(
            f"calibration is {method.calibration!r} and noise_multiplier is {method.noise_multiplier}: give a "
            "multiplier or ask for 'tight' or 'paper' noise, not both."
        )
    if method.calibration == "paper" and unprinted is not None:
        raise ValueError(f"calibration='paper' with {type(method).__name__}: {unprinted}; use calibration='tight'.")


def loss_at_zero(problem: Problem, method: str, instead: str) -> float:
    """F(0), by the public bound on the loss at zero."""
    if not math.isfinite(problem.loss.at_zero):
        raise ValueError(
            f"{type(problem.loss).__name__} loss has no public bound at zero, which {method}'s numbers follow from: "
            f"give it a target bound, or give {instead}."
        )
    return problem.loss.at_zero


def require_linear(problem: AnyProblem, method: str, *assumptions: str) -> Problem:
    """The problem, if it is one of a linear model that meets the assumptions; else a sentence is raised."""
    problem.require(method, *assumptions)
    if isinstance(problem, NetworkProblem):
        raise ValueError(f"{method} is for linear models: train a network with DPSGD, DPAdam or RecursiveMomentum.")
    return problem


def require_delta(
    method: str, budget: Budget, instead: str = "use OutputPerturbation for a pure guarantee, or give a delta"
) -> None:
    """Gaussian noise never gives delta = 0."""
    if budget.pure:
        raise ValueError(f"delta is 0, but {method} adds Gaussian noise and needs delta > 0: {instead}.")


def require_paper_setting(calibration: Calibration, budget: Budget, papers: str) -> None:
    if calibration not in ("tight", "paper"):
        raise ValueError(f"calibration is {calibration!r}: it must be 'tight' or 'paper'.")
    if calibration == "paper" and budget.relation is not Relation.REPLACE_ONE:
        raise ValueError(
            f"calibration='paper' with relation {budget.relation}: {papers} states its noise for replace_one only; "
            "use calibration='tight'."
        )


def require_conditions(theorem: str, *conditions: tuple[bool, str]) -> None:
    """Raise a sentence about the first condition of a printed theorem that these public facts do not meet."""
    for holds, condition in conditions:
        if not holds:
            raise ValueError(
                f"calibration='paper' takes its numbers from {theorem}, which needs {condition}. Use "
                "calibration='tight'; or give every number yourself, and the certificate says what the printed noise "
                "is worth."
            )


def require_given(method: object, problem: AnyProblem, *names: str) -> None:
    """On a network nothing has a theorem's value: raise a sentence that names what is missing."""
    missing = [name for name in names if getattr(method, name) is None]
    if isinstance(problem, NetworkProblem) and missing:
        raise ValueError(
            f"{type(method).__name__} on a network needs {_listed(missing)}: its gradients have no known bound from "
            "which they could follow; give the method numbers that do not come from the records."
        )


def check_settings(
    method: object,
    positive: tuple[str, ...] = (),
    whole: tuple[str, ...] = (),
    fractions: tuple[str, ...] = (),
    chosen: dict[str, Any] | None = None,
) -> None:
    """Raise a sentence about the first setting that makes no sense. None stands for the default and is fine."""
    for name, kinds in (chosen or {}).items():
        if getattr(method, name) not in get_args(kinds):
            known = ", ".join(map(repr, get_args(kinds)))
            raise ValueError(f"{name} is {getattr(method, name)!r}: it must be one of {known}.")
    for name in (*positive, *whole):
        given = getattr(method, name)
        if given is not None:
            require_number(name, given)
        if given is not None and not (math.isfinite(given) and given > 0):
            raise ValueError(f"{name} is {given}: it must be positive and finite.")
        if name in whole and given is not None and given != int(given):
            raise ValueError(f"{name} is {given}: it must be a whole number.")
    for name in fractions:
        given = getattr(method, name)
        if given is not None:
            require_number(name, given)
        if given is not None and not 0 <= given < 1:
            raise ValueError(f"{name} is {given}: it must lie in [0, 1).")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
