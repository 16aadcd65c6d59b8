r"""Histograms of oriented gradients (Dalal and Triggs 2005), for small grey or coloured pictures.

    gradient     central differences, the border repeated; of several channels the steepest at each pixel
    bins         the length is split between the two nearest of the signed orientations, in proportion
    cells        a grid of cells over the picture, coarse and fine: the mean histogram of each
    scale        v -> sqrt(v / (|v| + 1/20)) in every cell
    row          all cells side by side, less the row's mean, divided by the row's length

Every step looks at one picture alone, so a row's bound is known without looking at anybody: its norm is 1, or 0 for a
picture without an edge.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.features.pictures import PictureMap
from sordino.oracle.kernels.native import exact

SOFTENING = 0.05
"""What a cell's length is measured against: fainter cells than this stay faint."""


class HOG(PictureMap):
    """Pictures, flattened, to rows of norm 1.

    `shape` is (height, width) or (height, width, channels), as the pixels lie in a row; pixels are expected in [0, 1].
    `cells` are the numbers of cells along each side, one grid for each.
    """

    def __init__(
        self, shape: tuple[int, ...] = (28, 28), *, cells: tuple[int, ...] = (4, 7), orientations: int = 8
    ) -> None:
        self.shape = shape
        self.cells = cells
        self.orientations = orientations

    def _columns(self) -> int:
        height, width, _ = self._sides()
        if not self.cells or any(not 1 <= count <= min(height, width) for count in self.cells):
            raise ValueError(f"cells is {self.cells}: give numbers from 1 to {min(height, width)}, the shorter side.")
        if self.orientations < 2:
            raise ValueError(f"orientations is {self.orientations}: at least 2 are needed.")
        return self.orientations * sum(count * count for count in self.cells)

    def _mapped(self, pictures: NDArray[np.float32]) -> NDArray[np.float32]:
        out = np.zeros((len(pictures), self._columns()), dtype=np.float32)
        _histograms(pictures, np.array(self.cells, dtype=np.int64), self.orientations, SOFTENING, out)
        return out


@exact
def _histograms(X: NDArray[Any], cells: NDArray[np.int64], bins: int, softening: float, out: NDArray[Any]) -> None:
    """`X` is pictures x height x width x channels; `out` holds zeros."""
    count, height, width, channels = X.shape
    turn = 2 * math.pi
    for i in range(count):
        row = out[i]
        for r in range(height):
            up, down = max(r - 1, 0), min(r + 1, height - 1)
            for c in range(width):
                left, right = max(c - 1, 0), min(c + 1, width - 1)
                length, dy, dx = 0.0, 0.0, 0.0
                for k in range(channels):
                    y = float(X[i, down, c, k]) - float(X[i, up, c, k])
                    x = float(X[i, r, right, k]) - float(X[i, r, left, k])
                    if y * y + x * x > length:
                        length, dy, dx = y * y + x * x, y, x
                if length == 0.0:
                    continue
                length = math.sqrt(length)
                angle = math.atan2(dy, dx) / turn * bins
                if angle < 0.0:
                    angle += bins
                low = int(angle)
                share = angle - low
                first, second = low % bins, (low + 1) % bins
                start = 0
                for g in range(cells.size):
                    side = cells[g]
                    place = start + ((r * side // height) * side + c * side // width) * bins
                    row[place + first] += (1.0 - share) * length
                    row[place + second] += share * length
                    start += side * side * bins
        start = 0
        total = 0.0
        for g in range(cells.size):
            side = cells[g]
            area = height * width / (side * side)
            for cell in range(side * side):
                place = start + cell * bins
                square = 0.0
                for b in range(bins):
                    row[place + b] /= area
                    square += row[place + b] * row[place + b]
                scale = math.sqrt(square) + softening
                for b in range(bins):
                    row[place + b] = math.sqrt(row[place + b] / scale)
                    total += row[place + b]
            start += side * side * bins
        mean = total / row.size
        square = 0.0
        for j in range(row.size):
            row[j] -= mean
            square += row[j] * row[j]
        if square > 0.0:
            scale = 1.0 / math.sqrt(square)
            for j in range(row.size):
                row[j] *= scale
