"""Who adds the noise, who holds the shares, and how many may pool what they know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from sordino.federation.noise import CorrelatedShares, DistributedGaussian, JointGaussian, SharedNoise
from sordino.privacy.correlated_noise import CorrelatedNoise, NoiseOfRun
from sordino.privacy.events import Approximate, Gaussian, GaussianDP
from sordino.privacy.noise import GaussianNoise, Noise

Mode = Literal["distributed", "committee", "joint"]
"""Every owner adds a share of the noise; three servers do; or coins that all toss together."""

SERVERS = 3


@dataclass(frozen=True)
class Trust:
    """Owners are members 0, 1, ..; a committee's servers come behind them.

    `colluders` is how many owners may pool everything they saw, their own noise included: one is an owner by itself,
    which knows its own. Zero, for distributed noise, protects against those outside the federation alone: an owner
    that takes its own share off is left with less noise than was planned. In a committee any number of owners may pool
    what they saw, together with one server.
    """

    owners: int
    mode: Mode = "distributed"
    colluders: int = 1

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ValueError(f"mode is {self.mode!r}: it must be one of {', '.join(map(repr, get_args(Mode)))}.")
        least = {"distributed": 2, "committee": 1, "joint": 3}[self.mode]
        if self.owners < least:
            raise ValueError(f"{self.owners} owners: {self.mode} noise needs at least {least}.")
        if self.mode == "committee" and self.colluders != 1:
            raise ValueError(
                f"colluders is {self.colluders}: of a committee's three servers exactly one may collude (with any "
                "number of owners)."
            )
        fewest, most = (1, (self.owners - 1) // 2) if self.mode == "joint" else (0, self.owners - 1)
        if self.mode != "committee" and not fewest <= self.colluders <= most:
            raise ValueError(
                f"colluders is {self.colluders} of {self.owners} owners: {self.mode} noise protects against at least "
                f"{fewest} and at most {most}."
            )

    @property
    def members(self) -> int:
        return self.owners + (SERVERS if self.mode == "committee" else 0)

    @property
    def makers(self) -> tuple[int, ...]:
        """Who adds noise."""
        return self.holders

    @property
    def holders(self) -> tuple[int, ...]:
        """Who holds shares of the sum."""
        first = self.owners if self.mode == "committee" else 0
        return tuple(range(first, self.members))

    def coalition(self, holders: Sequence[int]) -> int:
        """How many of `holders` may be on the same side, against at least one honest owner."""
        if self.mode != "committee":
            return self.colluders
        owners = sum(holder < self.owners for holder in holders)
        return max(0, owners - 1) + (len(holders) > owners)

    def realise(self, noise: Noise | CorrelatedNoise) -> SharedNoise:
        """Shared noise whose event is no worse than the planned one, or a sentence why there is none."""
        planned = noise.noise if isinstance(noise, NoiseOfRun) else noise
        shared: SharedNoise
        if isinstance(planned, CorrelatedNoise):
            if self.mode == "joint":
                raise ValueError(
                    "in joint mode nobody knows the noise of earlier steps, so nobody can take it back: use "
                    "distributed noise or a committee, or Poisson batches with independent noise."
                )
            shared = CorrelatedShares.covering(planned, len(self.makers), self.colluders)
        elif isinstance(planned, GaussianNoise):
            kind = JointGaussian if self.mode == "joint" else DistributedGaussian
            shared = kind.covering(planned, len(self.makers), self.colluders)
        else:
            raise ValueError(
                f"{type(planned).__name__} cannot be shared among owners: a federation adds Gaussian noise; give the "
                "budget a delta, and use a method that perturbs gradients."
            )
        require_cover(shared.event, planned.event)
        return shared


def require_cover(done: Approximate, planned: Approximate) -> None:
    """What is done must be at least as private as what was planned, in noise and in distance."""
    match done.event, planned.event:
        case Gaussian(ours), Gaussian(theirs):
            pass
        case GaussianDP(mu), GaussianDP(other):
            ours, theirs = 1 / mu, 1 / other
        case _:
            raise TypeError("only Gaussian releases can be compared.")
    if ours < theirs or done.total_variation > planned.total_variation:
        raise ValueError(
            f"the owners' noise (multiplier {ours:.9g}, total variation {done.total_variation:.3g}) is less private "
            f"than the plan's ({theirs:.9g}, {planned.total_variation:.3g}): nothing was run, because no certificate "
            "could be given."
        )
