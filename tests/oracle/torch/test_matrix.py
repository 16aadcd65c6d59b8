"""Squared norms from inner products, and sums by one product per record: bounds that rounding does not break."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from sordino.oracle.query import Gradient
from sordino.oracle.torch import TorchOracle, matrix, network_problem
from sordino.oracle.torch.matrix import Matrix
from sordino.oracle.torch.pairs import Pair
from sordino.oracle.torch.rounding import ROUGH, slack
from sordino.oracle.torch.workspace import Workspace

RECORDS, POSITIONS, N, M = 16, 20, 48, 64


def work():
    return Workspace(torch.float32, torch.device("cpu"))


def sides(kind, seed=0):
    generator = torch.Generator().manual_seed(seed)
    left, right = (torch.randn(RECORDS, POSITIONS, size, generator=generator) for size in (N, M))
    match kind:
        case "cancelling":
            # every second position takes away what the one before has added, but for a few digits
            left[:, 1::2], right[:, 1::2] = -left[:, ::2], right[:, ::2] * (1 + 1e-6)
        case "aligned":
            left[:], right[:] = left[:, :1], right[:, :1]
        case "small":
            left, right = left * 1e-24, right * 1e-18
        case "small beside large":
            left, right = left * 1e-30, right * 1e12
    return left, right


def exact(left, right):
    return np.einsum("btn,btm->bnm", *(side.double().numpy() for side in (left, right)))


@pytest.mark.parametrize("kind", ["random", "cancelling", "aligned", "small", "small beside large"])
def test_a_norm_from_inner_products_is_an_upper_bound_and_near(kind):
    left, right = sides(kind)
    form = Matrix((N, M))
    assert not form._many([Pair(left, right)])
    squares, lengths = form._inner([Pair(left, right)], work())
    true = (exact(left, right) ** 2).sum((1, 2))
    long = (np.linalg.norm(left.double(), axis=2) * np.linalg.norm(right.double(), axis=2)).sum(1)
    assert (squares.numpy() >= true).all()
    assert (lengths.numpy() >= long * (1 - 1e-12)).all()
    if "small" not in kind:
        assert (lengths.numpy() <= long * 1.0001).all()
        # twice: above the truth by rounding, and by what is added for it
        assert (squares.numpy() <= true + 2 * slack(N + M + POSITIONS, torch.float32) * long**2).all()


@pytest.mark.parametrize("kind", ["random", "cancelling", "aligned", "small beside large"])
def test_what_a_record_adds_is_within_its_measured_norm(kind):
    left, right = sides(kind)
    form, pairs, room = Matrix((N, M)), [Pair(left, right)], work()
    bound = form._as_summed(form._inner(pairs, room), pairs).sqrt()
    out = torch.empty(RECORDS, N * M)
    # one block for every record
    form.sum(out, [(torch.ones(RECORDS), pairs[0])], room)()
    assert (torch.linalg.vector_norm(out.double(), dim=1) <= bound).all()
    if kind == "random":
        assert (bound <= 1.01 * torch.linalg.vector_norm(out.double(), dim=1)).all()


def test_numbers_too_large_for_inner_products_are_not_taken_for_small_ones():
    """Where a product off the diagonal overflows to minus infinity, a clamp at zero would hide the norm."""
    left, right = sides("random")
    for scale in 10.0 ** np.arange(8, 12, 0.125):
        pairs = [Pair(left * float(scale), right * float(scale))]
        squares, _ = Matrix((N, M))._inner(pairs, work())
        true = (exact(*pairs[0].sides()) ** 2).sum((1, 2))
        assert (~torch.isfinite(squares) | (squares >= torch.from_numpy(true))).all()
    assert not torch.isfinite(squares).any()


def test_a_minus_infinity_is_no_norm(monkeypatch):
    pairs = [Pair(*sides("random"))]

    def products(first, second, work):
        left = torch.ones(RECORDS, POSITIONS, POSITIONS)
        right = left.clone()
        right[:, 0, 1] = -math.inf
        return left, right

    monkeypatch.setattr(matrix, "_inner_products", products)
    squares, _ = Matrix((N, M))._inner(pairs, work())
    assert torch.isnan(squares).all()


def test_coarse_inner_products_only_where_their_rounding_is_small(monkeypatch):
    """Many numbers, or several pairs, are multiplied in double precision."""
    left, right = sides("random")
    kinds = []
    inner = matrix._inner_products

    def watched(first, second, work):
        kinds.append(first[1].dtype)
        return inner(first, second, work)

    monkeypatch.setattr(matrix, "_inner_products", watched)
    form = Matrix((N, M))
    assert POSITIONS * slack(N + M + POSITIONS, torch.float32) <= ROUGH
    form._inner([Pair(left, right)], work())
    assert set(kinds) == {torch.float32}
    kinds.clear()
    form._inner([Pair(left, right), Pair(left, right)], work())
    monkeypatch.setattr(matrix, "ROUGH", 1e-6)
    form._inner([Pair(left, right)], work())
    assert set(kinds) == {torch.float64}


@pytest.mark.parametrize("kind", ["random", "cancelling", "aligned"])
def test_the_number_of_words_rounds_nothing(kind):
    """Inner products of unit vectors are exact, however long these are."""
    words = torch.arange(POSITIONS).div(2, rounding_mode="floor").expand(RECORDS, -1)
    # every word stands twice, and a cancelling record is nearly nothing
    right = sides(kind)[1] * (torch.tensor([1.0, -1.0]).repeat(POSITIONS // 2)[:, None] if kind == "cancelling" else 1)
    squares, lengths = Matrix((10**7, M))._inner([Pair(words, right)], work())
    true = (exact(torch.nn.functional.one_hot(words).float(), right) ** 2).sum((1, 2))
    long = np.linalg.norm(right.double(), axis=2).sum(1)
    assert (squares.numpy() >= true).all()
    assert (lengths.numpy() >= long * (1 - 1e-12)).all()
    assert (squares.numpy() <= true + 2 * slack(1 + M + POSITIONS, torch.float32) * long**2).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_several_pairs_are_measured_as_their_sum(dtype):
    """In double precision, whose inner products must not be changed while lengths are taken from them."""
    (l1, r1), (l2, r2) = ((side.to(dtype) for side in sides("random", seed)) for seed in (0, 1))
    room = Workspace(dtype, torch.device("cpu"))
    squares, _ = Matrix((N, M))._inner([Pair(l1, r1), Pair(l2, r2)], room)
    true = ((exact(l1, r1) + exact(l2, r2)) ** 2).sum((1, 2))
    np.testing.assert_allclose(squares, true, rtol=1e-9)


@pytest.mark.parametrize("positions", [2, POSITIONS])
@pytest.mark.parametrize("kind", ["random", "cancelling", "small"])
def test_rows_that_all_records_share_are_measured_and_added(kind, positions):
    """Each record has its own multiples of them, which may take away nearly all of its products."""
    left, right = (side[:, :positions] for side in sides("small" if kind == "small" else "random"))
    scales, rows = torch.randn(RECORDS, N), torch.randn(N, M)
    if kind == "cancelling":
        right = right[:1, :1].expand(RECORDS, positions, M).contiguous()
        scales, rows = -left.sum(1) * (1 + 1e-6), right[0, :1].expand(N, M).contiguous()
    form, pairs, room = Matrix((N, M)), [Pair(left, right), Pair(scales, rows, shared=True)], work()
    squares, lengths = form._inner(pairs, room)
    scaled = (each.double().numpy() for each in (scales, rows))
    true = exact(left, right) + np.einsum("bn,nm->bnm", *scaled)
    long = (np.linalg.norm(left.double(), axis=2) * np.linalg.norm(right.double(), axis=2)).sum(1)
    long += np.abs(scales.double().numpy()) @ np.linalg.norm(rows.double(), axis=1)
    assert (squares.numpy() >= (true**2).sum((1, 2))).all()
    assert (lengths.numpy() >= long * (1 - 1e-12)).all()
    most = (true**2).sum((1, 2)) + 2 * slack(N + M + positions + 1, torch.float32) * long**2
    assert (squares.numpy() <= 1.0001 * most).all()
    bound = form._as_summed((squares, lengths), pairs).sqrt()
    out = torch.empty(RECORDS, N * M)
    form.sum(out, [(torch.ones(RECORDS), pair) for pair in pairs], room)()
    assert (torch.linalg.vector_norm(out.double(), dim=1) <= bound).all()
    np.testing.assert_allclose(out, true.reshape(RECORDS, -1), rtol=0, atol=1e-5 * long.max())


class _Cancelling(nn.Module):
    """One layer twice, once with the other sign: no record has a gradient, whatever its numbers are."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(80, 80, bias=False)

    def forward(self, x):
        return self.layer(x) - self.layer(x)


def test_a_record_whose_products_cancel_at_infinity_counts_for_nothing():
    """In single precision its sum would be infinity minus infinity, and so would be what is released."""
    model = _Cancelling()
    x, y = torch.ones(3, 16, 80), torch.ones(3, 16, 80)
    x[1], y[1] = 0, 0
    x[1, 0, 0] = y[1, 0, 0] = 1e20
    oracle = TorchOracle(model, lambda out, y: (out * y).sum((1, 2)), (x, y), network_problem(model, 3))
    assert np.array_equal(oracle._answer(Gradient(np.zeros(80 * 80), 1.0)), np.zeros(80 * 80))


def test_products_too_large_on_the_way_are_no_norm():
    left, right = sides("random")
    form, room = Matrix((N, M)), work()
    left, right = left[:2], right[:2]
    left[1], right[1] = left[1] * 1e18, right[1] * 1e20
    # twice, as in a layer that is used twice: in double precision nothing is too large
    pairs = [Pair(left, right), Pair(-left, right)]
    squares, lengths = form._inner(pairs, room)
    assert torch.isfinite(squares).all()
    bound = form._as_summed((squares, lengths), pairs)
    assert torch.isfinite(bound).tolist() == [True, False]
