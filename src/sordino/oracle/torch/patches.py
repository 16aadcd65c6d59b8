"""Gradients of convolutions: outer products of what came out with the patches that went in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from sordino.oracle.torch.isolation import bits_of
from sordino.oracle.torch.norms import Norms
from sordino.oracle.torch.pairs import (
    KEEP,
    Pair,
    add_scaled_rows,
    blocks,
    equal_parts,
    length_of_scaled_rows,
    sum_of,
)
from sordino.oracle.torch.rounding import lost, slack, too_long
from sordino.oracle.torch.workspace import Step, Workspace, done

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d


NARROW = 16
"""Channels up to which left_t patch_t' is computed as the transpose of patch_t left_t', several times as fast."""


class Patches:
    """sum_t left_t patch_t(right)', from tensors (records, channels, ..) and (records, channels, ..).

    A convolution meets patches of its input, a transposed one patches of its output's gradient: there the input is on
    the left.
    """

    def __init__(self, layer: Convolution) -> None:
        self._groups = layer.groups
        self._left_channels = layer.weight.shape[0]
        self._kernel, self._stride, self._dilation = layer.kernel_size, layer.stride, layer.dilation
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
        for some in self._blocks(pairs):
            work.steps += self._products([pair.part(some) for pair in pairs], rows[some], work)
        return rows

    def measure(self, pairs: Sequence[Pair], share: int, norms: Norms, work: Workspace) -> None:
        squares = work.take(len(pairs[0].left), dtype=torch.float64)
        for some in self._blocks(pairs):
            rows = work.scratch("rows", some.stop - some.start, self._numbers)
            work.steps += self._products([pair.part(some) for pair in pairs], rows, work)
            work.steps.append(partial(_measure, rows, squares[some]))
        work.steps.append(partial(self._bound, pairs, squares, work))
        norms.add_known(share, squares)

    def sum(self, out: Tensor, weighted: Sequence[tuple[Tensor, Pair]], work: Workspace) -> Step:
        """By the gradients of a few records at a time: what a record adds is one vector, rounded by itself."""
        shares: dict[int, tuple[Tensor, list[Pair]]] = {}
        for weights, pair in weighted:
            shares.setdefault(id(weights), (weights, []))[1].append(pair)
        bits = [work.note_bits(len(weights)) for weights, _ in shares.values()]

        steps: list[Step] = [out.zero_]
        for (weights, pairs), seen in zip(shares.values(), bits, strict=True):
            for total, block in zip(out, equal_parts(len(weights), len(out)), strict=True):
                steps += self._add([pair.part(block) for pair in pairs], weights[block], total, seen[block], work)
        return partial(done, steps)

    def _add(
        self, pairs: Sequence[Pair], weights: Tensor, total: Tensor, seen: Tensor, work: Workspace
    ) -> Iterator[Step]:
        for some in self._blocks(pairs):
            rows = work.scratch("rows", some.stop - some.start, self._numbers)
            yield from self._products([pair.part(some) for pair in pairs], rows, work)
            yield partial(_note, rows, seen[some], work)
            yield partial(total.addmv_, rows.T, weights[some])

    def _bound(self, pairs: Sequence[Pair], squares: Tensor, work: Workspace) -> None:
        """From norms as they are computed to squares that are not too small."""
        positions = sum(pair.left[0, 0].numel() for pair in pairs)
        # the sum is taken anew, from the pairs: rounding is relative to what was added up, at most |left| |patches|,
        # and every number of the padded image stands in at most as many patches as the kernel has places
        lengths = sum_of(map(self._length, pairs))
        squares.add_(lengths, alpha=slack(positions, work.dtype))
        squares.masked_fill_(too_long(lengths, work.dtype), torch.inf)
        squares.square_().mul_(1 + slack(self._numbers, work.dtype)).add_(lost(self._numbers * positions, work.dtype))

    def _blocks(self, pairs: Sequence[Pair]) -> list[slice]:
        left, right = _both(pairs[0])
        patches = right.shape[1] * math.prod(self._kernel) * left[0, 0].numel()
        return blocks(len(left), patches * left.element_size())

    def _products(self, pairs: Sequence[Pair], rows: Tensor, work: Workspace) -> Iterator[Step]:
        """left_g patches_g' for every group of channels, written into `rows`."""
        records, groups = len(rows), self._groups
        out = rows.view(records * groups, self._left_channels // groups, -1)
        narrow = out.shape[1] <= NARROW
        turned = work.scratch("turned", len(out), out.shape[2], out.shape[1]) if narrow else out
        for number, (left, right) in enumerate(_both(pair) for pair in pairs if not pair.shared):
            image, copied = self._image(right, work)
            yield from copied
            seen, positions = self._seen(image, left.shape[2:]), left[0, 0].numel()
            # one copy for all records: PyTorch's im2col sets its threads to work anew for every single one
            patches = work.scratch("patches", *seen.shape)
            yield partial(patches.copy_, seen)
            one, other = (each.view(records * groups, -1, positions) for each in (left, patches))
            one, other = (other, one) if narrow else (one, other)
            yield partial(work.add_bmm, turned, one, other.transpose(1, 2), first=number == 0)
        if narrow:
            yield partial(out.copy_, turned.transpose(1, 2))
        if any(pair.shared for pair in pairs):
            yield partial(add_scaled_rows, rows.view(records, self._left_channels, -1), pairs)

    def _seen(self, image: Tensor, counts: torch.Size) -> Tensor:
        """(records, channels, places of the kernel, positions): what every place of the kernel meets."""
        first, axes = image.stride()[:2], image.stride()[2:]
        inside = [apart * step for apart, step in zip(self._dilation, axes, strict=True)]
        between = [apart * step for apart, step in zip(self._stride, axes, strict=True)]
        return image.as_strided((*image.shape[:2], *self._kernel, *counts), (*first, *inside, *between))

    def _image(self, right: Tensor, work: Workspace) -> tuple[Tensor, list[Step]]:
        """Where the images will be with their margin, and what brings them there."""
        if not any(self._margin):
            return right, []
        if self._fill == "constant":
            framed, inside = work.frame(right, self._margin)
            return framed, [partial(inside.copy_, right)]
        copied = self._copied(right)
        room = work.scratch("copied", *copied.shape)
        return room, [lambda: room.copy_(self._copied(right))]

    def _copied(self, right: Tensor) -> Tensor:
        """With a margin of copies, or none."""
        return functional.pad(right, self._margin, mode=self._fill) if any(self._margin) else right

    def _length(self, pair: Pair) -> Tensor:
        if pair.shared:
            return length_of_scaled_rows(pair)
        left, right = _both(pair)
        # zeros add nothing to it, a margin of copies does
        image = right if self._fill == "constant" else self._copied(right)
        return _length(left) * _length(image) * math.sqrt(math.prod(self._kernel))


def _measure(rows: Tensor, norms: Tensor) -> None:
    norms.copy_(torch.linalg.vector_norm(rows, dim=1))


def _note(rows: Tensor, seen: Tensor, work: Workspace) -> None:
    if work.trying:
        seen.copy_(bits_of(rows).sum(1))


def _both(pair: Pair) -> tuple[Tensor, Tensor]:
    assert pair.right is not None, "a convolution has two sides"
    return pair.left, pair.right


def _length(tensor: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(tensor.flatten(1), dim=1, dtype=torch.float64)
    return length


def _padding(layer: Convolution) -> tuple[int | None, ...]:
    """The padding on both sides of every axis; None where it is whatever keeps the size."""
    if isinstance(layer.padding, str):
        return tuple(None if layer.padding == "same" else 0 for _ in layer.kernel_size)
    return tuple(layer.padding)


def _same_size(width: int, apart: int) -> tuple[int, int]:
    total = apart * (width - 1)
    return total // 2, total - total // 2
