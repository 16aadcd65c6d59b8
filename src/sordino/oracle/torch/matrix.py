"""Sums of outer products: the gradients of linear layers and embeddings, never written down for every record."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations_with_replacement
from typing import NamedTuple

import torch
from torch import Tensor

from sordino.oracle.torch import kernels
from sordino.oracle.torch.isolation import bits_of
from sordino.oracle.torch.norms import Norms
from sordino.oracle.torch.pairs import (
    KEEP,
    Pair,
    add_scaled_rows,
    blocks,
    equal_parts,
    length_of_scaled_rows,
    same,
    sum_of,
)
from sordino.oracle.torch.rounding import CANCELLED, LONGEST, ROUGH, lost, slack, too_long
from sordino.oracle.torch.workspace import Step, Workspace, done

ROOM = 1 << 26
"""Bytes up to which a pass keeps gradients of which inner products would tell the norms for less."""

MANY = 16
"""Positions from which on a record's product is computed by itself, in the books' dtype: no sum of it can cancel with
another record's, where few positions are summed for all records at once, in double precision."""


class Matrix:
    """sum_t left_t right_t', from tensors (records, t, n) and (records, t, m), or (records, n) and (records, m).

    Whole numbers (records, t) on the left are the rows at which right_t counts.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape

    def keeps(self, pairs: Sequence[Pair], records: int, each: int, taken: int) -> bool:
        """Whether so many records' gradients, numbers of `each` bytes, are kept until they are summed.

        Those of which inner products would tell the norms for more, and where there is room all that the sum takes one
        by one anyway; `taken` bytes of it are.
        """
        size = records * math.prod(self.shape) * each
        return size <= KEEP and (self._many(pairs) or (_is_alone(pairs) and taken + size <= ROOM))

    def rows(self, pairs: Sequence[Pair], work: Workspace) -> Tensor | None:
        records = len(pairs[0].left)
        if not self.keeps(pairs, records, work.dtype.itemsize, work.taken):
            return None
        rows = work.take(records, *self.shape)
        work.steps.append(partial(_products, pairs, rows, work))
        return rows.flatten(1)

    def measure(self, pairs: Sequence[Pair], share: int, norms: Norms, work: Workspace) -> None:
        if all(pair.left.ndim == 2 and pair.left.is_floating_point() and not pair.shared for pair in pairs):
            self._single(pairs, share, norms)
            return
        squares = work.take(len(pairs[0].left), dtype=torch.float64)
        measured = self._measured if self._many(pairs) else self._inner
        work.steps.append(lambda: squares.copy_(self._as_summed(measured(pairs, work), pairs)))
        norms.add_known(share, squares)

    def sum(self, out: Tensor, weighted: Sequence[tuple[Tensor, Pair]], work: Workspace) -> Step:
        shares: dict[int, tuple[Tensor, list[Pair]]] = {}
        for weights, pair in weighted:
            shares.setdefault(id(weights), (weights, []))[1].append(pair)
        if all(_is_alone(pairs) for _, pairs in shares.values()):
            bits = [work.note_bits(len(weights)) for weights, _ in shares.values()]
            return lambda: self._sum_alone(out, list(shares.values()), bits, work)
        sums, scaled = out.view(-1, *self.shape), [entry for entry in weighted if entry[1].shared]
        products = _merged([entry for entry in weighted if not entry[1].shared])
        longest = sum(len(each.mixed) * each.mixed[0][1].shape[:-1].numel() for each in products) // len(out)
        longest += sum(len(weights) for weights, _ in scaled) // len(out)
        if longest > LONGEST:
            raise ValueError(
                f"a layer is used at {longest} places in a block of records: at most {LONGEST} can be added up."
            )
        if len(products) == 1 and products[0].is_one_for_each_share and not scaled:
            return products[0].sum_of_blocks(sums, work)
        return partial(done, list(self._sum_wide(sums, products, scaled, work)))

    def _sum_wide(
        self, sums: Tensor, products: Sequence[Product], scaled: Sequence[tuple[Tensor, Pair]], work: Workspace
    ) -> Iterator[Step]:
        # several products make up a record's gradient, which may cancel: their sum needs more digits than they have
        for out, some in zip(sums, equal_parts(len(products[0].other), len(sums)), strict=True):
            total = work.scratch("total", *self.shape, dtype=torch.float64)
            for number, product in enumerate(products):
                yield from product.add_wide(total, some, work, first=number == 0)
            for weights, pair in scaled:
                yield partial(_add_scaled, total, weights[some], pair.left[some], _right(pair))
            yield partial(out.copy_, total)

    def _sum_alone(
        self,
        sums: Tensor,
        shares: Sequence[tuple[Tensor, Sequence[Pair]]],
        bits: Sequence[Tensor],
        work: Workspace,
    ) -> None:
        """By the gradients of a few records at a time: what a record adds is one vector, rounded by itself."""
        n, m = self.shape
        sums.zero_()
        for (weights, pairs), seen in zip(shares, bits, strict=True):
            for out, block in zip(sums, equal_parts(len(weights), len(sums)), strict=True):
                for part in blocks(block.stop - block.start, n * m * work.dtype.itemsize):
                    some = slice(block.start + part.start, block.start + part.stop)
                    room = work.scratch("rows", some.stop - some.start, n, m)
                    rows = _products([pair.part(some) for pair in pairs], room, work).flatten(1)
                    if work.trying:
                        seen[some] = bits_of(rows).sum(1)
                    out.addmv_(rows.T, weights[some])

    def _many(self, pairs: Sequence[Pair]) -> bool:
        """Whether gradients are cheaper than the inner products of all positions."""
        n, m = self.shape
        dense = all(pair.left.is_floating_point() for pair in pairs)
        return dense and _positions(pairs) * (n + m) >= n * m

    def _single(self, pairs: Sequence[Pair], share: int, norms: Norms) -> None:
        r"""|sum_k l_k r_k'|^2 = sum_k |l_k|^2 |r_k|^2 + sum_{k<j} 2 <l_k, l_j> <r_k, r_j>.

        Terms may cancel, and what rounding does to the second sum is relative to the norms:
        2 |l_k||l_j||r_k||r_j| <= |l_k|^2 |r_k|^2 + |l_j|^2 |r_j|^2,  (sum_k |l_k||r_k|)^2 <= K sum_k |l_k|^2 |r_k|^2.
        """
        several = len(pairs) > 1
        rounding = (len(pairs) - 1) * slack(sum(self.shape)) + several * len(pairs) * CANCELLED
        for k, pair in enumerate(pairs):
            norms.add(share, pair.left, pair.right, 1 + rounding)
            for other in pairs[:k]:
                norms.add_inner(share, (pair.left, other.left), (_right(pair), _right(other)))

    def _measured(self, pairs: Sequence[Pair], work: Workspace) -> tuple[Tensor, Tensor]:
        """From the gradients of a few records at a time."""
        n, m = self.shape
        records, positions = len(pairs[0].left), _positions(pairs)
        norms = torch.empty(records, dtype=torch.float64, device=work.device)
        for some in blocks(records, n * m * work.dtype.itemsize):
            room = work.scratch("rows", some.stop - some.start, n, m)
            rows = _products([pair.part(some) for pair in pairs], room, work)
            norms[some] = torch.linalg.vector_norm(rows.flatten(1), dim=1)
        # rounding is relative to what was added up
        lengths = sum_of(map(_lengths, pairs))
        norms.add_(lengths, alpha=slack(positions, work.dtype))
        norms.square_().mul_(1 + slack(n * m, work.dtype)).add_(lost(n * m * positions, work.dtype))
        return norms, lengths

    def _inner(self, pairs: Sequence[Pair], work: Workspace) -> tuple[Tensor, Tensor]:
        r"""sum_{t,s} <l_t, l_s> <r_t, r_s> over the positions of all pairs; how it is bounded stands in `rounding`."""
        (n, m), records, positions = self.shape, len(pairs[0].left), _positions(pairs)
        if not any(pair.left.is_floating_point() for pair in pairs):
            # inner products of unit vectors are 0 or 1, of which no digit is lost
            n = 1
        scaled, pairs = ([pair for pair in pairs if pair.shared is kind] for kind in (True, False))
        coarse = len(pairs) == 1 and positions * slack(n + m + positions, work.dtype) <= ROUGH
        dtype = work.dtype if coarse else torch.float64
        squares, lengths, lefts, rights = torch.zeros((4, records), dtype=torch.float64, device=work.device)
        for some in blocks(records, dtype.itemsize * positions * max(positions, n + m)):
            held = [_held_in(dtype, pair.part(some)) for pair in pairs]
            for first, second in combinations_with_replacement(held, 2):
                left, right = _inner_products(first, second, work)
                if first is second:
                    one, other = (
                        (product.diagonal(dim1=1, dim2=2).double() + lost(size, dtype)).sqrt_()
                        for product, size in ((left, n), (right, m))
                    )
                    lefts[some] += one.sum(1)
                    rights[some] += other.sum(1)
                    lengths[some] += one.mul_(other).sum(1)
                found = left.mul_(right).sum(2).sum(1, dtype=torch.float64)
                squares[some].add_(found, alpha=1 if first is second else 2)
            shared = [(pair.left[some].to(dtype), _right(pair).to(dtype)) for pair in scaled]
            for number, (u, rows) in enumerate(shared):
                # <l_t r_t', diag(u) rows> = sum_k l_tk u_k <r_t, row_k>
                for left, right in held:
                    scores = work.mm(right.flatten(0, 1), rows.T).view(left.shape)
                    squares[some].add_(scores.mul_(left).sum(1).mul_(u).sum(1, dtype=torch.float64), alpha=2)
                for other, others in shared[: number + 1]:
                    found = (u * other).mul_((rows * others).sum(1)).sum(1, dtype=torch.float64)
                    squares[some].add_(found, alpha=1 if other is u else 2)
        for pair in scaled:
            lengths += length_of_scaled_rows(pair)
            lefts += pair.left.abs().sum(1, dtype=torch.float64)
            rights += torch.linalg.vector_norm(_right(pair), dim=1, dtype=torch.float64).sum()
        lengths.mul_(1 + slack(n + m, dtype))
        # zero for what is below it, and NaN for what was too large to be computed
        squares.mul_(squares >= 0).addcmul_(lengths, lengths, value=slack(n + m + positions, dtype))
        squares.addcmul_(lefts, lefts, value=2 * lost(m, dtype)).addcmul_(rights, rights, value=2 * lost(n, dtype))
        return squares.add_(2 * lost((positions + n * len(scaled)) ** 2, dtype)), lengths

    def _as_summed(self, measured: tuple[Tensor, Tensor], pairs: Sequence[Pair]) -> Tensor:
        """A bound of the squared norms of what `sum` adds, from squared norms and lengths of the gradients."""
        squares, lengths = measured
        dtype = _right(pairs[0]).dtype
        if _is_alone(pairs):
            squares.sqrt_().add_(lengths, alpha=slack(_positions(pairs), dtype)).square_()
            squares.add_(2 * lost(self.shape[0] * self.shape[1] * _positions(pairs), dtype))
            squares.masked_fill_(too_long(lengths, dtype), torch.inf)
        else:
            squares.addcmul_(lengths, lengths, value=CANCELLED)
        return squares.mul_(1 + slack(16, dtype))


def _is_alone(pairs: Sequence[Pair]) -> bool:
    """Whether a record's product is computed by itself before it is added to others'; alike for all shares."""
    dense = all(pair.left.is_floating_point() for pair in pairs)
    return dense and max(_positions([pair]) for pair in pairs) >= MANY


def _right(pair: Pair) -> Tensor:
    assert pair.right is not None, "a matrix has two sides"
    return pair.right


def _positions(pairs: Sequence[Pair]) -> int:
    return sum(1 if right.ndim == 2 else right.shape[1] for right in map(_right, pairs))


def _sequences(pair: Pair) -> tuple[Tensor, Tensor]:
    left, right = pair.left, _right(pair)
    return (left[:, None], right[:, None]) if right.ndim == 2 else (left, right)


def product(pair: Pair) -> Tensor:
    """sum_t left_t right_t' of every record, in a row."""
    left, right = _sequences(pair)
    return torch.bmm(left.transpose(1, 2), right).flatten(1)


