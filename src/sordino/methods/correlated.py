"""Batches and noise of a descent: drawn or in order, independent or correlated, by settings and public facts alone.

Where batches are secret, a coin hides every step, and correlated noise gains only where steps are many and noise is
small (few epochs, large epsilon): bands make the noise of p steps that of one batch p times as large, and keep all
steps. Where batches are public (records read in their order), nothing else is hidden, and correlated noise always wins:
a run of k epochs needs 3 to 9 times less of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

from sordino.budget import Budget
from sordino.methods.plan import Batches
from sordino.methods.protocol import AnyProblem
from sordino.methods.settings import batches_of
from sordino.oracle.allowed import allow_sampling
from sordino.oracle.sampling import CyclicPoisson, InOrder
from sordino.privacy.calibrate import calibrate
from sordino.privacy.correlated_noise import CorrelatedNoise
from sordino.privacy.correlation import MOST_BANDS, BandedToeplitz, Correlation
from sordino.privacy.correlation_choice import WORTH_IT, best_banded, best_in_order, prefix_error
from sordino.privacy.events import Event, repeat
from sordino.privacy.noise import GaussianNoise

Batching = Literal["poisson", "fixed_size", "in_order"]
"""Every record by its own coin; a secret subset of fixed size; or one batch after the other, as the records stand."""

NoiseKind = Literal["auto", "independent", "correlated"]
"""Of one step's noise and that of others. "auto" is correlated where batches are in order, and else independent."""


class NoisyBatches(NamedTuple):
    """How sums are drawn, and their noise at a multiplier: std over sensitivity."""

    sampling: Batches
    noise_at: Callable[[float], GaussianNoise | CorrelatedNoise]


class CorrelatedSettings(Protocol):
    @property
    def sampling(self) -> Batching: ...
    @property
    def noise(self) -> NoiseKind: ...
    @property
    def bands(self) -> int | None: ...
    @property
    def noise_multiplier(self) -> float | None: ...


def noisy_batches(
    settings: CorrelatedSettings, steps: int, size: int, clip: float, problem: AnyProblem, budget: Budget
) -> NoisyBatches:
    """For `steps` sums of about `size` records, each of which adds `clip` at most."""
    n, d, steps, size = problem.records, problem.dim, int(steps), int(size)
    Delta = budget.relation.distance * clip
    drawn = batches_of("fixed_size" if settings.sampling == "fixed_size" else "poisson", size, n)
    independent = NoisyBatches(drawn, lambda multiplier: GaussianNoise.at(multiplier, Delta, d))
    _check(settings)

    def in_groups(bands: int) -> NoisyBatches:
        if not 1 <= bands <= min(steps, n // size):
            raise ValueError(
                f"bands is {bands}: there must be at most as many as steps, {steps}, and as batches in the records, "
                f"{n // size}."
            )
        if bands == 1:
            return independent
        groups = CyclicPoisson(min(1.0, bands * size / n), bands)
        allow_sampling(groups, budget.relation, problem.unit)
        chosen = best_banded(steps, bands)
        return NoisyBatches(groups, lambda m: CorrelatedNoise.at(m, Delta, d, chosen, steps, bands))

    match settings.sampling:
        case "in_order":
            return _in_order(settings, steps, size, Delta, problem, budget)
        case "poisson" if settings.noise == "correlated":
            if settings.bands is not None:
                return in_groups(int(settings.bands))
            return _least_error(in_groups, steps, min(steps, n // size), budget, n)
    return independent


def _in_order(
    settings: CorrelatedSettings, steps: int, size: int, Delta: float, problem: AnyProblem, budget: Budget
) -> NoisyBatches:
    batches = InOrder(-(-problem.records // size))
    allow_sampling(batches, budget.relation, problem.unit)
    b = batches.batches
    correlation: Correlation
    if settings.noise == "independent":
        correlation = BandedToeplitz()
    elif settings.bands is None:
        correlation = best_in_order(steps, b)
    elif settings.bands <= min(b, steps):
        correlation = best_banded(steps, int(settings.bands))
    else:
        raise ValueError(
            f"bands is {settings.bands}: the noise may remember at most as many steps as there are batches, {b}, and "
            f"steps, {steps}."
        )
    return NoisyBatches(batches, lambda m: CorrelatedNoise.at(m, Delta, problem.dim, correlation, steps, b))


def _least_error(
    in_groups: Callable[[int], NoisyBatches], steps: int, most: int, budget: Budget, records: int
) -> NoisyBatches:
    """Of 1, 2, 4, .. bands those with the least noise in the mean iterate, at what the budget needs."""
    best, least, bands = in_groups(1), math.inf, 1
    while bands <= min(most, MOST_BANDS):
        tried = in_groups(bands)
        multiplier = calibrate(lambda m, tried=tried: event_of(tried, m, steps, records), budget)  # type: ignore[misc]
        noise = tried.noise_at(multiplier)
        correlation = noise.correlation if isinstance(noise, CorrelatedNoise) else BandedToeplitz()
        error = noise.std * prefix_error(correlation, steps)
        if error >= WORTH_IT * least:
            break
        best, least, bands = tried, error, 2 * bands
    return best


def event_of(batches: NoisyBatches, multiplier: float, steps: int, records: int) -> Event:
    """What a run of so many steps releases."""
    sampling, noise = batches.sampling, batches.noise_at(multiplier)
    if isinstance(noise, CorrelatedNoise):
        assert isinstance(sampling, InOrder | CyclicPoisson)
        return sampling.event_of_run(noise)
    return repeat(sampling.event(noise.event, records), steps)


def _check(settings: CorrelatedSettings) -> None:
    if settings.noise != "correlated" and settings.bands is not None and settings.sampling != "in_order":
        raise ValueError(f"bands is {settings.bands}, and the noise is independent: ask for noise='correlated'.")
    if settings.noise == "independent" and settings.bands is not None:
        raise ValueError(f"bands is {settings.bands} and noise is 'independent', which has none: leave one out.")
    if settings.noise == "correlated" and settings.sampling == "fixed_size":
        raise ValueError(
            "noise is 'correlated' on batches of fixed size: a record may come back at any step, and what its "
            "participations show would add up. Use sampling='in_order' or 'poisson'."
        )
    in_turns = settings.noise == "correlated" and settings.sampling == "poisson"
    if in_turns and settings.noise_multiplier is not None and settings.bands is None:
        raise ValueError(
            "noise_multiplier is given for correlated noise on Poisson batches: say how many bands it has, because the "
            "number that is best follows from the budget."
        )
