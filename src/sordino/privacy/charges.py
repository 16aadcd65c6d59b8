r"""What releases take from a budget when each is chosen in view of the outputs of those before it.

Composition theorems fix the costs of all releases beforehand. Somebody who trains a model, looks at it, and decides
how much to spend on the next one does not, and then what was truly spent must stay inside a *filter*, whatever the
outputs suggested (Rogers, Roth, Ullman & Vadhan 2016). Two filters are used, and a path of releases must stay inside
one of them:

    pure        sum epsilon_t <= epsilon,
    Gaussian    sum mu_t^2 <= mu^2   and   sum leak_t + (1 + e^epsilon) sum distance_t <= delta / 100,
                where mu-GDP gives (epsilon, 99 delta / 100)          (Smith & Thakurta 2022).

The second holds because a mu_t-GDP release can be computed from a stretch of length mu_t^2 of a Brownian motion that
drifts with one neighbour and not with the other. However the stretches are chosen in view of the path so far, together
they are computed from one path of length mu^2, which is mu-GDP.  `leak_t` is the probability with which a release may
give away everything, and `distance_t` how far (total variation) it is from one that keeps to its mu_t.

The paths of either kind stay inside their filter on their own, and pure ones add no delta, so together they satisfy
(epsilon, delta). Nothing was seen before the first release: it is accounted exactly, and where it uses up more than the
filters allow, it is also the last.

How a release becomes (mu_t, leak_t): Gaussian noise by its multiplier; a pure release, which randomised response
dominates, by mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)); anything else by its privacy profile, which must stay below

    delta_t(x) <= leak_t + (1 - leak_t) H(x, mu_t)   for all x >= 0,    H(x, mu) = the profile of mu-GDP.

`privacy.filter` keeps the steps of one run within one budget by one of these rules; a data set sees releases of every
kind, in an order that nobody knows beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from scipy.special import ndtri_exp

from sordino.budget import Budget, Relation
from sordino.privacy import accountants
from sordino.privacy.accountants import gdp_epsilon, gdp_mu
from sordino.privacy.accountants.content import read
from sordino.privacy.accountants.pld import LossAccountant
from sordino.privacy.events import (
    Composed,
    Event,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    PoissonSampled,
    PureDP,
    flatten,
)

RESERVE = 0.01
"""The share of delta set aside for leaks and distances."""

_CELLS = 64
_ON_A_GRID = {Gaussian, GaussianDP, PureDP, PoissonSampled, FixedSizeSampled}
_UP = 1 + 1e-9  # outweighs the rounding of a few operations


@dataclass(frozen=True)
class Charge:
    """What one release, or all of them together, takes. `epsilon` is infinite unless everything was pure."""

    mu: float = 0.0
    epsilon: float = 0.0
    leak: float = 0.0
    distance: float = 0.0


def charge(event: Event, cap: Budget, place: int) -> Charge:
    """What `event` takes from `cap`, as the release number `place` >= 1."""
    leaves, distance = flatten(event)
    if all(isinstance(leaf, Gaussian | GaussianDP | PureDP) for leaf in leaves):
        content = read(event, cap.relation)
        squares = [content.mu**2, *(count * _pure_mu(one.epsilon) ** 2 for one, count in content.pure)]
        pure = content.mu == 0 and distance == 0
        return Charge(math.sqrt(math.fsum(squares)) * _UP, content.epsilons if pure else math.inf, 0.0, distance)
    if cap.pure:
        return Charge(math.inf, math.inf, 0.0, distance)
    # sum_k 1/(k (k+1)) = 1: half of the reserve lasts for any number of such releases, the rest for distances
    leak = RESERVE / 2 * cap.delta / (place * (place + 1))
    # the distances are charged beside the profile, not inside it
    return Charge(_profile_mu(Composed(tuple(leaves.items())), leak, cap.relation), math.inf, leak, distance)


def total(charges: Iterable[Charge]) -> Charge:
    all_ = list(charges)
    return Charge(
        math.sqrt(math.fsum(one.mu**2 for one in all_)),
        math.fsum(one.epsilon for one in all_),
        math.fsum(one.leak for one in all_),
        math.fsum(one.distance for one in all_),
    )


def epsilon_of(taken: Charge, cap: Budget) -> float:
    """The least epsilon that a cap with this one's delta must have for `taken` to stay inside; never less than true."""
    reserve = RESERVE * cap.delta
    spilled = taken.leak + (1 + math.exp(min(cap.epsilon, 700.0))) * taken.distance
    if cap.pure or spilled > reserve or math.isinf(taken.mu):
        return taken.epsilon
    return min(taken.epsilon, gdp_epsilon(taken.mu, cap.delta - reserve))


def room(taken: Charge, cap: Budget, releases: int) -> float:
    """The largest epsilon that each of so many further releases may have at the cap's delta; 0 when nothing is left.

    It is enough for releases with Gaussian noise, or with pure noise where the cap is pure.
    """
    if cap.pure:
        share = max(0.0, (cap.epsilon - taken.epsilon) / releases)
        while math.fsum([taken.epsilon, *[share] * releases]) > cap.epsilon:
            share = math.nextafter(share, 0.0)
        return share
    left = gdp_mu(cap.epsilon, (1 - RESERVE) * cap.delta) ** 2 - taken.mu**2
    # a millionth less, for what rounding and a lattice's distance will add
    return gdp_epsilon(math.sqrt(left / releases) * (1 - 1e-6), cap.delta) if left > 0 else 0.0


def _pure_mu(epsilon: float) -> float:
    """2 Phi^-1(e^epsilon / (1 + e^epsilon)): the Gaussian trade-off through randomised response's corner."""
    return -2 * float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon))))


@lru_cache(maxsize=256)
def _profile_mu(event: Event, leak: float, relation: Relation) -> float:
    """The mu for which  delta_event(x) <= leak + (1 - leak) H(x, mu)  holds at every x >= 0."""
    kinds = {type(leaf) for leaf in flatten(event)[0]}
    # a coarser grid is faster and still above the profile
    accountant: Any = LossAccountant(grain=0.05) if kinds <= _ON_A_GRID else accountants
    top = accountant.epsilon(event, leak, relation)
    if not math.isfinite(top):
        return math.inf
    # between two edges the left side is at most its value at the lower one, the right side at least at the upper one
    edges = [top * (1 - math.cos(math.pi * k / _CELLS)) / 2 for k in range(_CELLS + 1)]
    mu, delta = 0.0, 1.0
    for low, high in pairwise(edges):
        # a profile never rises, so a bound found further left also holds here
        delta = min(delta, accountant.delta(event, low, relation))
        needed = (delta - leak) / (1 - leak)
        if needed >= 1 - 1e-9:
            return math.inf
        if needed > 0:
            mu = max(mu, gdp_mu(high, needed))
    return mu * _UP
