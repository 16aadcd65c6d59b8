r"""Naming the least of several private scores: report-noisy-max with exponential noise, in whole numbers.

    argmin_j ( score_j - E_j ),     E_j ~ Exp(scale), independent

Privacy.  Let one record move every score by at most Delta. Given the noise of all the others, j is named when E_j
passes a threshold that moves by at most 2 Delta, and P(E > t) falls by a factor e^(-2 Delta/scale) at most, so

    scale = 2 Delta / epsilon      is (epsilon, 0)-private;
    scale = Delta / epsilon        is enough where all scores move the same way, as sums of terms >= 0 do when a record
                                   is added or removed.

The sign decides. With score_j + E_j a candidate is ruled out for certain once another's noise lies below its own score,
which one record can change: the loss is up to (candidates - 1) times as large.

No real number is drawn. Visiting the candidates in random order and taking j with probability
exp(-(score_j - least score)/scale) has the same law (McKenna & Sheldon 2020; Ding, Kifer et al. 2021).
Scores are rounded to multiples of a step g first, which moves each by a step more, and each coin is exact.

A choice by exponential noise is not of bounded range: for two candidates it comes close to randomised response, so it
costs about epsilon^2/2 of concentrated differential privacy, and not the epsilon^2/8 of Gumbel noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sordino.budget import Relation
from sordino.privacy.events import PureDP
from sordino.privacy.exact_comparison import lies_below
from sordino.privacy.ledger_context import require_release
from sordino.privacy.randomness import Randomness

_ONE = Fraction(1)


@dataclass(frozen=True)
class NoisyMinimum:
    """Names the least of scores that one record moves by at most `sensitivity` each.

    Under add/remove all scores must move the same way.
    """

    sensitivity: float
    epsilon: float
    relation: Relation = Relation.REPLACE_ONE

    def __post_init__(self) -> None:
        for name in ("sensitivity", "epsilon"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}: a noisy minimum needs a positive finite one.")
        object.__setattr__(self, "relation", Relation(self.relation))

    @property
    def step(self) -> float:
        """g, a power of two: 2^30 or more of them in the sensitivity, and in sensitivity / epsilon."""
        return math.ldexp(1.0, math.frexp(self.sensitivity / max(1.0, self.epsilon))[1] - 31)

    @property
    def scale(self) -> int:
        """In steps, rounded up: rounding adds one step to how far a score moves."""
        moved = Fraction(self.sensitivity) / Fraction(self.step) + 1
        return math.ceil(self.relation.distance * moved / Fraction(self.epsilon))

    @property
    def event(self) -> PureDP:
        return PureDP(self.epsilon)

    def choose(self, scores: NDArray[np.float64], randomness: Randomness) -> int:
        """The index of a score that is least or nearly so. The sentence names no private number."""
        require_release()
        if not np.isfinite(scores).all():
            raise ValueError("a score is not finite, nothing was released: clip every record's part of it.")
        # dividing by a power of two is exact, and so is rounding a double to a whole number
        places = [round(score / self.step) for score in scores.tolist()]
        least, scale, stream = min(places), self.scale, randomness.noise
        order: list[int] = stream.generator.permutation(len(places)).tolist()
        words = stream.words(len(places)).tolist()
        return next(j for j in order if lies_below(0, words[j], _ONE, Fraction(places[j] - least, scale), stream))
