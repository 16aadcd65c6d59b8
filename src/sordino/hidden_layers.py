r"""The hidden layers of a network for tables, as plain arrays: predictions need no PyTorch.

    h_0 = x min(1, B/|x|) sqrt(d)/B,     h_{k+1} = activation(W_k h_k + b_k)

with B the public bound on a row's norm and d the number of features: inputs measure about one whatever their unit.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sordino.arrays import Array
from sordino.row_by_row import Product, squared_lengths

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"tanh": np.tanh, "relu": lambda h: np.maximum(h, 0.0)}


def scaled(X: Array, row_norm: float) -> Array:
    """h_0: every row within the bound, in units in which features measure about one."""
    norms = np.sqrt(squared_lengths(X))[:, None]
    inputs: Array = X * (math.sqrt(X.shape[1]) / np.maximum(norms, row_norm))
    return inputs


@dataclass(frozen=True, eq=False)
class HiddenLayers:
    """The bound B, the activation, and (W, b) of every layer, W with a row per unit."""

    row_norm: float
    activation: str
    layers: tuple[tuple[Array, Array], ...]

    def __post_init__(self) -> None:
        if not (math.isfinite(self.row_norm) and self.row_norm > 0):
            raise ValueError(f"row_norm is {self.row_norm}: it must be a positive finite number.")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation is {self.activation!r}: it must be 'tanh' or 'relu'.")
        width = self.features
        for W, b in self.layers:
            if W.ndim != 2 or b.shape != W.shape[:1] or W.shape[1] != width:
                raise ValueError(f"a hidden layer has shapes {W.shape} and {b.shape}, which do not fit {width} inputs.")
            if not (np.isfinite(W).all() and np.isfinite(b).all()):
                raise ValueError("the weights are not all finite numbers.")
            width = len(b)

    @property
    def features(self) -> int | None:
        """What goes in; None where there is no layer."""
        return self.layers[0][0].shape[-1] if self.layers else None

    @property
    def width(self) -> int | None:
        """What comes out; None where there is no layer."""
        return len(self.layers[-1][1]) if self.layers else None

    @property
    def size(self) -> int:
        """The number of weights."""
        return sum(W.size + b.size for W, b in self.layers)

    def after(self, X: Array, product: Product = operator.matmul) -> Array:
        """The last hidden layer's values."""
        h = scaled(X, self.row_norm)
        for W, b in self.layers:
            h = ACTIVATIONS[self.activation](product(h, W.T) + b)
        return h
