"""Gradients of convolutions: outer products of what came out with the patches that went in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from sordino.oracle.torch.norms import Norms
from sordino.oracle.torch.pairs import KEEP, Pair, blocks, equal_parts, sum_of
from sordino.oracle.torch.rounding import lost, slack
from sordino.oracle.torch.workspace import Step, Workspace


class Patches:
    """sum_t left_t patch_t(right)', from tensors (records, channels out, ..) and (records, channels in, ..)."""

    def __init__(self, layer: nn.Conv1d | nn.Conv2d) -> None:
        self._groups = layer.groups
        self._shape = (layer.out_channels, layer.in_channels // layer.groups, *layer.kernel_size)
        self._flat = len(layer.kernel_size) == 1
        # one dimension is two with a height of one
        self._kernel, self._stride, self._dilation = (
            (1, *given) if self._flat else given for given in (layer.kernel_size, layer.stride, layer.dilation)
        )
        self._numbers = layer.weight.numel()
        self._fill = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        # functional.pad wants the last axis first: before and after it, then before and after the one ahead of it
        self._margin = tuple(
            side
            for width, padded, apart in zip(
                reversed(layer.kernel_size), reversed(_padding(layer)), reversed(layer.dilation), strict=True
            )
            for side in ((padded, padded) if padded is not None else _same_size(width, apart))
        )

    def rows(self, pairs: Sequence[Pair], work: Workspace) -> Tensor | None:
        records = len(pairs[0].left)
        if records * self._numbers * work.dtype.itemsize > KEEP:
            return None
        rows = work.take(records, self._numbers)
        parts = [([pair.part(some) for pair in pairs], rows[some]) for some in self._blocks(pairs)]
        work.steps += [partial(self._products, some, out, work) for some, out in parts]
        return rows

    def measure(self, pairs: Sequence[Pair], share: int, norms: Norms, work: Workspace) -> None:
        squares = work.take(len(pairs[0].left), dtype=torch.float64)
        work.steps.append(lambda: self._measured(pairs, squares, work))
        norms.add_known(share, squares)

    def sum(self, out: Tensor, weighted: Sequence[tuple[Tensor, Pair]], work: Workspace) -> Step:
        """By the gradients of a few records at a time: what a record adds is one vector, rounded by itself."""
        shares: dict[int, tuple[Tensor, list[Pair]]] = {}
        for weights, pair in weighted:
            shares.setdefault(id(weights), (weights, []))[1].append(pair)

        def write() -> None:
            out.zero_()
            for weights, pairs in shares.values():
                for total, block in zip(out, equal_parts(len(weights), len(out)), strict=True):
                    self._add([pair.part(block) for pair in pairs], weights[block], total, work)

        return write

    def _add(self, pairs: Sequence[Pair], weights: Tensor, total: Tensor, work: Workspace) -> None:
        for some in self._blocks(pairs):
            rows = work.scratch("rows", some.stop - some.start, self._numbers)
            self._products([pair.part(some) for pair in pairs], rows, work)
            total.addmv_(rows.T, weights[some])

    def _measured(self, pairs: Sequence[Pair], squares: Tensor, work: Workspace) -> None:
        for some in self._blocks(pairs):
            rows = work.scratch("rows", some.stop - some.start, self._numbers)
            self._products([pair.part(some) for pair in pairs], rows, work)
            squares[some] = torch.linalg.vector_norm(rows, dim=1)
        positions = sum(pair.left[0, 0].numel() for pair in pairs)
        # the sum is taken anew, from the pairs: rounding is relative to what was added up, at most |left| |patches|,
        # and every number of the input stands in at most as many patches as the kernel has places
        places = self._kernel[0] * self._kernel[1]
        added = sum_of(_length(left) * _length(right) for left, right in map(_both, pairs))
        squares.add_(added, alpha=math.sqrt(places) * slack(positions, work.dtype))
        squares.square_().mul_(1 + slack(self._numbers, work.dtype)).add_(lost(self._numbers * positions, work.dtype))

    def _blocks(self, pairs: Sequence[Pair]) -> list[slice]:
        left, right = _both(pairs[0])
        patches = right.shape[1] * self._kernel[0] * self._kernel[1] * left[0, 0].numel()
        return blocks(len(left), patches * left.element_size())

    def _products(self, pairs: Sequence[Pair], rows: Tensor, work: Workspace) -> None:
        """left_g patches_g' for every group of channels, written into `rows`."""
        records, groups = len(rows), self._groups
        out = rows.view(records * groups, self._shape[0] // groups, -1)
        for number, (left, right) in enumerate(map(_both, pairs)):
            seen, positions = self._seen(self._image(right)), left[0, 0].numel()
            # one copy for all records: PyTorch's im2col sets its threads to work anew for every single one
            patches = work.scratch("patches", *seen.shape).copy_(seen)
            work.add_bmm(
                out,
                left.reshape(records * groups, -1, positions),
                patches.view(records * groups, -1, positions).transpose(1, 2),
                first=number == 0,
            )

    def _seen(self, image: Tensor) -> Tensor:
        """(records, channels, kernel height, kernel width, height, width): what every place of the kernel meets."""
        far = [apart * (width - 1) for width, apart in zip(self._kernel, self._dilation, strict=True)]
        counts = [(size - d - 1) // s + 1 for size, d, s in zip(image.shape[2:], far, self._stride, strict=True)]
        records, channels, down, across = image.stride()
        inside = (self._dilation[0] * down, self._dilation[1] * across)
        between = (self._stride[0] * down, self._stride[1] * across)
        return image.as_strided((*image.shape[:2], *self._kernel, *counts), (records, channels, *inside, *between))

    def _image(self, right: Tensor) -> Tensor:
        padded = functional.pad(right, self._margin, mode=self._fill) if any(self._margin) else right
        return self._plane(padded)

    def _plane(self, tensor: Tensor) -> Tensor:
        return tensor.unsqueeze(2) if self._flat else tensor


def _both(pair: Pair) -> tuple[Tensor, Tensor]:
    assert pair.right is not None, "a convolution has two sides"
    return pair.left, pair.right


def _length(tensor: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(tensor.flatten(1), dim=1, dtype=torch.float64)
    return length


def _padding(layer: nn.Conv1d | nn.Conv2d) -> tuple[int | None, ...]:
    """The padding on both sides of every axis; None where it is whatever keeps the size."""
    if isinstance(layer.padding, str):
        return tuple(None if layer.padding == "same" else 0 for _ in layer.kernel_size)
    return tuple(layer.padding)


def _same_size(width: int, apart: int) -> tuple[int, int]:
    total = apart * (width - 1)
    return total // 2, total - total // 2
