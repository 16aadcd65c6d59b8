"""Runs in numbers: a descent by noisy gradients, which `methods.descend` follows, and what is released once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

from sordino.budget import Budget
from sordino.methods.protocol import StepEvents
from sordino.methods.rates import Constant, Rate
from sordino.methods.updates import Plain, Update
from sordino.oracle.sampling import CyclicPoisson, FixedSize, FullBatch, InOrder, Poisson
from sordino.privacy.calibrate import calibrate
from sordino.privacy.correlated_noise import CorrelatedNoise, NoiseOfRun
from sordino.privacy.events import Approximate, Composed, Event, GaussianDP, flatten
from sordino.privacy.noise import GaussianNoise, L2LaplaceNoise
from sordino.privacy.randomness import Randomness
from sordino.words import plan_card

Batches = FullBatch | Poisson | FixedSize | InOrder | CyclicPoisson
KeptOutput = Literal["last", "average", "moving average", "trajectory"]
"""What is released of w_1, .., w_R: the last, their mean, one in which the last count most, or all of them and w_0."""


@dataclass(frozen=True)
class OneReleasePlan:
    """One sum over the records, with noise."""

    noise: GaussianNoise | L2LaplaceNoise
    step_events: ClassVar[StepEvents] = ()

    @staticmethod
    def within(budget: Budget, sensitivity: float, width: int) -> OneReleasePlan:
        """With as little noise as the budget allows, for a sum of so many numbers."""

        def noise(multiplier: float) -> GaussianNoise:
            return GaussianNoise.at(multiplier, sensitivity, width)

        return OneReleasePlan(noise(calibrate(lambda multiplier: noise(multiplier).event, budget)))

    @property
    def event(self) -> Event:
        return self.noise.event

    _repr_html_ = plan_card


class Stop(Protocol):
    def draw(self, plan: DescentPlan, randomness: Randomness) -> int:
        """R in 1, .., T, the step after which the run ends. It never depends on the records, so it costs nothing."""
        ...


@dataclass(frozen=True)
class LastStep:
    def draw(self, plan: DescentPlan, randomness: Randomness) -> int:
        return plan.steps


@dataclass(frozen=True)
class UniformStep:
    def draw(self, plan: DescentPlan, randomness: Randomness) -> int:
        return int(randomness.sampling.generator.integers(1, plan.steps, endpoint=True))


@dataclass(frozen=True)
class WeightedStep:
    """P(R = t + 1) ~ 2 eta_t - beta eta_t^2, with beta the `smoothness`."""

    smoothness: float

    def draw(self, plan: DescentPlan, randomness: Randomness) -> int:
        generator, beta = randomness.sampling.generator, self.smoothness

        def weight(eta: float) -> float:
            return 2 * eta - beta * eta**2

        # weights rise up to eta = 1/beta, and rates are at most 1
        most = weight(min(plan.step_size, 1 / beta) if beta > 0 else plan.step_size)
        # by rejection: T may be n^2
        while True:
            t = int(generator.integers(plan.steps))
            if generator.random() * most < weight(plan.step_size_at(t)):
                return t + 1


@dataclass(frozen=True)
class FirstSum:
    """How a first sum is drawn, and its noise, where they are not those of the others: once, or `every` few steps."""

    sampling: Batches
    noise: GaussianNoise
    every: int | None = None

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 2:
            raise ValueError(f"every is {self.every}: where all sums are alike none of them is a first one.")


@dataclass(frozen=True)
class DescentPlan:
    """Every number of a run. `noise` is added to sums of clipped gradients over a batch.

    With a `softening` s every gradient g becomes clip g / (|g| + s), however short it is. An `amplification`
    A_T < sqrt(T) says that the end of T steps on all records costs A_T of one of them in Gaussian differential privacy;
    None is for runs that pay for every step. Where the noise is correlated, the run is paid for as a whole, and all of
    it may be seen.
    """

    steps: int
    step_size: float
    clip: float
    sampling: Batches
    records: int
    noise: GaussianNoise | CorrelatedNoise
    rate: Rate = field(default_factory=Constant)
    update: Update = field(default_factory=Plain)
    stop: Stop = field(default_factory=LastStep)
    release: KeptOutput = "last"
    amplification: float | None = None
    first: FirstSum | None = None
    softening: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.rate, Rate):
            raise ValueError(f"rate is {self.rate!r}: use one of `methods.rates`, such as Cosine().")
        if isinstance(self.noise, CorrelatedNoise):
            _require_whole(self, self.noise)

    def step_size_at(self, t: int) -> float:
        """eta_t."""
        return self.step_size * self.rate.at(t, self.steps)

    def sum_at(self, t: int, begun: GaussianNoise | NoiseOfRun) -> tuple[Batches, GaussianNoise | NoiseOfRun]:
        """How the sum of step t is drawn, and its noise, where `begun` is the plan's as this run adds it."""
        if self.first is not None and t % (self.first.every or self.steps) == 0:
            return self.first.sampling, self.first.noise
        return self.sampling.at(t), begun

    @property
    def sums(self) -> tuple[tuple[Batches, GaussianNoise | CorrelatedNoise, int], ...]:
        """How sums are drawn, their noise, and in how many steps."""
        if self.first is None:
            return ((self.sampling, self.noise, self.steps),)
        begun = math.ceil(self.steps / (self.first.every or self.steps))
        kinds = (self.first.sampling, self.first.noise, begun), (self.sampling, self.noise, self.steps - begun)
        return tuple(kind for kind in kinds if kind[-1])

    @property
    def step_events(self) -> StepEvents:
        if self.amplification is not None or isinstance(self.noise, CorrelatedNoise):
            return ()
        kinds, every = self._kinds, None if self.first is None else self.first.every
        if every is None or len(kinds) == 1:
            return kinds
        (first, _), (other, _) = kinds
        periods, rest = divmod(self.steps, every)
        return ((first, 1), (other, every - 1)) * periods + ((first, 1), (other, rest - 1))[: min(rest, 2)]

    @property
    def event(self) -> Event:
        if isinstance(self.noise, CorrelatedNoise):
            assert isinstance(self.sampling, InOrder | CyclicPoisson)
            return self.sampling.event_of_run(self.noise)
        if self.amplification is not None:
            _, distance = flatten(self.noise.event)
            return Approximate(GaussianDP(self.amplification / self.noise.multiplier), self.steps * distance)
        return self._kinds[0][0] if self.steps == 1 else Composed(self._kinds)

    @property
    def _kinds(self) -> StepEvents:
        return tuple((sampling.event(noise.event, self.records), count) for sampling, noise, count in self.sums)

    _repr_html_ = plan_card


def _require_whole(plan: DescentPlan, noise: CorrelatedNoise) -> None:
    """Correlated noise is accounted for as one run of this length, whose batches come back as it was told."""
    if not isinstance(plan.sampling, InOrder | CyclicPoisson):
        raise ValueError(
            f"correlated noise on {type(plan.sampling).__name__} batches: a record may come back at any step, and what "
            "its participations show would add up. Take the records in order, or in groups that have turns."
        )
    if plan.first is not None or plan.amplification is not None or plan.steps > noise.steps:
        raise ValueError(
            f"correlated noise for {noise.steps} steps in a run of {plan.steps}: it is planned for a run as a whole, "
            "whose sums are all of one kind."
        )
