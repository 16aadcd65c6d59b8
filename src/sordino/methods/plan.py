"""A descent in numbers: what every method that perturbs gradients plans, and `methods.descend` follows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from sordino.methods.protocol import StepEvents
from sordino.methods.rates import Constant, Rate
from sordino.methods.updates import Plain, Update
from sordino.oracle.sampling import FixedSize, FullBatch, Poisson
from sordino.privacy.events import Approximate, Composed, Event, GaussianDP, flatten
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.words import plan_card

Batches = FullBatch | Poisson | FixedSize
KeptOutput = Literal["last", "average", "moving average", "trajectory"]
"""What is released of w_1, .., w_R: the last, their mean, one in which the last count most, or all of them and w_0."""


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
    """How the first sum is drawn, and its noise, where they are not those of the others."""

    sampling: Batches
    noise: GaussianNoise


@dataclass(frozen=True)
class DescentPlan:
    """Every number of a run. `noise` is added to sums of clipped gradients over a batch.

    With a `softening` s every gradient g becomes clip g / (|g| + s), however short it is. An `amplification`
    A_T < sqrt(T) says that the end of T steps on all records costs A_T of one of them in Gaussian differential privacy;
    None is for runs that pay for every step.
    """

    steps: int
    step_size: float
    clip: float
    sampling: Batches
    records: int
    noise: GaussianNoise
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

    def step_size_at(self, t: int) -> float:
        """eta_t."""
        return self.step_size * self.rate.at(t, self.steps)

    def sum_at(self, t: int) -> tuple[Batches, GaussianNoise]:
        """How the sum of step t is drawn, and its noise."""
        if t == 0 and self.first is not None:
            return self.first.sampling, self.first.noise
        return self.sampling, self.noise

    @property
    def sums(self) -> tuple[tuple[Batches, GaussianNoise, int], ...]:
        """What `sum_at` gives, and in how many steps."""
        if self.first is None:
            return ((self.sampling, self.noise, self.steps),)
        return ((*self.sum_at(0), 1), (self.sampling, self.noise, self.steps - 1))[: self.steps]

    @property
    def step_events(self) -> StepEvents:
        if self.amplification is not None:
            return ()
        return tuple((sampling.event(noise.event, self.records), count) for sampling, noise, count in self.sums)

    @property
    def event(self) -> Event:
        if self.amplification is not None:
            _, distance = flatten(self.noise.event)
            return Approximate(GaussianDP(self.amplification / self.noise.multiplier), self.steps * distance)
        steps = self.step_events
        return steps[0][0] if self.steps == 1 else Composed(steps)

    _repr_html_ = plan_card
