r"""What releases take from a budget when each is chosen in view of the outputs of those before it.

Composition theorems fix the costs of all releases beforehand. Somebody who looks at a release and then decides what to
spend on the next one does not, and what is truly spent must stay inside a *filter*: a rule, fixed before the first
release, that refuses whatever would exceed its budget (Rogers, Roth, Ullman & Vadhan 2016). These are the rules:

    pure        sum epsilon_t <= epsilon,
    Gaussian    sum mu_t^2 <= mu^2   and   sum leak_t + (1 + e^epsilon) sum distance_t <= reserve,
                where mu-GDP gives (epsilon, delta - reserve)                        (Smith & Thakurta 2022),
    Renyi       sum rho_t(alpha) <= rho(alpha; epsilon, delta - reserve), one alpha  (Feldman & Zrnic 2021),
                and distances as above.

The second holds because a mu_t-GDP release can be computed from a stretch of length mu_t^2 of a Brownian motion that
drifts with one neighbour and not with the other. However the stretches are chosen in view of the path so far, together
they are computed from one path of length mu^2, which is mu-GDP.  `leak_t` is the probability with which a release may
give away everything, and `distance_t` how far (total variation) it is from one that keeps to its mu_t.

A path of releases must stay inside one of the first two. The paths of either kind stay inside their filter on their
own, and pure ones add no delta, so together they satisfy (epsilon, delta). The third is better for many small sampled
releases, and takes the place of both where an example of what is to come is given beforehand.

How a release becomes (mu_t, leak_t): Gaussian noise by its multiplier; a pure release, which randomised response
dominates, by mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)); anything else by its privacy profile, which must stay below

    delta_t(x) <= leak_t + (1 - leak_t) H(x, mu_t)   for all x >= 0,    H(x, mu) = the profile of mu-GDP.

A neighbour has the other for its neighbour, so a profile holds both ways, and beside what it says of x it says

    delta_t(x) <= 1 - (1 + e^x) (1 - delta_t(y)) / (1 + e^y)     for every y >= x:

the errors a and b of a test between two neighbours have e^y a + b and a + e^y b at 1 - delta_t(y) or above, so that
e^x a + b is least where they are equal. Bounds that are made for one epsilon may lie far above that near 0.

The whole profile: a release that is (epsilon, delta)-private at one epsilon may cost more beside others than the
Gaussian release that is. An event that no accountant can price raises.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri_exp

from sordino.budget import Budget, Relation
from sordino.privacy import accountants
from sordino.privacy.accountants.event_leaves import leaves_of, samplable
from sordino.privacy.accountants.pld import LossAccountant
from sordino.privacy.accountants.rdp import ORDERS, largest_divergence
from sordino.privacy.accountants.repeated import total_divergences
from sordino.privacy.charges import RESERVE, BudgetExceeded, Charge, epsilon_of, total, within_reserve
from sordino.privacy.events import Composed, Event, Leak, flatten
from sordino.privacy.gaussian_profile import gdp_mu

_CELLS = 64
_UP = 1 + 1e-9  # outweighs the rounding of a few operations


def charge(event: Event, cap: Budget, place: int, reserve: float = RESERVE) -> Charge:
    """What `event` takes from `cap`, as the release number `place` >= 1."""
    # 2^j places have the share 1/((j+1)(j+2)), and these sum to 1: half of the reserve lasts for any number of such
    # releases, the rest for distances; and most releases have the leak of the one before, and so its price
    j = place.bit_length() - 1
    return charge_at(reserve / 2 * cap.delta / (2**j * (j + 1) * (j + 2)), event, cap)


def charge_at(leak: float, event: Event, cap: Budget) -> Charge:
    """What `event` takes from `cap` if it may leak so much, where Gaussian noise alone does not tell."""
    accountants.require_supported(event, cap.relation)
    leaves = leaves_of(event, cap.relation)
    if not (leaves.sampled or leaves.special):
        squares = [leaves.mu**2, *(count * _pure_mu(one.epsilon) ** 2 for one, count in leaves.pure)]
        pure = leaves.mu == 0 and leaves.total_variation == 0 and leaves.leak == 0
        epsilon = leaves.epsilons if pure else math.inf
        return Charge(math.sqrt(math.fsum(squares)) * _UP, epsilon, leaves.leak, leaves.total_variation)
    if cap.pure:
        return Charge(math.inf, math.inf, leaves.leak, leaves.total_variation)
    # distances and leaks are charged beside the profile, not inside it
    exactly = Composed(tuple((leaf, count) for leaf, count in flatten(event)[0].items() if not isinstance(leaf, Leak)))
    return Charge(_profile_mu(exactly, leak, cap.relation), math.inf, leak + leaves.leak, leaves.total_variation)


class PrivacyFilter:
    """Ask `admits`, or call `spend` before every release; it raises before the budget is exceeded.

    With `expecting`, an example of what is to come, the Renyi rule holds, at the order that would let the example be
    repeated most often. `reserve` is the share of delta for leaks and distances.
    """

    def __init__(self, budget: Budget, expecting: Event | None = None, reserve: float = RESERVE) -> None:
        if not 0 <= reserve < 1:
            raise ValueError(f"reserve is {reserve}: a share of delta lies in [0, 1).")
        self.budget = budget
        self.reserve = reserve
        self._order = None if expecting is None or budget.pure else self._best_order(expecting)
        self._spent: list[Event] = []
        self._taken = Charge()

    @property
    def spent(self) -> Event:
        """Everything admitted so far, composed."""
        return Composed(tuple((event, 1) for event in self._spent))

    def admits(self, event: Event) -> bool:
        """Whether spending the event would stay within the budget."""
        return self._within(total((self._taken, self._cost(event))))

    def spend(self, event: Event) -> None:
        """Charge the event, or raise and charge nothing."""
        taken = total((self._taken, self._cost(event)))
        if not self._within(taken):
            raise BudgetExceeded(
                f"this release would exceed epsilon = {self.budget.epsilon}, delta = {self.budget.delta} under "
                f"{self.budget.relation}, beside the {len(self._spent)} before it, so it was refused. Stop here, or "
                "add more noise."
            )
        self._taken = taken
        self._spent.append(event)

    def _cost(self, event: Event) -> Charge:
        if self._order is None:
            return charge(event, self.budget, len(self._spent) + 1, self.reserve)
        rho, distance = total_divergences(event, self.budget.relation)
        return Charge(_renyi_mu(float(rho[self._order]), self._order) * _UP, math.inf, 0.0, distance)

    def _within(self, taken: Charge) -> bool:
        if self._order is None:
            return epsilon_of(taken, self.budget, self.reserve) <= self.budget.epsilon
        largest = _renyi_mu(float(self._allowed()[self._order]), self._order)
        return taken.mu <= largest and within_reserve(taken, self.budget, self.reserve)

    def _best_order(self, example: Event) -> int:
        rho, _ = total_divergences(example, self.budget.relation)
        return int(np.argmax(self._allowed() / rho))

    def _allowed(self) -> Any:
        return largest_divergence(self.budget.epsilon, (1 - self.reserve) * self.budget.delta)


def _renyi_mu(rho: float, order: int) -> float:
    """The mu of a Gaussian release with this divergence: its square adds up as rho does."""
    return math.sqrt(max(0.0, 2 * rho / float(ORDERS[order])))


def _pure_mu(epsilon: float) -> float:
    """2 Phi^-1(e^epsilon / (1 + e^epsilon)): the Gaussian trade-off through randomised response's corner."""
    return -2 * float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon))))


