"""How much rounding may have taken from a norm."""

from __future__ import annotations

import sys
from functools import cache

import torch


@cache
def slack(terms: int, dtype: torch.dtype = torch.float64) -> float:
    """Bounds the relative error of a sum of so many products, and of the few operations around it."""
    return (terms + 16) * torch.finfo(dtype).eps


@cache
def lost(terms: int, dtype: torch.dtype = torch.float64) -> float:
    """Bounds what so many products have lost that are too small for the dtype."""
    return terms * float(torch.finfo(dtype).tiny)


@cache
def largest_square(clip: float, dtype: torch.dtype) -> float:
    """The largest squared norm of a record that counts: clip / norm must be a number of full precision."""
    widest = clip / float(torch.finfo(dtype).tiny)
    return min(widest * widest, sys.float_info.max)
