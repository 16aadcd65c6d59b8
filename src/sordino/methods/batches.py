"""What the methods for non-convex problems share: batches, clips, noise, and what a network must be told."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, get_args

from sordino.budget import Budget
from sordino.methods.protocol import Array, Calibration
from sordino.oracle.sampling import FixedSize, FullBatch, Poisson
from sordino.privacy.calibrate import calibrate
from sordino.privacy.events import Event, repeat
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import NetworkProblem, Problem

Batches = FullBatch | Poisson | FixedSize
Drawn = Literal["poisson", "fixed_size"]
Stated = Problem | NetworkProblem


def batches_of(kind: Drawn, batch_size: int, records: int) -> Batches:
    """Batches of this expected size; all records where it is all of them, whatever the kind."""
    if not 1 <= batch_size <= records:
        raise ValueError(f"batch_size is {batch_size}: it must lie between 1 and the {records} records.")
    if batch_size == records:
        return FullBatch()
    return Poisson(batch_size / records) if kind == "poisson" else FixedSize(int(batch_size))


def clip_of(problem: Stated, clip: float | None) -> float:
    """C: contributions of a linear model never exceed L, so a larger clip would only be paid for."""
    if isinstance(problem, NetworkProblem):
        assert clip is not None
        return clip
    L = problem.constants.L
    return L if clip is None else min(L, clip)


def sampled_noise(
    given: float | None, Delta: float, dim: int, event: Callable[[GaussianNoise], Event], budget: Budget
) -> GaussianNoise:
    """Noise with the multiplier that was given, or with the least whose `event` costs at most the budget."""
    if given is None:
        given = calibrate(lambda multiplier: event(GaussianNoise.at(multiplier, Delta, dim)), budget)
    return GaussianNoise.at(given, Delta, dim)


def releases(sampling: Batches, noise: GaussianNoise, records: int, count: int) -> Event:
    """`count` sums over batches, each with noise of its own."""
    return repeat(sampling.event(noise.event, records), count)


def calibration_of(noise_multiplier: float | None) -> Calibration:
    return "tight" if noise_multiplier is None else "given"


def first_iterate(problem: Stated, start: Array | None) -> Array:
    return problem.start() if start is None else start


def stopping_round(T: int, randomness: Randomness) -> int:
    """R, uniform on 1, .., T, from the bits that draw batches: it does not depend on the records."""
    return int(randomness.sampling.generator.integers(1, T, endpoint=True))


def require_settings(method: Any, problem: Stated, *names: str) -> None:
    """On a network nothing has a theorem's value: raise a sentence that names what is missing."""
    missing = [name for name in names if getattr(method, name) is None]
    if isinstance(problem, NetworkProblem) and missing:
        raise ValueError(
            f"{type(method).__name__} on a network needs {_listed(missing)}: its gradients have no known bound from "
            "which they could follow; give the method numbers that do not come from the records."
        )


def check_settings(
    method: Any,
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
        if given is not None and not (math.isfinite(given) and given > 0):
            raise ValueError(f"{name} is {given}: it must be positive and finite.")
        if name in whole and given is not None and given != int(given):
            raise ValueError(f"{name} is {given}: it must be a whole number.")
    for name in fractions:
        given = getattr(method, name)
        if given is not None and not 0 <= given < 1:
            raise ValueError(f"{name} is {given}: it must lie in [0, 1).")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
