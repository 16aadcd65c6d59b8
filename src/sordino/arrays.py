"""The kinds of arrays that signatures speak of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Whole = NDArray[np.int64]
"""Sums on a lattice, before they are scaled back."""
