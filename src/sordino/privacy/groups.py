r"""What any attack can achieve against one record, and against somebody who has k of them in the data.

Whoever must tell two data sets apart from a release, with false alarms at most a, detects at most

    h(a) = min over epsilon of   e^epsilon a + delta(epsilon),    1 - e^-epsilon (1 - delta(epsilon) - a)

where delta(epsilon) is the event's profile (Wasserman & Zhou 2010; Kairouz, Oh & Viswanath 2015). Any epsilons give an
upper bound; the profile is asked at some. k neighbouring steps lead to a data set that differs in k records, and what
is detected in one step is the next one's false alarms (Dong, Roth & Su 2022, Theorem 2.14):

    h_k(a) = h(h(.. h(a) ..)),        delta_k(epsilon) = max over a of  h_k(a) - e^epsilon a.

Gaussian and pure releases, and compositions of them, stay what they are: k mu-GDP, and k epsilon. At one and the same
delta, epsilon grows faster than k times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from sordino.arrays import Array
from sordino.budget import Relation
from sordino.privacy import accountants
from sordino.privacy.events import Approximate, Composed, Event, Gaussian, GaussianDP, PureDP

_POINTS, _REACH = 24, 3.0
"""At how many epsilons the profile is asked, up to this multiple of the guaranteed one."""
_ALARMS: Array = np.concatenate(([0.0], np.geomspace(1e-40, 1.0, 20_001)))
_LARGEST = 200.0
"""Beyond this epsilon nothing is promised that is worth a number."""


@dataclass(frozen=True)
class Attacks:
    """Upper bounds for whoever attacks what `event` released, at the guarantee's own `delta`."""

    event: Event
    delta: float
    relation: Relation

    def epsilon(self, k: int = 1) -> float:
        """The epsilon at `delta` for k records; infinity where none up to 200 is found."""
        together = _together(self.event, k)
        if together is not None:
            return accountants.epsilon(together, self.delta, self.relation)
        low, high = 0.0, _LARGEST
        if self._delta(k, high) > self.delta:
            return math.inf
        while high - low > 1e-4 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self._delta(k, middle) <= self.delta else (middle, high)
        return high

    def detections(self, false_alarms: float, k: int = 1) -> float:
        """The largest rate of true detections at this rate of false alarms."""
        return float(self._detected(np.array([false_alarms]), k)[0])

    def best_guess(self, k: int = 1) -> float:
        """How often a guess between two versions of k records, both as likely beforehand, can be right."""
        return min(1.0, (1 + self._delta(k, 0.0)) / 2)

    def _delta(self, k: int, epsilon: float) -> float:
        # between two rates the curve is below its value at the upper one, and e^epsilon a above that at the lower one
        detected = self._curve(k)[1:] - math.exp(epsilon) * _ALARMS[:-1]
        return max(0.0, float(detected.max()))

    @cached_property
    def _curves(self) -> dict[int, Array]:
        return {}

    def _curve(self, k: int) -> Array:
        if k not in self._curves:
            self._curves[k] = self._detected(_ALARMS, k)
        return self._curves[k]

    def _detected(self, alarms: Array, k: int) -> Array:
        together = _together(self.event, k)
        event, steps = (self.event, k) if together is None else (together, 1)
        for _ in range(steps):
            alarms = _step(_profile(event, self.delta, self.relation), alarms)
        return alarms


def _step(profile: tuple[tuple[float, float], ...], alarms: Array) -> Array:
    """h, at the points of the profile."""
    detected = np.ones_like(alarms)
    for epsilon, delta in profile:
        # e^epsilon overflows long before the minimum needs it
        np.minimum(detected, math.exp(min(epsilon, 700.0)) * alarms + delta, out=detected)
        np.minimum(detected, 1 - math.exp(-epsilon) * (1 - delta - alarms), out=detected)
    return np.maximum(detected, alarms)


@cache
def _profile(event: Event, delta: float, relation: Relation) -> tuple[tuple[float, float], ...]:
    found = accountants.guarantee(event, delta, relation)
    if not math.isfinite(found.epsilon):
        return ()
    # whoever is tightest at the guarantee is asked everywhere else too: the others would only take longer
    accountant = next(one for one in accountants.ACCOUNTANTS if one.name == found.accountant)
    others = (_REACH * found.epsilon * np.linspace(0, 1, _POINTS) ** 1.5).tolist()
    return ((found.epsilon, delta), *((epsilon, accountant.delta(event, epsilon, relation)) for epsilon in others))


def _together(event: Event, k: int) -> Event | None:
    """The event that k records see, where it is of the same kind; None where only single steps are known."""
    if k == 1:
        return event
    match event:
        case Gaussian(multiplier):
            return GaussianDP(k / multiplier)
        case GaussianDP(mu):
            return GaussianDP(k * mu)
        case PureDP(epsilon):
            return PureDP(k * epsilon)
        case Approximate(inner, distance):
            # how far the law that was run is from the accounted one does not depend on the records
            known = _together(inner, k)
            return None if known is None else Approximate(known, distance)
        case Composed(parts):
            all_known = [(known, count) for part, count in parts if (known := _together(part, k)) is not None]
            return Composed(tuple(all_known)) if len(all_known) == len(parts) else None
    return None
