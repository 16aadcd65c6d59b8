"""Sums of outer products: the gradients of linear layers and embeddings, never written down for every record."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement

import torch
from torch import Tensor

from sordino.oracle.torch.norms import Norms
from sordino.oracle.torch.pairs import KEEP, Pair, blocks, sum_of
from sordino.oracle.torch.rounding import lost, slack
from sordino.oracle.torch.workspace import Workspace


class Matrix:
    """sum_t left_t right_t', from tensors (records, t, n) and (records, t, m), or (records, n) and (records, m).

    Whole numbers (records, t) on the left are the rows at which right_t counts.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape

    def rows(self, pairs: Sequence[Pair], work: Workspace) -> Tensor | None:
        n, m = self.shape
        records = pairs[0].left.shape[0]
        if records * n * m * work.dtype.itemsize > KEEP or not self._many(pairs):
            return None
        return _products(pairs, work.take(records, n, m)).flatten(1)

    def measure(self, pairs: Sequence[Pair], share: int, norms: Norms, work: Workspace) -> None:
        if all(pair.left.ndim == 2 and pair.left.is_floating_point() for pair in pairs):
            self._single(pairs, share, norms)
        else:
            norms.add_known(share, self._measured(pairs, work) if self._many(pairs) else self._inner(pairs))

    def write(self, out: Tensor, weighted: Sequence[tuple[Tensor, Pair]], work: Workspace) -> None:
        matrix = out.view(self.shape)
        for number, (left, right) in enumerate(_merged(weighted, work)):
            right = right if right.ndim == 2 else right.reshape(-1, right.shape[-1])
            if left.is_floating_point():
                left = left if left.ndim == 2 else left.reshape(-1, left.shape[-1])
                matrix.addmm_(left.T, right, beta=min(number, 1))
            else:
                if number == 0:
                    matrix.zero_()
                matrix.index_add_(0, left.reshape(-1), right)

    def _many(self, pairs: Sequence[Pair]) -> bool:
        """Whether gradients are cheaper than the inner products of all positions."""
        n, m = self.shape
        dense = all(pair.left.is_floating_point() for pair in pairs)
        return dense and _positions(pairs) * (n + m) >= n * m

    def _single(self, pairs: Sequence[Pair], share: int, norms: Norms) -> None:
        r"""|sum_k l_k r_k'|^2 = sum_k |l_k|^2 |r_k|^2 + sum_{k<j} 2 <l_k, l_j> <r_k, r_j>.

        Terms may cancel, and what rounding does to the second sum is relative to the norms:
        2 |l_k||l_j||r_k||r_j| <= |l_k|^2 |r_k|^2 + |l_j|^2 |r_j|^2.
        """
        rounding = (len(pairs) - 1) * slack(sum(self.shape))
        for k, pair in enumerate(pairs):
            norms.add(share, pair.left, pair.right, 1 + rounding)
            for other in pairs[:k]:
                norms.add_inner(share, (pair.left, other.left), (_right(pair), _right(other)))

    def _measured(self, pairs: Sequence[Pair], work: Workspace) -> Tensor:
        """From the gradients of a few records at a time."""
        n, m = self.shape
        records, positions = len(pairs[0].left), _positions(pairs)
        norms = torch.empty(records, dtype=torch.float64, device=work.device)
        for some in blocks(records, n * m * work.dtype.itemsize):
            rows = _products([pair.part(some) for pair in pairs], work.scratch("rows", some.stop - some.start, n, m))
            norms[some] = torch.linalg.vector_norm(rows.flatten(1), dim=1)
        # the sum is taken anew, from the pairs: rounding is relative to what was added up
        norms.add_(_lengths(pairs), alpha=slack(positions, work.dtype))
        return norms.square_().mul_(1 + slack(n * m, work.dtype)).add_(lost(n * m * positions, work.dtype))

    def _inner(self, pairs: Sequence[Pair]) -> Tensor:
        r"""sum_{t,s} <l_t, l_s> <r_t, r_s> over the positions of all pairs; in float64, because terms may cancel."""
        records, positions = len(pairs[0].left), _positions(pairs)
        squares = torch.zeros(records, dtype=torch.float64, device=pairs[0].left.device)
        for some in blocks(records, 8 * positions * max(positions, sum(self.shape))):
            wide = [_wide(pair.part(some)) for pair in pairs]
            for first, second in combinations_with_replacement(wide, 2):
                squares[some].add_(_inner_products(first, second), alpha=1 if first is second else 2)
        rough = slack(sum(self.shape) + positions**2)
        return (
            squares.clamp_(min=0)
            .add_(_lengths(pairs).square_(), alpha=rough)
            .mul_(1 + slack(16, _right(pairs[0]).dtype))
        )


