r"""How step sizes change along a run: eta_t = eta * rate_t, from the number of the step alone, so for free.

Constant              rate_t = 1
StepDecay(k, f)       rate_t = f^(t // k)
HalvedMidway          rate_t = 1, and 1/2 in the second half (the experiments of Yu et al. 2020)
Inverse               rate_t = 1/(t + 1)
InverseRoot           rate_t = 1/sqrt(t + 1)
Cosine(c)             rate_t = c + (1 - c) (1 + cos(pi t / T)) / 2
WarmUp(s, then)       rate_t = (t + 1)/s for t < s, then `then`, as if the run began there
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Integral
from typing import Protocol, runtime_checkable


@runtime_checkable
class Rate(Protocol):
    """Always in (0, 1], so that the step size of a plan is the longest one."""

    def at(self, t: int, T: int) -> float:
        """eta_t / eta at step t = 0, .., T - 1."""
        ...


@dataclass(frozen=True)
class Constant:
    def at(self, t: int, T: int) -> float:
        return 1.0


@dataclass(frozen=True)
class StepDecay:
    """Times `factor` after every `every` steps."""

    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        _whole("every", self.every)
        if not 0 < self.factor <= 1:
            raise ValueError(f"factor is {self.factor}: steps shrink by a factor in (0, 1].")

    def at(self, t: int, T: int) -> float:
        return float(self.factor ** (t // self.every))


@dataclass(frozen=True)
class HalvedMidway:
    def at(self, t: int, T: int) -> float:
        return 1.0 if t < T / 2 else 0.5


@dataclass(frozen=True)
class Inverse:
    def at(self, t: int, T: int) -> float:
        return 1 / (t + 1)


@dataclass(frozen=True)
class InverseRoot:
    def at(self, t: int, T: int) -> float:
        return 1 / math.sqrt(t + 1)


@dataclass(frozen=True)
class Cosine:
    """Down to `floor`, slowly at both ends."""

    floor: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.floor <= 1:
            raise ValueError(f"floor is {self.floor}: it is a fraction of the first step size, in [0, 1].")

    def at(self, t: int, T: int) -> float:
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * t / T)) / 2


@dataclass(frozen=True)
class WarmUp:
    """From small steps to whole ones in `steps` steps, and from there as `then` says."""

    steps: int
    then: Rate = field(default_factory=Constant)

    def __post_init__(self) -> None:
        _whole("steps", self.steps)

    def at(self, t: int, T: int) -> float:
        if t < self.steps:
            return (t + 1) / self.steps
        return self.then.at(t - self.steps, max(1, T - self.steps))


def _whole(name: str, count: int) -> None:
    if not (isinstance(count, Integral) and count >= 1):
        raise ValueError(f"{name} is {count!r}: a whole number of steps is needed, at least one.")


RATES: dict[str, type] = {
    kind.__name__: kind for kind in (Constant, StepDecay, HalvedMidway, Inverse, InverseRoot, Cosine, WarmUp)
}
