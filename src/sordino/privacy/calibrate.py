"""The least noise that a budget allows.

Everything that a plan may choose is fixed but one number, the noise multiplier; more of it costs less.  For Gaussian
releases the answer is a closed form.  Otherwise a coarse accountant, which is also an upper bound, brings the search
close, and a few exact evaluations settle it.  What is returned has been verified: its event costs at most the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sordino.budget import Budget
from sordino.privacy import accountants
from sordino.privacy.accountants.event_leaves import leaves_of
from sordino.privacy.accountants.pld import LossAccountant
from sordino.privacy.events import Event
from sordino.privacy.noise import GaussianNoise, L2LaplaceNoise

_COARSE = LossAccountant(grain=0.1)
_SLACK = 1e-4
"""The event returned costs at least (1 - 1e-4) of the budget."""

_SMALLEST, _LARGEST = 2.0**-20, 2.0**40
_KEPT = 64


def calibrate(build: Callable[[float], Event], budget: Budget) -> float:
    """The smallest multiplier whose event `build(multiplier)` costs at most `budget`, to four digits and safe.

    `build` must cost less the larger the multiplier is.
    """
    leaves = leaves_of(build(1.0), budget.relation)
    if leaves.special:
        return _at_epsilon(build, budget)
    found = _closed_form(build, budget)
    return found if found is not None else _search_once(build, budget)


def noise_for(sensitivity: float, budget: Budget, dim: int) -> GaussianNoise | L2LaplaceNoise:
    """The least noise with which one release of a vector costs at most `budget`."""
    if budget.pure:
        return L2LaplaceNoise(sensitivity, budget.epsilon, dim)
    multiplier = calibrate(lambda m: GaussianNoise.at(m, sensitivity, dim).event, budget)
    return GaussianNoise.at(multiplier, sensitivity, dim)


def _at_epsilon(build: Callable[[float], Event], budget: Budget) -> float:
    """For events whose delta is much quicker to find than their epsilon: bisect delta(budget.epsilon)."""

    def fits(multiplier: float) -> bool:
        return accountants.delta(build(multiplier), budget.epsilon, budget.relation) <= budget.delta * (1 - 1e-7)

    low, high = 0.5, 1.0
    while not fits(high):
        low, high = high, 2 * high
        if high > _LARGEST:
            raise ValueError(_impossible(budget))
    while low > _SMALLEST and fits(low):
        low, high = low / 2, low
    while high / low > 1 + _SLACK / 10:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _closed_form(build: Callable[[float], Event], budget: Budget) -> float | None:
    """mu(multiplier) = mu(1) / multiplier for Gaussian releases; None if the event is anything else."""
    leaves = leaves_of(build(1.0), budget.relation)
    if not leaves.gaussian or leaves.leak or budget.pure or leaves.mu == 0:
        return None
    # A lattice's distance depends on the noise by less than this factor, and is taken off delta beforehand; where that
    # is too much, the distance at the noise found is taken.
    distance = 5 * leaves.total_variation
    for attempt in range(3):
        allowed, buys = _allowed(budget, distance)
        if allowed == 0:
            return None
        # A few units in the last place: the event rounds 1 / multiplier^2 and the sum of its parts.  Where there is a
        # distance, epsilon is found to 1e-9, from above; it falls at least as fast as the multiplier grows.
        multiplier = leaves.mu / allowed * (1 + (2e-9 if distance else 1e-14))
        event = build(multiplier)
        happened = leaves_of(event, budget.relation)
        if not happened.mu <= allowed <= happened.mu * (1 + 1e-6):
            return None
        spent = accountants.epsilon(event, budget.delta, budget.relation)
        tight = spent >= (1 - _SLACK) * budget.epsilon if buys else attempt > 0
        if tight and spent <= budget.epsilon:
            return multiplier
        distance = happened.total_variation
    return None


def _allowed(budget: Budget, distance: float) -> tuple[float, bool]:
    """The mu that `budget` leaves beside a total variation distance (0 if none), and whether all of epsilon is in it.

    The distance's share (1 + e^epsilon) distance grows with epsilon: beyond where it is half of delta a larger epsilon
    buys nothing.
    """
    if distance == 0:
        return accountants.gdp_mu(budget.epsilon, budget.delta), True
    epsilon = min(budget.epsilon, math.log(max(1.0, budget.delta / (2 * distance))))
    left = budget.delta - (1 + math.exp(epsilon)) * distance
    return (accountants.gdp_mu(epsilon, left) if left > 0 else 0.0), epsilon == budget.epsilon


_found: dict[tuple[Event, Budget], tuple[float, Event]] = {}
"""The last multipliers that were searched for, with their events; by the event at multiplier 1."""


def _search_once(build: Callable[[float], Event], budget: Budget) -> float:
    """Methods with other steps, clips or penalties often have the same events."""
    sought = build(1.0), budget
    multiplier, event = _found.get(sought, (1.0, None))
    if event is None or build(multiplier) != event:
        multiplier = _search(build, budget)
        _found[sought] = multiplier, build(multiplier)
        for oldest in list(_found)[:-_KEPT]:
            _found.pop(oldest, None)
    return multiplier


def _search(build: Callable[[float], Event], budget: Budget) -> float:
    sampled = leaves_of(build(1.0), budget.relation).sampled
    coarse = sampled and _COARSE.supports(build(1.0), budget.relation)
    roughly = _excess(build, budget, _COARSE.epsilon if coarse else accountants.epsilon)
    low, high, slope = _narrow(roughly, budget)

    # From here on the tightest accountant.  The coarse one errs upwards, so `high` is on the safe side.
    exactly = _excess(build, budget, accountants.epsilon)
    safe, excess = high, exactly(high)
    while excess > 0:
        safe *= 1 + _SLACK
        excess = exactly(safe)
    unsafe = low / (1 + 100 * _SLACK)
    while excess < -_SLACK and safe / unsafe > 1 + 1e-3 * _SLACK:
        # Along the slope of the coarse curve, in logarithms, to just inside the budget.
        guess = safe * math.exp(-(excess + _SLACK / 3) / slope)
        if not unsafe < guess < safe:
            guess = math.sqrt(unsafe * safe)
        value = exactly(guess)
        if value > 0:
            unsafe = guess
        else:
            slope = (value - excess) / math.log(guess / safe) if value != excess else slope
            safe, excess = guess, value
    return safe


def _excess(build: Callable[[float], Event], budget: Budget, cost: Callable[..., float]) -> Callable[[float], float]:
    """log(epsilon / budget) as a function of the multiplier, within +-50."""

    def excess(multiplier: float) -> float:
        epsilon = cost(build(multiplier), budget.delta, budget.relation)
        if epsilon == 0:
            return -50.0
        return min(50.0, math.log(epsilon / budget.epsilon)) if math.isfinite(epsilon) else 50.0

    return excess


def _narrow(excess: Callable[[float], float], budget: Budget) -> tuple[float, float, float]:
    """Multipliers that cost slightly too much and not too much, and the slope of log epsilon between them."""
    low = high = 1.0
    above = below = excess(1.0)
    while below > 0:
        low, above, high = high, below, high * (2 if high < 256 else 16)
        if high > _LARGEST:
            raise ValueError(_impossible(budget))
        below = excess(high)
    while above <= 0:
        high, below, low = low, above, low / 2
        if low < _SMALLEST:
            raise ValueError(
                f"this event satisfies epsilon = {budget.epsilon}, delta = {budget.delta} under {budget.relation} "
                "almost without noise: delta is at least the chance that a record is used. Choose a smaller delta."
            )
        above = excess(low)
    # Regula falsi in logarithms, halving the weight of an end that stays (Illinois).
    x, y, f, g = math.log(low), math.log(high), above, below
    while y - x > 1e-3 and g < -1e-3:
        middle = (x * g - y * f) / (g - f)
        middle = min(max(middle, x + 0.02 * (y - x)), y - 0.02 * (y - x))
        value = excess(math.exp(middle))
        if value > 0:
            x, f, above, low = middle, value, value, math.exp(middle)
            g /= 2
        else:
            y, g, below, high = middle, value, value, math.exp(middle)
            f /= 2
    return low, high, (below - above) / math.log(high / low)


def _impossible(budget: Budget) -> str:
    why = "Gaussian noise never reaches delta = 0" if budget.pure else "what does not depend on it costs more"
    return (
        f"no amount of noise brings this event within epsilon = {budget.epsilon}, delta = {budget.delta} under "
        f"{budget.relation}: {why}. Raise the budget, or use a mechanism that fits it."
    )
