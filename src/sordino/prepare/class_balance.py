r"""How many records every class has, and classes that count alike.

    c_k = #{y_i = k} + N(0, s^2),  k > 0,      c_0 = n - sum c_k,        w_k = max(least c / c_k, 1/50)

Privacy: a Gaussian release of counts, of which one record moves two by 1, or with two classes the only one; n is
public, or the stand-in for it is. Given what was released the weights are fixed and at most 1, so every bound of the
loss holds for the weighted one, and training is planned as without weights.

Where a count drowns in its noise, below 2 s, nothing is weighted: nobody knows then which class is rare, and where n is
a stand-in it may be a wrong one.

Weights do not improve the order in which records are ranked; they cost some of it, for the signal of the frequent class
shrinks and the noise stays. They move the threshold at which a class is predicted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino.budget import Relation
from sordino.losses import Logistic, Loss, Softmax, Weighted
from sordino.oracle.protocol import RowsOracle
from sordino.oracle.statistics import ClassCounts
from sordino.prepare.protocol import StepPlan, check_share
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness

LEAST = 1 / 50
"""Of a weight: what counts for less is next to nothing beside the noise."""


@dataclass(frozen=True)
class ClassBalance:
    """The share is some 2 % of the noise, and buys counts of +-20 records at epsilon 1."""

    classes: int = 2
    share: float = 0.03

    def __post_init__(self) -> None:
        check_share(self, self.share)
        if not (isinstance(self.classes, int) and self.classes >= 2):
            raise ValueError(f"classes is {self.classes!r}: there are two at least to be balanced.")

    @property
    def _asked(self) -> ClassCounts:
        return ClassCounts(Logistic() if self.classes == 2 else Softmax(self.classes))

    def plan(self, columns: int, records: int, relation: Relation, mu: float) -> StepPlan:
        multiplier, asked = 1 / (mu * math.sqrt(self.share)), self._asked
        return StepPlan(GaussianNoise.at(multiplier, asked.sensitivity(relation), asked.width(columns, False)), 1)

    def weighted(self, loss: Loss, plan: StepPlan, records: int, oracle: RowsOracle, randomness: Randomness) -> Loss:
        """The loss, with classes that count alike."""
        others = oracle.release(self._asked, plan.noise, randomness)
        counts = np.array([records - others.sum(), *others])
        drowned = counts.min() <= 2 * plan.noise.std
        return self.even(loss) if drowned else Weighted.of(loss, np.maximum(counts.min() / counts, LEAST).tolist())

    def even(self, loss: Loss) -> Weighted:
        """All classes count 1. Raises a sentence where the loss has no such classes."""
        return Weighted(loss, (1.0,) * self.classes)