@lru_cache(maxsize=256)
def _profile_mu(event: Event, leak: float, relation: Relation) -> float:
    """The mu for which  delta_event(x) <= leak + (1 - leak) H(x, mu)  holds at every x >= 0."""
    # a coarser grid is faster and still above the profile
    accountant: Any = LossAccountant(grain=0.05) if samplable(event, relation) else accountants
    top = accountant.epsilon(event, leak, relation)
    if not math.isfinite(top):
        return math.inf
    # between two edges the left side is at most its value at the lower one, the right side at least at the upper one
    edges = [top * (1 - math.cos(math.pi * k / _CELLS)) / 2 for k in range(_CELLS + 1)]
    # a profile never rises, so a bound found further left also holds here
    deltas = np.minimum.accumulate([accountant.delta(event, edge, relation) for edge in edges])
    # log(1 + e^x), and a hair for the rounding of a difference from 1
    growth, hair = np.logaddexp(0.0, edges), 1e-15
    mu = 0.0
    for place, high in enumerate(edges[1:]):
        both_ways = 1 - np.exp(growth[place] - growth[place:]) * (1 - deltas[place:]) + hair
        delta = min(float(deltas[place]), float(both_ways.min()))
        needed = (delta - leak) / (1 - leak)
        if needed >= 1 - 1e-9:
            return math.inf
        if needed > 0:
            mu = max(mu, gdp_mu(high, needed))
    return mu * _UP
