"""What maps of pictures share: a scikit-learn transformer that looks at one row at a time and learns nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import validate_data

from sordino.oracle.kernels.pool import share

CHUNK = 16
"""Pictures at a time, always so many: a row's bits do not depend on how many others there are, or on its place."""


class PictureMap(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A subclass says how many columns come out (`columns`), and how pictures become rows (`_mapped`).

    A picture's row depends on that picture alone. Rows are float32. `deskewed` pictures are sheared first, until what
    is light in them stands upright.
    """

    shape: tuple[int, ...]
    deskewed: bool

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Nothing is learnt: only the number of pixels is compared with `shape`."""
        X = validate_data(self, X, dtype=None, skip_check_array=True)
        self._require_pixels(np.shape(X))
        self.n_features_out_ = self.columns()
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        pixels = np.asarray(X)
        self._require_pixels(pixels.shape)
        height, width, channels = self._sides()
        out = np.empty((len(pixels), self.columns()), dtype=np.float32)

        def task(number: int) -> None:
            start = number * CHUNK
            some = pixels[start : start + CHUNK]
            chunk = np.zeros((CHUNK, height, width, channels), dtype=np.float32)
            # a picture with a pixel that is not finite, or too large, says nothing; nor does a warning about it
            with np.errstate(all="ignore"):
                chunk[: len(some)] = some.reshape(-1, height, width, channels)
                spoiled = np.flatnonzero(~np.isfinite(chunk.reshape(CHUNK, -1)).all(axis=1))
                chunk[spoiled] = 0
                rows = self._mapped(_upright(chunk) if self.deskewed else chunk)
            rows[spoiled] = 0
            rows[~np.isfinite(rows).all(axis=1)] = 0
            out[start : start + CHUNK] = rows[: len(some)]

        share(task, -(-len(pixels) // CHUNK))
        return out

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        name = type(self).__name__.lower()
        return np.array([f"{name}{number}" for number in range(self.columns())], dtype=object)

    @abstractmethod
    def columns(self) -> int: ...

    @abstractmethod
    def _mapped(self, pictures: NDArray[np.float32]) -> NDArray[np.float32]: ...

    def _sides(self) -> tuple[int, int, int]:
        if len(self.shape) not in (2, 3) or any(side < 1 for side in self.shape):
            raise ValueError(f"shape is {self.shape}: give (height, width) or (height, width, channels).")
        height, width, channels = (*self.shape, 1)[:3]
        return height, width, channels

    def _require_pixels(self, shape: tuple[int, ...]) -> None:
        height, width, channels = self._sides()
        if len(shape) < 2 or int(np.prod(shape[1:])) != height * width * channels:
            raise ValueError(
                f"X has shape {shape}, but pictures of shape {self.shape} have {height * width * channels} numbers "
                "each: give one picture per row, or say shape=(height, width, channels)."
            )


def _upright(pictures: NDArray[np.float32]) -> NDArray[np.float32]:
    # imported here because the compiler takes a while to load
    from sordino.features.kernels import deskew

    out = np.empty_like(pictures)
    deskew(pictures, out)
    return out