def _right(pair: Pair) -> Tensor:
    assert pair.right is not None, "a matrix has two sides"
    return pair.right


def _positions(pairs: Sequence[Pair]) -> int:
    return sum(1 if right.ndim == 2 else right.shape[1] for right in map(_right, pairs))


def _sequences(pair: Pair) -> tuple[Tensor, Tensor]:
    left, right = pair.left, _right(pair)
    return (left[:, None], right[:, None]) if right.ndim == 2 else (left, right)


def _products(pairs: Sequence[Pair], out: Tensor) -> Tensor:
    for number, (left, right) in enumerate(map(_sequences, pairs)):
        torch.baddbmm(out, left.transpose(1, 2), right, beta=min(number, 1), out=out)
    return out


def _lengths(pairs: Sequence[Pair]) -> Tensor:
    """sum_t |left_t| |right_t|, in float64."""

    def lengths(pair: Pair) -> Tensor:
        left, right = _sequences(pair)
        each: Tensor = torch.linalg.vector_norm(right, dim=-1, dtype=torch.float64)
        if left.is_floating_point():
            each = each * torch.linalg.vector_norm(left, dim=-1, dtype=torch.float64)
        return each.sum(1)

    return sum_of(map(lengths, pairs))


def _wide(pair: Pair) -> tuple[Tensor, Tensor]:
    left, right = _sequences(pair)
    return left.double() if left.is_floating_point() else left, right.double()


def _inner_products(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> Tensor:
    """sum_{t,s} <l_t, l_s> <r_t, r_s> of every record."""
    (l1, r1), (l2, r2) = first, second
    if not l1.is_floating_point() and l2.is_floating_point():
        return _inner_products(second, first)
    if l2.is_floating_point():
        left = torch.bmm(l1, l2.transpose(1, 2))
    elif l1.is_floating_point():
        # the inner product with a unit vector is a coordinate
        left = l1.gather(2, l2[:, None, :].expand(-1, l1.shape[1], -1))
    else:
        left = (l1[:, :, None] == l2[:, None, :]).double()
    return left.mul_(torch.bmm(r1, r2.transpose(1, 2))).sum((1, 2))


def _merged(weighted: Sequence[tuple[Tensor, Pair]], work: Workspace) -> list[tuple[Tensor, Tensor]]:
    """The pairs with their weights multiplied in; those that share a side become one."""
    if len(weighted) == 1 and weighted[0][1].left.is_floating_point():
        weights, pair = weighted[0]
        return [(_mixed([(weights, pair.left)], work), _right(pair))]
    waiting = [(weights, pair.left, _right(pair)) for weights, pair in weighted]
    merged = []
    while waiting:
        weights, left, right = waiting.pop(0)
        dense = left.is_floating_point()
        sharing = [entry for entry in waiting if dense and entry[2] is right and entry[1].is_floating_point()]
        if dense and (sharing or not any(entry[1] is left for entry in waiting)):
            merged.append((_mixed([(weights, left), *((w, other) for w, other, _ in sharing)], work), right))
        else:
            sharing = [entry for entry in waiting if entry[1] is left]
            merged.append((left, _mixed([(weights, right), *((w, other) for w, _, other in sharing)], work)))
        if sharing:
            waiting = [entry for entry in waiting if not any(entry is one for one in sharing)]
    return merged


def _mixed(parts: Sequence[tuple[Tensor, Tensor]], work: Workspace) -> Tensor:
    """sum_k weights_k tensor_k, record by record."""
    total = work.take(*parts[0][1].shape)
    for number, (weights, tensor) in enumerate(parts):
        column = weights.view(-1, *[1] * (tensor.ndim - 1))
        if number == 0:
            torch.mul(tensor, column, out=total)
        else:
            total.addcmul_(tensor, column)
    return total
