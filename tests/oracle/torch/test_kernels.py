"""The loops that load weights and bound norms, against NumPy."""

import numpy as np
import pytest
import torch
from torch import nn

from sordino.oracle.query import Gradient
from sordino.oracle.torch import TorchOracle, kernels, network_problem, parameter_vector


def on_a_line(size):
    """Floats that begin on a cache line, as PyTorch allocates them."""
    tensor = torch.full((max(size, 1),), -7.0)
    assert tensor.data_ptr() % 64 == 0
    return tensor.numpy()[:size]


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1023, 1024, 1040, 5003])
@pytest.mark.parametrize("load", [kernels.copy, kernels.stream], ids=["copy", "stream"])
def test_weights_are_rounded_once_and_told_whether_they_are_finite(size, load):
    source = np.random.default_rng(size).normal(size=size)
    target = on_a_line(size)
    assert load(source, target)
    np.testing.assert_array_equal(target, source.astype(np.float32))
    for bad in (np.nan, np.inf, -np.inf):
        for place in {0, size // 2, size - 1} if size else ():
            spoiled = source.copy()
            spoiled[place] = bad
            assert not load(spoiled, on_a_line(size))
    # beyond single precision, but finite
    assert load(np.full(size, 1e300), on_a_line(size))


def test_a_step_does_not_depend_on_how_weights_are_loaded(monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 3))
    X, y = torch.randn(20, 40), torch.arange(20) % 3
    oracle = TorchOracle(model, nn.CrossEntropyLoss(reduction="none"), (X, y), network_problem(model, 20))
    w = parameter_vector(model)
    answers = []
    for threads in (1, 2):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        answers += [oracle._answer(Gradient(at, 1.0)).copy() for at in (w, w + 0.1)]
    np.testing.assert_array_equal(answers[0], answers[2])
    np.testing.assert_array_equal(answers[1], answers[3])
    assert not np.array_equal(answers[0], answers[1])


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
