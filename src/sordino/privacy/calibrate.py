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
from sordino.privacy.accountants.gdp import GaussianAccountant
from sordino.privacy.accountants.pld import LossAccountant
from sordino.privacy.events import Event
from sordino.privacy.noise import GaussianNoise, L2LaplaceNoise

_CLOSED_FORM = GaussianAccountant()
_COARSE, _HALF_AS_COARSE = LossAccountant(grain=0.2), LossAccountant(grain=0.1)
_SLACK = 1e-4
"""The event returned costs at least (1 - 1e-4) of the budget."""

_STEEPEST = -50.0
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
    leaves = leaves_of(build(1.0), budget.relation)
    # of Gaussian releases nobody knows more than the closed form, which is infinite where a lattice's distance is in
    # the way: then the others would be asked in vain, at every step of the search
    exactly = _excess(build, budget, _CLOSED_FORM.epsilon if leaves.gaussian else accountants.epsilon)
    if leaves.sampled and _COARSE.supports(build(1.0), budget.relation):
        coarsely, finer = (_excess(build, budget, one.epsilon) for one in (_COARSE, _HALF_AS_COARSE))
        guess, slope = _roughly(coarsely, budget)
        # what a grid adds goes with the square of its grain
        above, nearer = coarsely(guess), finer(guess)
        guess *= math.exp(-(nearer - (above - nearer) / 3 + _SLACK / 2) / slope)
    else:
        guess, slope = _roughly(exactly, budget)

    # From here on the tightest accountant: along the slope, in logarithms, to the middle of what is close enough.
    unsafe, safe, width = 0.0, math.inf, math.inf
    while True:
        excess = exactly(guess)
        unsafe, safe = (guess, safe) if excess > 0 else (unsafe, guess)
        if -_SLACK <= excess <= 0 or safe <= unsafe * (1 + 1e-3 * _SLACK):
            return safe
        guess *= math.exp(-(excess + _SLACK / 2) / slope)
        before, width = width, math.log(safe / unsafe) if 0 < unsafe and safe < math.inf else math.inf
        # epsilon may jump to infinity beside the budget, and then no slope leads there
        if not unsafe < guess < safe or width > before / 2:
            guess = math.sqrt(unsafe * safe) if width < math.inf else 2 * unsafe or safe / 2
        if guess > _LARGEST:
            raise ValueError(_impossible(budget))


def _excess(build: Callable[[float], Event], budget: Budget, cost: Callable[..., float]) -> Callable[[float], float]:
    """log(epsilon / budget) as a function of the multiplier, within +-50."""

    def excess(multiplier: float) -> float:
        epsilon = cost(build(multiplier), budget.delta, budget.relation)
        if epsilon == 0:
            return -50.0
        return min(50.0, math.log(epsilon / budget.epsilon)) if math.isfinite(epsilon) else 50.0

    return excess


def _roughly(excess: Callable[[float], float], budget: Budget) -> tuple[float, float]:
    """About the multiplier that costs the budget, and the slope of log epsilon there."""
    from scipy.optimize import brentq

    found: dict[float, float] = {}

    def at(x: float) -> float:
        if x not in found:
            found[x] = excess(math.exp(x))
        return found[x]

    low = high = 0.0
    while at(high) > 0:
        low, high = high, high + math.log(2 if high < math.log(256) else 16)
        if high > math.log(_LARGEST):
            raise ValueError(_impossible(budget))
    while at(low) <= 0:
        low, high = low - math.log(2), low
        if low < math.log(_SMALLEST):
            raise ValueError(
                f"this event satisfies epsilon = {budget.epsilon}, delta = {budget.delta} under {budget.relation} "
                "almost without noise: delta is at least the chance that a record is used. Choose a smaller delta."
            )
    root = brentq(at, low, high, xtol=1e-3)
    near, far = sorted(found, key=lambda x: abs(x - root))[:2]
    slope = (at(far) - at(near)) / (far - near)
    # a steeper one is a jump, not a slope, and would lead nowhere
    return math.exp(root), slope if _STEEPEST < slope < 0 else -1.0


def _impossible(budget: Budget) -> str:
    why = "Gaussian noise never reaches delta = 0" if budget.pure else "what does not depend on it costs more"
    return (
        f"no amount of noise brings this event within epsilon = {budget.epsilon}, delta = {budget.delta} under "
        f"{budget.relation}: {why}. Raise the budget, or use a mechanism that fits it."
    )