def _products(pairs: Sequence[Pair], out: Tensor, work: Workspace) -> Tensor:
    for number, (left, right) in enumerate(_sequences(pair) for pair in pairs if not pair.shared):
        work.add_bmm(out, left.transpose(1, 2), right, first=number == 0)
    add_scaled_rows(out, pairs)
    return out


def _lengths(pair: Pair) -> Tensor:
    """sum_t |left_t| |right_t|, in float64."""
    if pair.shared:
        return length_of_scaled_rows(pair)
    left, right = _sequences(pair)
    each: Tensor = torch.linalg.vector_norm(right, dim=-1, dtype=torch.float64)
    if left.is_floating_point():
        each = each * torch.linalg.vector_norm(left, dim=-1, dtype=torch.float64)
    return each.sum(1)


def _held_in(dtype: torch.dtype, pair: Pair) -> tuple[Tensor, Tensor]:
    left, right = _sequences(pair)
    return left.to(dtype) if left.is_floating_point() else left, right.to(dtype)


def _inner_products(
    first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor], work: Workspace
) -> tuple[Tensor, Tensor]:
    """<l_t, l_s> and <r_t, r_s> of every record."""
    (l1, r1), (l2, r2) = first, second
    if not l1.is_floating_point() and l2.is_floating_point():
        return _inner_products(second, first, work)
    if l2.is_floating_point():
        left = work.bmm(l1, l2.transpose(1, 2))
    elif l1.is_floating_point():
        # the inner product with a unit vector is a coordinate
        left = l1.gather(2, l2[:, None, :].expand(-1, l1.shape[1], -1))
    else:
        left = (l1[:, :, None] == l2[:, None, :]).to(r1.dtype)
    return left, work.bmm(r1, r2.transpose(1, 2))


