r"""The best of a secret number of private runs (Papernot & Steinke 2022), in Renyi differential privacy.

Let every run satisfy rho(alpha) at every order, and let K have mean m. Keeping the best run satisfies

    truncated negative binomial of shape eta (0: logarithmic, 1: geometric), by their Theorem 2, for any order a >= 1,

        rho'(alpha) = rho(alpha) + (1 + eta) ((1 - 1/a) rho(a) + log(1/gamma) / a) + log(m) / (alpha - 1);

    Poisson, by their Theorem 6, where runs satisfy (e, d)-DP with e = log(1 + 1/(alpha - 1)),

        rho'(alpha) = rho(alpha) + m d + log(m) / (alpha - 1).

Runs that draw one of several settings at random, or in which the neighbours differ in one of several parts, satisfy the
largest rho and d among them: a mixture's divergence is at most its worst component's. Divergences grow with their
order, so a bound at a higher one serves a lower one as well. It is the only method that knows these events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sordino.arrays import Array
from sordino.budget import Relation
from sordino.privacy.accountants.event_leaves import check_epsilon, leaves_of, smallest_epsilon, total_delta
from sordino.privacy.accountants.rdp import ORDERS, RenyiAccountant, divergences, least_delta, least_epsilon
from sordino.privacy.events import Composed, Event, GaussianDP, Selected, flatten
from sordino.privacy.gaussian_profile import gdp_delta
from sordino.privacy.repetitions import stopping

_RENYI = RenyiAccountant()
_SHAPES = {"logarithmic": 0.0, "geometric": 1.0}
_UP = 1 + 1e-12  # outweighs the rounding of a few operations


@dataclass(frozen=True)
class RepeatedAccountant:
    """Selections, together with anything that has a Renyi divergence."""

    name: str = "rdp of selections"

    def supports(self, event: Event, relation: Relation) -> bool:
        selections, rest = _parted(event)
        return (
            bool(selections)
            and not _leaks(selections, rest, relation)
            and _RENYI.supports(rest, relation)
            and all(_RENYI.supports(run, relation) for selected, _ in selections for run in selected.events)
        )

    def epsilon(self, event: Event, delta: float, relation: Relation) -> float:
        rho, distance = total_divergences(event, relation)
        return smallest_epsilon(lambda d: least_epsilon(rho, d), delta, distance)

    def delta(self, event: Event, epsilon: float, relation: Relation) -> float:
        check_epsilon(epsilon)
        rho, distance = total_divergences(event, relation)
        return total_delta(lambda e: least_delta(rho, e), epsilon, distance)

    def error(self, event: Event, delta: float, relation: Relation, epsilon: float) -> float | None:
        """Not known: neither the theorems nor the conversion from moments are tight."""
        return None


def selected_divergences(event: Selected, relation: Relation) -> Array:
    """rho' at every order of `ORDERS`, for runs without a distance of their own."""
    runs, m = _worst(event.events, relation), event.mean_runs
    rho: Array = np.max([divergences(run, relation) for run in runs], axis=0)
    if event.law == "poisson":
        added = m * np.max([_run_deltas(run, relation) for run in runs], axis=0)
    else:
        eta, gamma = _SHAPES[event.law], stopping(m, event.law)
        added = (1 + eta) * np.min((1 - 1 / ORDERS) * rho - math.log(gamma) / ORDERS)
    bounds = (rho + added + math.log(m) / (ORDERS - 1)) * _UP
    # the least bound at this order or a higher one
    least: Array = np.minimum.accumulate(bounds[::-1])[::-1]
    return least


def _worst(runs: tuple[Event, ...], relation: Relation) -> set[Event]:
    """The runs that may decide the maxima: of the Gaussian ones, that with the largest mu."""
    largest = max((c.mu for run in runs if (c := leaves_of(run, relation)).gaussian), default=None)
    others = {run for run in runs if not leaves_of(run, relation).gaussian}
    return others if largest is None else {*others, GaussianDP(largest)}


@lru_cache(maxsize=256)
def _run_deltas(run: Event, relation: Relation) -> Array:
    """For every order alpha, the delta of one run at epsilon = log(1 + 1/(alpha - 1)), which is exact if Gaussian."""
    # rounded down, which costs more
    epsilons = (np.log1p(1 / (ORDERS - 1)) / _UP).tolist()
    leaves = leaves_of(run, relation)
    if leaves.gaussian:
        return np.array([gdp_delta(epsilon, leaves.mu) for epsilon in epsilons])
    rho = divergences(run, relation)
    return np.array([least_delta(rho, epsilon) for epsilon in epsilons])


def total_divergences(event: Event, relation: Relation) -> tuple[Array, float]:
    """rho at every order of `ORDERS` of an event with or without selections, and its distance."""
    selections, rest = _parted(event)
    if _leaks(selections, rest, relation):
        raise ValueError("a leak has no divergence: it is not accounted for together with a selection.")
    rho = divergences(rest, relation)
    for selected, count in selections:
        rho = rho + count * selected_divergences(selected, relation)
    return rho, flatten(event)[1]


def _leaks(selections: list[tuple[Selected, int]], rest: Event, relation: Relation) -> bool:
    runs = [run for selected, _ in selections for run in selected.events]
    return any(leaves_of(one, relation).leak > 0 for one in (rest, *runs))


def _parted(event: Event) -> tuple[list[tuple[Selected, int]], Event]:
    """The selections, and everything else."""
    leaves, _ = flatten(event)
    selections = [(leaf, count) for leaf, count in leaves.items() if isinstance(leaf, Selected)]
    rest = Composed(tuple((leaf, count) for leaf, count in leaves.items() if not isinstance(leaf, Selected)))
    return selections, rest
