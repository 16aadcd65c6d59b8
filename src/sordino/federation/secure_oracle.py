"""Records of several owners who show them to nobody: answers are opened sums with noise that none of them knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from sordino.arrays import Array
from sordino.budget import Relation
from sordino.federation.agreement import Agreement
from sordino.federation.noise import Share, SharedNoise
from sordino.federation.party import Party, RecordHolder, SumQuery, query_batch, with_batch
from sordino.oracle.allowed import allow
from sordino.oracle.query import Difference, Gradient, Recursion, StepQuery
from sordino.oracle.sampling import Batch, FixedSize, FullBatch, InOrder, Poisson, Sampling
from sordino.privacy.correlated_noise import CorrelatedNoise, NoiseOfRun
from sordino.privacy.events import flatten
from sordino.privacy.noise import Noise
from sordino.privacy.randomness import Randomness, Stream


class SecureOracle:
    """Draws batches and releases noisy sums, and can do nothing else: there is no exact answer to ask for.

    Every member's process has one and makes the same calls, so that all of them hold the same weights. Batches and
    noise come from the owners' own randomness; the one that a method passes along is for choices all must make alike
    (`common_randomness`). What is released is counted against the plan's event, and what it does not hold is refused.
    """

    def __init__(self, agreement: Agreement, parties: Sequence[Party]) -> None:
        """`parties` are this process's own members, in the order of `aggregation.local`."""
        self._plan, self._sum = agreement.plan, agreement.aggregation
        self._coins = agreement.coins
        self._parties = tuple(parties)
        local = self._sum.local
        if len(self._parties) != len(local):
            raise ValueError(f"{len(self._parties)} parties where this process speaks for {len(local)} members.")
        for member, party in zip(local, self._parties, strict=True):
            self._check(member, party)
        self._left = Counter(flatten(self._plan.planned.event)[0])
        self._begun: dict[SharedNoise, list[Share]] = {}
        self._opened = 0

    def _check(self, member: int, party: Party) -> None:
        m = len(self._plan.owners)
        if isinstance(party, RecordHolder) != (member < m):
            raise ValueError(f"member {member} must be {'an owner with records' if member < m else 'a server'}.")
        if not isinstance(party, RecordHolder) or self._plan.relation is not Relation.REPLACE_ONE:
            return
        owner, records = self._plan.owners[member], len(party.everybody())
        if records != owner.records:
            raise ValueError(
                f"{owner.name} brings {records} {self._plan.problem.unit}s, but the plan says {owner.records}: under "
                "replace_one their number is public and must be the true one; agree on a new plan."
            )

    def common_randomness(self) -> Randomness:
        """For `method.run`: its choices that do not concern records fall alike for all members."""
        own = Randomness.system()
        seeded = any(party.randomness.is_seeded for party in self._parties)
        return Randomness(own.noise, Stream(self._coins, lambda key, forks: key), is_seeded=seeded)

    def draw(self, sampling: Sampling, randomness: Randomness) -> Batch:
        """Every owner's own batch, from its own records. Only `release` can look into it."""
        if isinstance(sampling, FullBatch):
            return None
        return DrawnBatches(sampling, tuple(self._draws(sampling)))  # type: ignore[return-value]

    def _draws(self, sampling: Sampling) -> list[Batch]:
        match sampling:
            case Poisson() | InOrder():
                return [party.draw(sampling) for party in self._parties]
            case FixedSize():
                sizes = self._plan.sizes(sampling)
                return [
                    party.draw(FixedSize(sizes[member])) if member < len(sizes) else None
                    for member, party in zip(self._sum.local, self._parties, strict=True)
                ]
        raise ValueError(
            f"owners cannot draw {type(sampling).__name__} batches together: use Poisson, FixedSize or InOrder."
        )

    def release(self, query: StepQuery, noise: Noise, randomness: Randomness) -> Array:
        if not isinstance(query, Gradient | Difference | Recursion):
            raise ValueError(f"several owners do not answer {type(query).__name__}: only sums of gradients are opened.")
        if np.ndim(query.at) != 1:
            raise ValueError("several owners train one model at a time: give the method one start, not a stack.")
        allow(query, noise, self._plan.relation)
        shared = self._plan.trust.realise(noise)
        batches = self._spend(query, noise)
        # what a member added before is its own to remember
        shares = self._begun.setdefault(shared, [shared.begin() for _ in self._parties])
        parts = []
        for member, party, batch, share in zip(self._sum.local, self._parties, batches, shares, strict=True):
            part = party.part(with_batch(query, batch), shared, self._plan.rounding)
            if member in self._plan.trust.makers:
                part = part + share.next(part.shape, party.randomness)
            parts.append(part)
        # beyond 2^53 steps the product is rounded to a double, a function of what is already open
        return np.asarray(self._sum.open_sum(np.stack(parts), shared.joint) * shared.step, dtype=np.float64)

    def _spend(self, query: SumQuery, noise: Noise) -> tuple[Batch, ...]:
        """The local batches, once this release is taken off what the plan accounted for."""
        drawn, n = query_batch(query), self._plan.problem.records
        event = noise.event
        if drawn is not None:
            if not isinstance(drawn, DrawnBatches) or drawn.used:
                raise ValueError("a batch serves one release: draw it with this oracle's draw, once for every sum.")
            event = drawn.sampling.event(noise.event, n)
        (leaf,) = flatten(event)[0]
        planned = self._plan.planned
        # a run with correlated noise is accounted for as a whole: these very sums, in their order
        of_run = isinstance(planned.noise, CorrelatedNoise)
        in_turn = not of_run or (
            isinstance(noise, NoiseOfRun)
            and noise.noise == planned.noise
            and self._opened < planned.steps
            and drawn is not None
            and drawn.sampling == planned.sampling.at(self._opened)
        )
        if self._left[leaf] < 1 or not in_turn:
            raise ValueError(
                f"{type(self._plan.method).__name__} asks for a sum that its plan does not account for; nothing was "
                "opened. Run the method, the problem and the budget that were agreed on."
            )
        self._left[leaf] -= not of_run
        self._opened += 1
        if drawn is None:
            return (None,) * len(self._parties)
        drawn.used = True
        batches: tuple[Batch, ...] = drawn.batches
        return batches


class DrawnBatches:
    """The batches of this process's members, for one release."""

    __slots__ = ("batches", "sampling", "used")

    def __init__(self, sampling: Sampling, batches: tuple[Batch, ...]) -> None:
        self.sampling, self.batches = sampling, batches
        self.used = False
