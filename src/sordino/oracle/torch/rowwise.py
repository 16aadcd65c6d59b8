"""A few numbers for every record, all in float64: on the processor by loops of our own, elsewhere by PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from torch import Tensor

from sordino.oracle.torch import kernels


def slack(terms: int, dtype: torch.dtype = torch.float64) -> float:
    """Bounds the relative error of a sum of so many products, and of the few operations around it."""
    return (terms + 16) * torch.finfo(dtype).eps


def lost(terms: int, dtype: torch.dtype = torch.float64) -> float:
    """Bounds what so many products have lost that are too small for the dtype."""
    return terms * float(torch.finfo(dtype).tiny)


def square_norms(rows: Tensor) -> Tensor:
    """|row_i|^2, bounded from above."""
    rows = rows.flatten(1) if rows.ndim > 2 else rows
    if _native(rows):
        squares = torch.empty(len(rows), dtype=torch.float64)
        kernels.square_norms(rows.contiguous().numpy(), squares.numpy())
    else:
        squares = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64).square_()
    n = rows.shape[1]
    return squares.mul_(1 + slack(n)).add_(lost(n))


def inner_products(rows: Tensor, others: Tensor) -> Tensor:
    """<row_i, other_i>."""
    if _native(rows):
        products = torch.empty(len(rows), dtype=torch.float64)
        kernels.inner_products(rows.contiguous().numpy(), others.contiguous().numpy(), products.numpy())
        return products
    return (rows.double() * others.double()).sum(1)


def add_product(total: Tensor, coefficient: float, first: Tensor, second: Tensor | None) -> None:
    """total_i += coefficient first_i second_i."""
    if second is None:
        total.add_(first, alpha=coefficient)
    elif _native(total):
        kernels.add_product(total.numpy(), coefficient, first.numpy(), second.numpy())
    else:
        total.addcmul_(first, second, value=coefficient)


def spoiled_records(values: Sequence[tuple[Tensor, float]]) -> Tensor | None:
    """The numbers of the records with a value that is not a number or beyond its limit; None where all are usable."""
    device, records = values[0][0].device, len(values[0][0])
    if all(_native(each) for each, _ in values):
        usable = torch.ones(records, dtype=torch.bool)
        marks = usable.numpy()
        spoiled = [kernels.keep_within(marks, each.numpy(), limit) for each, limit in values][-1]
        return torch.nonzero(~usable).view(-1) if spoiled else None
    usable = torch.ones(records, dtype=torch.bool, device=device)
    for each, limit in values:
        usable &= each.abs() <= limit
    return None if bool(usable.all()) else torch.nonzero(~usable).view(-1)


def clip_factors(squares: Tensor, clip: float, share: float, dtype: torch.dtype) -> Tensor:
    """share min(1, clip / |g_i|)."""
    if _native(squares):
        factors = torch.empty(len(squares), dtype=dtype)
        if _native(factors):
            kernels.clip_factors(squares.numpy(), clip, share, factors.numpy())
            return factors
    return squares.sqrt().clamp_(min=clip).reciprocal_().mul_(clip * share).to(dtype)


LARGEST = sys.float_info.max


def largest_square(clip: float, dtype: torch.dtype) -> float:
    """The largest squared norm of a record that counts: clip / norm must be a number of full precision."""
    widest = clip / float(torch.finfo(dtype).tiny)
    return min(widest * widest, LARGEST)


def _native(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)
