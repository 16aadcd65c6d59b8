"""The loops that load weights, add up sums and bound norms, against NumPy."""

import numpy as np
import pytest
import torch
from torch import nn

from sordino.oracle.query import Gradient
from sordino.oracle.torch import TorchOracle, kernels, network_problem, parameter_vector
from teams import made_up


@pytest.mark.parametrize("size", [0, 1, 15, 1040, 8192, 40_003])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_weights_are_rounded_once_and_told_whether_they_are_finite(size, threads):
    source, team = np.random.default_rng(size).normal(size=size), made_up(threads)
    target = np.full(size, -7.0, dtype=np.float32)
    assert kernels.copy(source, target, team)
    np.testing.assert_array_equal(target, source.astype(np.float32))
    for bad in (np.nan, np.inf, -np.inf):
        for place in {0, size // 2, size - 1} if size else ():
            spoiled = source.copy()
            spoiled[place] = bad
            assert not kernels.copy(spoiled, target, team)
    # beyond single precision, but finite
    assert kernels.copy(np.full(size, 1e300), target, team)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_sums_are_rounded_to_the_grid_in_every_piece(dtype, threads):
    pivot, generator = 1.5 * 2.0**52 * 2.0**-20, np.random.default_rng(1)
    parts, total = generator.normal(size=(3, 40_003)).astype(dtype), np.full(40_003, np.nan)
    kernels.add_on_grid(parts, total, pivot, True, made_up(threads))
    expected = (np.rint(parts.astype(np.float64) * 2.0**20) * 2.0**-20).sum(0)
    np.testing.assert_array_equal(total, expected)
    kernels.add_on_grid(parts[:1], total, pivot, False, made_up(threads))
    np.testing.assert_array_equal(total, expected + np.rint(parts[0].astype(np.float64) * 2.0**20) * 2.0**-20)


def test_losses_of_another_precision_spoil_only_what_is_not_finite():
    """A loss beyond single precision is finite, and its record counts."""
    model = nn.Linear(3, 1, bias=False)
    targets = torch.tensor([1.0, np.nan, 0.5, np.inf])
    oracle = TorchOracle(
        model,
        lambda outputs, targets: outputs[:, 0] + 1e300 * targets.double(),
        (torch.ones(4, 3), targets),
        network_problem(model, 4),
    )
    for record, share in enumerate([3**-0.5, 0.0, 3**-0.5, 0.0]):
        answer = oracle._answer(Gradient(parameter_vector(model), 1.0, np.array([record])))
        assert answer == pytest.approx(np.full(3, share), rel=1e-3)


@pytest.mark.parametrize("whole", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_added_where_their_words_are(whole, dtype):
    generator = np.random.default_rng(0)
    words = generator.integers(0, 7, (5, 4)).astype(whole)
    rows, weights = generator.normal(size=(5, 4, 3)).astype(dtype), generator.normal(size=5).astype(dtype)
    expected = generator.normal(size=(7, 3))
    # words beyond a table that is cut off are left out
    whole_table, cut = expected.copy(), expected.copy()
    kernels.add_words(whole_table, words, rows, weights)
    kernels.add_words(cut[:5], words, rows, weights)
    before = expected.copy()
    np.add.at(expected, words, rows.astype(np.float64) * weights.astype(np.float64)[:, None, None])
    np.testing.assert_allclose(whole_table, expected, rtol=1e-14)
    np.testing.assert_array_equal(cut[5:], before[5:])
    np.testing.assert_array_equal(cut[:5], whole_table[:5])
