"""What the owners agree on before a record is touched: public, the same for all, and told apart by its digest."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

from sordino import wire
from sordino.budget import Budget, Relation
from sordino.domains import Ball, Everywhere
from sordino.federation.trust import Mode, Trust
from sordino.losses import LOSSES
from sordino.methods import METHODS, RATES, DescentPlan, Method
from sordino.methods.protocol import AnyMethod
from sordino.oracle.allowed import allow_sampling
from sordino.oracle.protocol import Oracle
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import FixedSize, InOrder, Sampling
from sordino.penalties import BoundedPenalty, Ridge
from sordino.privacy.correlated_noise import CorrelatedNoise
from sordino.problem import NetworkProblem, PersonUnit, Problem
from sordino.sentences import COMMITTEE, DISTRIBUTED, JOINT, OUTSIDERS, WHOLE_PERSONS

_FORMAT = "sordino federation plan"
_VERSION = 1

Rounding = Literal["owner", "record"]
"""What is rounded to the grid: an owner's sum, or every record's contribution, at the price of one pass per record.
After the latter the sum does not depend on how the records are divided among owners, to the last bit."""

_FOLLOWED = ", ".join(name for name, method in METHODS.items() if method.needs is Oracle)

_KINDS: dict[str, type] = {
    **LOSSES,
    **METHODS,
    **RATES,
    **{
        kind.__name__: kind
        for kind in (Budget, Problem, NetworkProblem, PersonUnit, Ridge, BoundedPenalty, Everywhere, Ball, Rows)
    },
}


@dataclass(frozen=True)
class Owner:
    """A name, and a number of records: the true one under replace_one, a public stand-in under add_remove.

    Where the problem protects persons, it is a number of persons, all of whose records this owner has.
    """

    name: str
    records: int


@dataclass(frozen=True)
class FederationPlan:
    """`schema` and `start` are digests of the public schema and of a network's first weights, where there are any."""

    owners: tuple[Owner, ...]
    problem: Problem | NetworkProblem
    budget: Budget
    method: Method[DescentPlan, Oracle]
    mode: Mode = "distributed"
    colluders: int = 1
    rounding: Rounding = "owner"
    rows: Rows | None = None
    schema: str = ""
    start: str = ""

    def __post_init__(self) -> None:
        require_releases(self.method)
        names = [owner.name for owner in self.owners]
        if len(set(names)) < len(names) or not all(names):
            raise ValueError(f"the owners are named {wire.shown(names)}: every owner needs a name of its own.")
        for owner in self.owners:
            if owner.records < 1:
                raise ValueError(f"{owner.name} has {owner.records} records: an owner without records has no part.")
        total = sum(owner.records for owner in self.owners)
        if total != self.problem.records:
            raise ValueError(
                f"the owners have {total} {self.problem.unit}s together, but the problem was stated with "
                f"{self.problem.records}: state it for all of them."
            )
        if self.rounding not in get_args(Rounding):
            raise ValueError(f"rounding is {self.rounding!r}: it must be 'owner' or 'record'.")
        _ = self.trust

    @cached_property
    def trust(self) -> Trust:
        return Trust(len(self.owners), self.mode, self.colluders)

    @cached_property
    def planned(self) -> DescentPlan:
        """The method's own plan. Every sum that the owners open is a release that its event must count."""
        planned = self.method.plan(self.problem, self.budget)
        if isinstance(planned.noise, CorrelatedNoise):
            self._require_order(planned.sampling)
        elif not planned.step_events:
            raise ValueError(
                f"{type(self.method).__name__} counts on steps that nobody sees, but the owners see every sum: "
                "release 'trajectory' or 'average', which are accounted for as all the steps."
            )
        for sampling, noise, _ in planned.sums:
            if isinstance(sampling, FixedSize):
                self.sizes(sampling)
            self.trust.realise(noise)
        return planned

    def _require_order(self, sampling: Sampling) -> None:
        """Correlated noise: every owner goes through its own records, as many parts of them as the others."""
        if not isinstance(sampling, InOrder):
            raise ValueError(
                f"{type(self.method).__name__} remembers the noise of earlier steps, and owners who share it are "
                "covered where records come in order alone: use sampling='in_order', or independent noise."
            )
        allow_sampling(sampling, self.relation, self.problem.unit)
        for owner in self.owners:
            if owner.records < sampling.batches:
                raise ValueError(
                    f"{owner.name} has {owner.records} records for {sampling.batches} batches: ask for a batch_size of "
                    f"at least {-(-self.problem.records // owner.records)}."
                )

    @property
    def goes_on(self) -> bool:
        """Whether a run that was cut off can be taken up again: noise that remembers is in no file."""
        return not isinstance(self.planned.noise, CorrelatedNoise)

    @property
    def relation(self) -> Relation:
        return self.budget.relation

    def sizes(self, sampling: FixedSize) -> tuple[int, ...]:
        """b_j = floor(b n_j / n): no record is drawn more often than at the rate b/n that is accounted for."""
        n = self.problem.records
        sizes = tuple(sampling.size * owner.records // n for owner in self.owners)
        for size, owner in zip(sizes, self.owners, strict=True):
            if size == 0:
                raise ValueError(
                    f"a batch of {sampling.size} out of {n} takes none of {owner.name}'s {owner.records} "
                    f"{self.problem.unit}s: ask for at least {-(-n // owner.records)}, or Poisson batches."
                )
        return sizes

    def local_problem(self, owner: int) -> Problem | NetworkProblem:
        """The problem as one owner's oracle is told it: the same, for its own number of records."""
        return replace(self.problem, records=self.owners[owner].records)

    def require_room(self, limit: int) -> None:
        """Raise a sentence if a sum, with sixteen standard deviations of noise, does not fit into the ring."""
        for _, noise, _ in self.planned.sums:
            shared = self.trust.realise(noise)
            contribution = noise.sensitivity / self.relation.distance
            needed = (self.problem.records * contribution + 16 * shared.std) / shared.step
            if needed >= limit:
                raise ValueError(
                    f"sums of up to {needed:.3g} steps of the grid overflow a ring that holds {limit:.3g}: "
                    f"{self.problem.records} records are too many beside noise of {noise.std / contribution:.3g} times "
                    "one record's contribution. Take fewer records, a smaller clip, or more noise."
                )

    @property
    def assumed(self) -> tuple[str, ...]:
        """For the certificate: on whose honesty the guarantee rests."""
        facts = {"plan": self.digest[:16], "owners": len(self.owners)}
        match self.mode:
            case "committee":
                rests = COMMITTEE(**facts)
            case "joint":
                rests = JOINT(**facts, colluders=self.colluders)
            case _:
                rests = OUTSIDERS(**facts) if self.colluders == 0 else DISTRIBUTED(**facts, colluders=self.colluders)
        return (rests,) if self.problem.person is None else (WHOLE_PERSONS(), rests)

    def to_json(self) -> str:
        """Canonical: the same plan is the same text."""
        body = {"format": _FORMAT, "version": _VERSION, "plan": wire.to_plain(self)}
        return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the plan and of the numbers that follow from it."""
        return wire.digest([self.to_json(), wire.to_plain(self.planned)])

    @staticmethod
    def from_json(text: str) -> FederationPlan:
        """The plan, or a sentence on why this is not one."""
        try:
            body = wire.parse(text)
        except ValueError as error:
            raise ValueError(f"this is not a federation plan: {error}") from None
        if not isinstance(body, dict) or body.get("format") != _FORMAT or body.get("version") != _VERSION:
            raise ValueError(f"this is not a federation plan of version {_VERSION}: its 'format' must be {_FORMAT!r}.")
        plan = wire.from_plain(body.get("plan"), {**_KINDS, "FederationPlan": FederationPlan, "Owner": Owner})
        fits = (
            isinstance(plan, FederationPlan)
            and all(isinstance(owner, Owner) for owner in plan.owners)
            and isinstance(plan.problem, Problem | NetworkProblem)
            and (isinstance(plan.problem, NetworkProblem) or type(plan.problem.loss).__name__ in LOSSES)
            and isinstance(plan.problem.penalty, Ridge | BoundedPenalty)
            and isinstance(plan.problem.domain, Everywhere | Ball)
            and isinstance(plan.budget, Budget)
        )
        if not fits:
            raise ValueError("this federation plan is malformed: its values are not of the kinds a plan has.")
        return plan  # type: ignore[no-any-return]


def require_releases(method: AnyMethod) -> None:
    """Raise a sentence unless the method lives on noisy sums of gradients alone."""
    name = type(method).__name__
    if name not in METHODS:
        raise ValueError(f"{name} is not a known method: use one of {_FOLLOWED}.")
    if method.needs is not Oracle:
        raise ValueError(
            f"{name} asks the records for more than noisy sums of gradients, and several owners reveal nothing else, "
            f"even to each other: use one of {_FOLLOWED}."
        )