class Product(NamedTuple):
    """sum_k weights_k mixed_k times one other side, for every record. `mixed` are lefts, or else rights."""

    mixed: list[tuple[Tensor, Tensor]]
    other: Tensor
    lefts: bool

    @property
    def is_one_for_each_share(self) -> bool:
        """Whether no share has a second product that could take away from the first."""
        single = self.other.ndim == 2 and self.other.is_floating_point()
        return single and len({id(weights) for weights, _ in self.mixed}) == len(self.mixed)

    def sum_of_blocks(self, sums: Tensor, work: Workspace) -> Step:
        mixed = work.take(*self.mixed[0][1].shape)
        left, right = (each.view(len(sums), -1, each.shape[1]) for each in self._sides(mixed, self.other))
        left = left.transpose(1, 2)
        (weights, first), *more = ((weights[:, None], tensor) for weights, tensor in self.mixed)

        def write() -> None:
            torch.mul(first, weights, out=mixed)
            for each, tensor in more:
                mixed.addcmul_(tensor, each)
            torch.bmm(left, right, out=sums)

        return write

    def add_wide(self, total: Tensor, some: slice, work: Workspace, first: bool) -> Iterator[Step]:
        other = self.other[some]
        if not other.is_floating_point() and first:
            yield total.zero_
        if not other.is_floating_point() and work.device.type == "cpu":
            words = other.view(len(other), -1).numpy()
            for weights, tensor in self.mixed:
                rows = tensor[some].view(*words.shape, -1).numpy()
                yield partial(kernels.add_words, total.numpy(), words, rows, weights[some].numpy())
            return
        mixed = work.scratch("mixed", *self.mixed[0][1][some].shape, dtype=torch.float64)
        for number, (weights, tensor) in enumerate(self.mixed):
            each = weights[some].view(-1, *[1] * (tensor.ndim - 1))
            yield partial(_mix, mixed, tensor[some], each, first=number == 0)
        if other.is_floating_point():
            wide = work.scratch("other", *other.shape, dtype=torch.float64)
            left, right = (each.view(-1, each.shape[-1]) for each in self._sides(mixed, wide))
            yield partial(wide.copy_, other)
            yield partial(torch.addmm, total, left.T, right, beta=0 if first else 1, out=total)
        else:
            yield partial(total.index_add_, 0, other.view(-1), mixed.view(-1, mixed.shape[-1]))

    def _sides(self, mixed: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        return (mixed, other) if self.lefts else (other, mixed)


def _mix(mixed: Tensor, tensor: Tensor, weights: Tensor, first: bool) -> None:
    if first:
        torch.mul(tensor, weights.double(), out=mixed)
    else:
        mixed.addcmul_(tensor.double(), weights.double())


def _add_scaled(total: Tensor, weights: Tensor, left: Tensor, rows: Tensor) -> None:
    total.addcmul_((weights.double() @ left.double())[:, None], rows)


def _merged(weighted: Sequence[tuple[Tensor, Pair]]) -> list[Product]:
    """Pairs that share a side become one product."""
    waiting = [(weights, pair.left, _right(pair)) for weights, pair in weighted]
    merged = []
    while waiting:
        weights, left, right = waiting.pop(0)
        dense = left.is_floating_point()
        sharing = [entry for entry in waiting if dense and same(entry[2], right) and entry[1].is_floating_point()]
        if dense and (sharing or not any(same(entry[1], left) for entry in waiting)):
            merged.append(Product([(weights, left), *((w, other) for w, other, _ in sharing)], right, lefts=True))
        else:
            sharing = [entry for entry in waiting if same(entry[1], left)]
            merged.append(Product([(weights, right), *((w, other) for w, _, other in sharing)], left, lefts=False))
        if sharing:
            waiting = [entry for entry in waiting if not any(entry is one for one in sharing)]
    return merged
