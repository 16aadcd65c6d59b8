"""What every method is: a pure `plan` on public facts, and a `run` that follows it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

from sordino.arrays import Array
from sordino.budget import Budget
from sordino.oracle.protocol import Oracle
from sordino.oracle.statistics import FoundValues
from sordino.privacy.events import Event
from sordino.privacy.randomness import Randomness
from sordino.problem import NetworkProblem, Problem
from sordino.row_bound import RowBound

AnyProblem = Problem | NetworkProblem

StepEvents = tuple[tuple[Event, int], ...]
"""What each step releases, in their order, equal neighbours counted together."""

Calibration = Literal["tight", "paper", "given"]
"""Where the noise comes from: the least that earns the budget; a paper, whose algorithm is run as printed and its true
cost stated; or a multiplier the method was given, whose cost is stated and must stay within the budget."""


@dataclass(frozen=True, eq=False)
class Release:
    """What leaves the private side, and what happened to produce it."""

    weights: Array
    event: Event
    chosen: int | None = None
    """Which setting of a search the weights come from."""
    covariance: Array | None = None
    """Of the weights, where their law is known: see `sordino.inference`."""
    found: FoundValues | None = None
    """The values of categories, where they were discovered."""
    row_bound: RowBound | None = None
    """Where the given rows were trained on, which the event has paid for."""


class Plan(Protocol):
    """A frozen dataclass with every number of the run. It is public."""

    @property
    def event(self) -> Event:
        """What the whole run releases."""
        ...

    @property
    def step_events(self) -> StepEvents:
        """Empty where the guarantee is about the end alone: then nothing may be seen, kept or opened before it."""
        ...


PlanT = TypeVar("PlanT", bound=Plan)
OracleT = TypeVar("OracleT", bound=Oracle)
OracleT_contra = TypeVar("OracleT_contra", bound=Oracle, contravariant=True)


@runtime_checkable
class Method(Protocol[PlanT, OracleT_contra]):
    """Settings of an algorithm.

    `needs` names the oracle that `run` asks for. `Oracle` itself gives noisy sums of gradients alone, so what needs no
    more runs on networks and among several owners too.
    """

    needs: ClassVar[type[Oracle]]

    @property
    def calibration(self) -> Calibration: ...

    def plan(self, problem: AnyProblem, budget: Budget) -> PlanT: ...

    def run(
        self,
        plan: PlanT,
        problem: AnyProblem,
        oracle: OracleT_contra,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        """`start` is a first iterate that does not depend on the records; a stack (k x dim) makes k runs."""
        ...


AnyMethod = Method[Any, Any]
"""A method whose plan and oracle are nobody's business here: it is planned, written down or asked what it needs. What
runs one names both types (`train`), so that mypy sees the oracle that a method gets."""


def planned(method: Method[PlanT, OracleT], problem: AnyProblem, budget: Budget) -> PlanT:
    """The method's plan. It follows from public facts, so what was planned a moment ago need not be planned again."""
    require_settings(method)
    plan: PlanT = _planned(method, problem, budget)  # type: ignore[arg-type]  # frozen settings, hence hashable
    return plan


@lru_cache(maxsize=32)
def _planned(method: AnyMethod, problem: AnyProblem, budget: Budget) -> Any:
    return method.plan(problem, budget)


@runtime_checkable
class Batched(Protocol):
    """Settings of a method that takes steps on batches; None is for the method to choose."""

    @property
    def steps(self) -> int | None: ...
    @property
    def batch_size(self) -> int | None: ...
    @property
    def sampling(self) -> str: ...


@runtime_checkable
class Guided(Protocol):
    """Settings of a method that may be told about how far away the best weights are."""

    @property
    def radius(self) -> float | None: ...


def require_settings(method: object) -> None:
    """Raise a sentence if a method's class was given: it has every name that its settings have."""
    if isinstance(method, type):
        raise TypeError(f"method is the class {method.__name__}: give settings of it, such as {method.__name__}().")


def require_offered(method: Method[PlanT, OracleT], oracle: Oracle) -> None:
    """Raise a sentence unless the oracle gives what the method asks for."""
    if not isinstance(oracle, method.needs):
        raise TypeError(
            f"{type(method).__name__} needs an oracle that is a {method.needs.__name__}, and {type(oracle).__name__} "
            "is none: use a method that lives on noisy sums of gradients, such as NoisySGD, DPSGD or DPAdam."
        )
