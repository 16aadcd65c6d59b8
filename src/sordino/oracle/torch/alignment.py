"""Matrix products and convolutions that are computed alike for every record, wherever it lies in memory.

A library may take other instructions, and round differently, for a row that does not begin at a multiple of what the
processor loads at once. Here rows are filled up with zeros until all of them do; images of a convolution are copied to
memory of their own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx
from torch.nn.functional import pad

aten = torch.ops.aten

WIDTH = 16
"""Numbers to whose multiple rows are filled up: 64 bytes in single precision."""


def mm(a: Tensor, b: Tensor) -> Tensor:
    inside, width = -b.shape[0] % WIDTH, -b.shape[1] % WIDTH
    product = torch.mm(pad(a, (0, inside)).contiguous(), pad(b, (0, width, 0, inside)).contiguous())
    return product[:, : b.shape[1]].contiguous()


def bmm(a: Tensor, b: Tensor) -> Tensor:
    inside, width = -b.shape[1] % WIDTH, -b.shape[2] % WIDTH
    product = torch.bmm(pad(a, (0, inside)).contiguous(), pad(b, (0, width, 0, inside)).contiguous())
    return product[:, :, : b.shape[2]].contiguous()


def addmm(start: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    return beta * start + alpha * mm(a, b)


def baddbmm(start: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    return beta * start + alpha * bmm(a, b)


def convolution(images: Tensor, *rest: Any) -> Tensor:
    return torch.cat([aten.convolution(image.clone(), *rest) for image in torch.split(images, 1)])


def convolution_backward(e: Tensor, images: Tensor, weight: Tensor, *rest: Any) -> Any:
    if rest[-1][1] or rest[-1][2]:
        # the gradient of a weight that belongs to one record
        return aten.convolution_backward(e, images, weight, *rest)
    found = [
        aten.convolution_backward(one.clone(), image.clone(), weight, *rest)[0]
        for one, image in zip(torch.split(e, 1), torch.split(images, 1), strict=True)
    ]
    return torch.cat(found), None, None


_ALIGNED = {
    aten.mm.default: mm,
    aten.bmm.default: bmm,
    aten.addmm.default: addmm,
    aten.baddbmm.default: baddbmm,
    aten.convolution.default: convolution,
    aten.convolution_backward.default: convolution_backward,
}


def align(graph: fx.Graph) -> None:
    """Put these operations in the place of PyTorch's."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target in _ALIGNED:
            node.target = _ALIGNED[node.target]
