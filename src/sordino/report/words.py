r"""A guarantee in words that need no formula.

An attacker who must tell one version of a record from another, from the release alone, faces at false-alarm rate a

    detection rate <= min( e^epsilon a + delta,   1 - e^-epsilon (1 - delta - a) )

whatever else is known about everybody (Wasserman & Zhou 2010; Kairouz, Oh & Viswanath 2015). When both versions are
equally likely beforehand, the best guess is right with probability at most (e^epsilon + delta) / (1 + e^epsilon).
"""

from __future__ import annotations

import math

from sordino.budget import Relation
from sordino.privacy.events import (
    Approximate,
    Composed,
    Event,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    ObjectivePerturbed,
    PoissonSampled,
    PureDP,
    Selected,
)

FALSE_ALARMS = (0.001, 0.01, 0.05, 0.1, 0.5)


def detection_bound(false_alarms: float, epsilon: float, delta: float) -> float:
    """The largest detection rate any attack can have at this rate of false alarms."""
    a = false_alarms
    # the first bound in logarithms: e^epsilon overflows long before the minimum needs it
    first = 1.0 if epsilon > -math.log(a) else math.exp(epsilon) * a + delta
    second = 1 - math.exp(-epsilon) * (1 - delta - a)
    return max(0.0, min(first, second, 1.0))


def best_guess(epsilon: float, delta: float) -> float:
    """How often the best guess between two equally likely versions of a record can be right."""
    # (e^eps + delta)/(1 + e^eps) = 1 - (1 - delta)/(1 + e^eps), which does not overflow in this form
    return 1 - (1 - delta) * math.exp(-epsilon) / (1 + math.exp(-epsilon))


def percent(share: float) -> str:
    """A share as a percentage, rounded so that it never looks smaller than it is."""
    if share == 0:
        return "0 %"
    digits = 1 if share >= 0.01 else 2 if share >= 0.001 else 3
    scale = 10**digits
    # the tolerance keeps 0.1 from becoming 10.1 % because of its last binary digit
    return f"{math.ceil(share * 100 * scale - 1e-6) / scale:g} %"


def number(value: float) -> str:
    """Six significant digits, and powers of ten where a reader would count zeros."""
    if math.isinf(value):
        return "unbounded"
    if value == int(value) and abs(value) < 10**7:
        return f"{int(value):,}"
    if 1e-4 <= abs(value) < 1e7:
        return f"{value:.6g}"
    mantissa, exponent = f"{value:.3e}".split("e")
    return f"{float(mantissa):g} × 10{_superscript(int(exponent))}"


def change(relation: Relation) -> str:
    """The two worlds the guarantee compares."""
    return {
        Relation.REPLACE_ONE: "any one person's record were replaced by any other",
        Relation.ADD_REMOVE: "any one person's record were added or taken out",
    }[relation]


def described(event: Event) -> str:
    """What happened, as a phrase."""
    match event:
        case Gaussian(multiplier):
            return f"Gaussian noise, {number(multiplier)} times the sensitivity"
        case GaussianDP(mu):
            return f"Gaussian differential privacy, mu = {number(mu)}"
        case PureDP(epsilon):
            return f"pure differential privacy, epsilon = {number(epsilon)}"
        case PoissonSampled(inner, rate):
            return f"each record drawn with probability {number(rate)}, then {described(inner)}"
        case FixedSizeSampled(inner, rate):
            return f"a batch of fixed size, a share {number(rate)} of the records, then {described(inner)}"
        case ObjectivePerturbed(_, multiplier, output):
            return (
                f"a random linear term in the objective, {number(multiplier)} times the gradient's sensitivity, and "
                f"Gaussian noise on the solution, {number(output)} times its tolerance"
            )
        case Approximate(inner, distance):
            return f"{described(inner)}, up to {number(distance)} in total variation"
        case Composed(parts):
            return "; ".join(f"{number(count)} × ({described(part)})" for part, count in parts)
        case Selected(runs, mean, _):
            kinds = "; or ".join(dict.fromkeys(map(described, runs)))
            return f"the best of a secret number of runs, {number(mean)} on average, each with {kinds}"
    raise TypeError(f"there are no words for {type(event).__name__}: it is no kind of event that is known.")


def _superscript(value: int) -> str:
    return str(value).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
