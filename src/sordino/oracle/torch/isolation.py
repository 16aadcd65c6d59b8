"""Whether this machine computes a record in the same way, to the last bit, whatever stands beside it.

A pass has a fixed number of rows, and no operation of it mixes records. What remains is the rounding inside one
operation, which a library may do differently for some rows than for others. That is tried on made-up records before
any other is used: the same rows in other places, beside others.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from sordino.oracle.torch.pairs import blocks

Computed = Callable[[Tensor, Tensor, int], list[Tensor]]
"""Of inputs, targets and the number of rows that are records: everything of which their contributions are made."""

COMPANIONS = (3.0, 1e4, 1e-4, math.nan)


def keeps_records_apart(computed: Computed, inputs: Tensor, targets: Tensor) -> bool:
    """Whether rows are the same in other places, beside others that are small, large or nothing, and beside fewer.

    Rows stay at even places and at odd ones, in passes that are full and in passes that are not.
    """
    rows = len(inputs)
    here = [_fingerprints(tensor) for tensor in computed(inputs, targets, rows)]
    for number, scale in enumerate(COMPANIONS):
        order = torch.randperm(rows, generator=torch.Generator().manual_seed(number)).to(inputs.device)
        count = rows if number % 3 == 0 else rows // 2 + 1
        staying = torch.arange(number % 2, count, 2, device=inputs.device)
        others = slice(1 - number % 2, None, 2)
        moved = inputs[order]
        moved[others] = moved[others] * scale if inputs.is_floating_point() else moved[:1]
        there = computed(moved, targets[order], count)
        if not all(
            torch.equal(one[order[staying]], _fingerprints(other)[staying])
            for one, other in zip(here, there, strict=True)
        ):
            return False
    return True


def _fingerprints(tensor: Tensor) -> Tensor:
    """A number for every row: sums of its bits, times odd numbers at random, modulo 2^64.

    The rows themselves would be as much memory again as the books.
    """
    bits = bits_of(tensor).view(len(tensor), -1)
    odd = torch.randint(-(2**62), 2**62, bits.shape[1:], generator=torch.Generator().manual_seed(0)) * 2 + 1
    odd = odd.to(bits.device)
    return torch.cat([(bits[some] * odd).sum(1) for some in blocks(len(bits), odd.nbytes)])


def multiplies_in_full(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether products keep the digits of their factors, as `rounding` takes for granted.

    A library may be told to cut factors to a few (BF16, TF32), also from outside: DNNL_DEFAULT_FPMATH_MODE in the
    environment does it on some processors, of which PyTorch's settings know nothing.
    """
    side, number = 256, 1 + 2.0**-12
    factors = torch.full((1, side, side), number, dtype=dtype, device=device)
    exact = side * number**2
    products = (torch.bmm(factors, factors), torch.mm(factors[0], factors[0]))
    # cut off, the last digit would be missing in both factors: 2^-11 of the product; its rounding is below 2^-15
    return all(bool(((product.double() - exact).abs() < 2.0**-13 * exact).all()) for product in products)


def bits_of(tensor: Tensor) -> Tensor:
    """The same memory as whole numbers."""
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(whole[tensor.element_size()]) if tensor.is_floating_point() else tensor
