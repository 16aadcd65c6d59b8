"""Classes that count for less than others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sordino.arrays import Array
from sordino.losses.kinked import Hinge
from sordino.losses.moreau import MoreauSmoothed
from sordino.losses.protocol import Loss
from sordino.losses.smooth import HuberisedHinge, Logistic
from sordino.losses.softmax import Softmax


@dataclass(frozen=True)
class Weighted:
    r"""l = w_y base(a, y),   0 <= w <= 1, and 1 for a class at least.

    One weight for every class, in their order. The bounds are those of the base, which a class of weight 1 attains: a
    common factor of all weights would only be another step. Oracles clip a record's gradient first and weigh it then.
    """

    base: Loss
    weights: tuple[float, ...]
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        inner = self.base.base if isinstance(self.base, MoreauSmoothed) else self.base
        if not isinstance(inner, Logistic | Softmax | HuberisedHinge | Hinge):
            raise ValueError(f"base is {self.base!r}: classes have weights, and it is not a loss of classes.")
        classes = max(2, self.base.outputs)
        if len(self.weights) != classes or not all(0 <= weight <= 1 for weight in self.weights):
            raise ValueError(f"weights are {self.weights}: {classes} of them are needed, one per class, from 0 to 1.")
        if max(self.weights) != 1:
            raise ValueError(f"weights are {self.weights}: the largest must be 1; divide by it.")

    @staticmethod
    def of(base: Loss, weights: Sequence[float]) -> Weighted:
        """Of weights of any size: only their ratios count."""
        largest = max(weights)
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not largest > 0:
            raise ValueError(
                f"the weights of classes are {list(weights)}: finite ones are needed, none negative and one positive."
            )
        return Weighted(base, tuple(weight / largest for weight in weights))

    @property
    def outputs(self) -> int:
        return self.base.outputs

    @property
    def hessian_rank(self) -> int:
        return self.base.hessian_rank

    @property
    def at_zero(self) -> float:
        return self.base.at_zero

    def lipschitz(self, row_norm: float, radius: float) -> float:
        return self.base.lipschitz(row_norm, radius)

    def smoothness(self, row_norm: float) -> float:
        return self.base.smoothness(row_norm)

    def trace(self, row_norm: float) -> float:
        return self.base.trace(row_norm)

    def admit(self, y: Array) -> Array:
        return self.base.admit(y)

    def weight(self, y: Array) -> Array:
        """Of records with these targets."""
        places = (y > 0).astype(np.intp) if self.outputs == 1 else y.astype(np.intp)
        return np.asarray(self.weights)[places]

    def value(self, score: Array, y: Array) -> Array:
        return self.weight(y) * self.base.value(score, y)

    def slope(self, score: Array, y: Array) -> Array:
        weight = self.weight(y)
        return (weight if self.outputs == 1 else weight[..., None]) * self.base.slope(score, y)

    def curvature(self, score: Array, y: Array) -> Array:
        weight = self.weight(y)
        return (weight if self.outputs == 1 else weight[..., None, None]) * self.base.curvature(score, y)


def unweighted(loss: Loss) -> Loss:
    """The loss itself, whatever its classes count for."""
    return loss.base if isinstance(loss, Weighted) else loss
