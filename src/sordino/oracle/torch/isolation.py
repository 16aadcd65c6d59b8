"""Whether this machine computes a record in the same way, to the last bit, whatever stands beside it.

A pass has a fixed number of rows, and no operation of it mixes records. What remains is the rounding inside one
operation, which a library may do differently for some rows than for others. That is tried on made-up records before
any other is used: the same rows in other places, beside others.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Computed = Callable[[Tensor, Tensor], list[Tensor]]


def keeps_records_apart(computed: Computed, inputs: Tensor, targets: Tensor) -> bool:
    """Whether rows are the same in another order, where every other one has given way to something else."""
    rows = len(inputs)
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(1)).to(inputs.device)
    here = [tensor.clone() for tensor in computed(inputs, targets)]
    others = inputs[order]
    others[1::2] = others[1::2] * 3 if inputs.is_floating_point() else others[:1]
    there = computed(others, targets[order])
    return all(torch.equal(_bits(one)[order][::2], _bits(other)[::2]) for one, other in zip(here, there, strict=True))


def _bits(tensor: Tensor) -> Tensor:
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(whole[tensor.element_size()]) if tensor.is_floating_point() else tensor
