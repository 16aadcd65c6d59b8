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

import numpy as np
from numpy.typing import NDArray

from sordino.features.pictures import PictureMap

SOFTENING = 0.05
"""What a cell's length is measured against: fainter cells than this stay faint."""


class HOG(PictureMap):
    """Pictures, flattened, to rows of norm 1.

    `shape` is (height, width) or (height, width, channels), as the pixels lie in a row; pixels are expected in [0, 1].
    `cells` are the numbers of cells along each side, one grid for each. `deskewed` is for writing, light on dark: what
    leans is sheared upright before.
    """

    def __init__(
        self,
        shape: tuple[int, ...] = (28, 28),
        *,
        cells: tuple[int, ...] = (4, 7),
        orientations: int = 8,
        deskewed: bool = False,
    ) -> None:
        self.shape = shape
        self.cells = cells
        self.orientations = orientations
        self.deskewed = deskewed

    def columns(self) -> int:
        height, width, _ = self._sides()
        if not self.cells or any(not 1 <= count <= min(height, width) for count in self.cells):
            raise ValueError(f"cells is {self.cells}: give numbers from 1 to {min(height, width)}, the shorter side.")
        if self.orientations < 2:
            raise ValueError(f"orientations is {self.orientations}: at least 2 are needed.")
        return self.orientations * sum(count * count for count in self.cells)

    def _mapped(self, pictures: NDArray[np.float32]) -> NDArray[np.float32]:
        # imported here because the compiler takes a while to load
        from sordino.features.kernels import histograms

        out = np.zeros((len(pictures), self.columns()), dtype=np.float32)
        histograms(pictures, np.array(self.cells, dtype=np.int64), self.orientations, SOFTENING, out)
        return out
