"""Batches and noise of a descent: drawn or in order, independent or correlated, by settings and public facts alone.

Where batches are secret, a coin hides every step, and correlated noise gains only where steps are many and noise is
small (few epochs, large epsilon): bands make the noise of p steps that of one batch p times as large, and keep all
steps. Where batches are public (records read in their order), nothing else is hidden, and correlated noise always wins:
a run of k epochs needs 3 to 9 times less of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple, Protocol

from sordino.budget import Budget
from sordino.methods.plan import Batches
from sordino.methods.protocol import AnyProblem
from sordino.methods.schedule import (
    LONGEST,
    STRIDE,
    Descent,
    balanced_descent,
    expected_radius,
    gaussian_allowance,
    predicted_excess,
)
from sordino.methods.settings import batches_of
from sordino.oracle.allowed import allow_sampling
from sordino.oracle.sampling import CyclicPoisson, InOrder
from sordino.privacy.accountants import gdp_epsilon
from sordino.privacy.calibrate import calibrate
from sordino.privacy.correlated_noise import CorrelatedNoise
from sordino.privacy.correlation import MOST_BANDS, BandedToeplitz, Correlation
from sordino.privacy.correlation_choice import WORTH_IT, best_banded, best_in_order, prefix_error
from sordino.privacy.events import Event, repeat
from sordino.privacy.noise import GaussianNoise
from sordino.problem import Problem

Batching = Literal["poisson", "fixed_size", "in_order"]
"""Every record by its own coin; a secret subset of fixed size; or one batch after the other, as the records stand."""

NoiseKind = Literal["auto", "independent", "correlated"]
"""Of one step's noise and that of others. "auto" is correlated where batches are in order, and else independent."""


EPOCHS_IN_ORDER, BATCHES_IN_ORDER = 4, (4, 10, 25, 50, 100, 200)
"""How often records in order are read unless somebody says otherwise, and batches of an epoch to choose from."""


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
    @property
    def steps(self) -> int | None: ...
    @property
    def batch_size(self) -> int | None: ...
    @property
    def step_size(self) -> float | None: ...
    @property
    def clip(self) -> float | None: ...
    @property
    def momentum(self) -> float: ...


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
    b, correlation = batches.batches, _correlation(settings, steps, batches.batches)
    return NoisyBatches(batches, lambda m: CorrelatedNoise.at(m, Delta, problem.dim, correlation, steps, b))


def _correlation(settings: CorrelatedSettings, steps: int, batches: int) -> Correlation:
    """Of the noise of batches in order."""
    if settings.noise == "independent":
        return BandedToeplitz()
    if settings.bands is None:
        return best_in_order(steps, batches)
    if settings.bands <= min(batches, steps):
        return best_banded(steps, int(settings.bands))
    raise ValueError(
        f"bands is {settings.bands}: the noise may remember at most as many steps as there are batches, {batches}, and "
        f"steps, {steps}."
    )


def in_order_descent(settings: CorrelatedSettings, problem: Problem, budget: Budget) -> tuple[Descent, int]:
    r"""Steps, their size, the clip and the size of batches in order with the least predicted excess.

    With b batches in an epoch and T steps the noise of the mean iterate is that of a descent on all records of the same
    length, in T steps that are paid for one by one, times

        rho = sqrt 2 S sqrt(mean q_t) b/T         (`privacy.correlation_choice`; 1 where b is 1 and noise independent)

    so that the picture of `methods.schedule` holds with mu/rho in the place of mu.
    """
    allow_sampling(InOrder(1), budget.relation, problem.unit)
    n, mu = problem.records, gaussian_allowance(problem.dim, budget)
    _, beta, _ = problem.constants
    # noise with bands remembers one epoch at most
    known = [b for b in BATCHES_IN_ORDER if b >= (settings.bands or 1)] or [int(settings.bands or 1)]
    sizes = [-(-n // b) for b in known] if settings.batch_size is None else [int(settings.batch_size)]
    tried: list[tuple[float, Descent, int]] = []
    for size in sizes:
        b = -(-n // size)
        T = settings.steps or EPOCHS_IN_ORDER * b
        correlation = _correlation(settings, T, b)
        rho = math.sqrt(2) * correlation.sensitivity(T, b) * prefix_error(correlation, T) * b / T
        weaker = replace(budget, epsilon=gdp_epsilon(mu / rho, budget.delta))
        plain = balanced_descent(problem, weaker, clip=settings.clip, paid="every step", longest=LONGEST)
        # momentum makes a step 1/(1 - m) times as long in the end
        reach = 1 / (1 - settings.momentum)
        eta = settings.step_size or min(plain.steps * plain.step_size / T / reach, STRIDE / beta)
        R0 = expected_radius(problem)
        excess = predicted_excess(problem, budget.relation, mu / rho, T, eta * reach, R0, plain.clip, "every step")
        tried.append((excess, Descent(T, eta, plain.clip), size))
    _, descent, size = min(tried)
    return descent, size


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
