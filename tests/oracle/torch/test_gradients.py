"""Book-keeping against torch.func: every layer, dtype and query."""

import warnings
from types import MethodType

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import torch_networks as nets
from sordino.oracle.query import Difference, Gradient, Recursion
from sordino.oracle.torch import TorchOracle, clipping, norms, parameter_vector

QUERIES = ["gradient", "difference", "recursion"]
# in double precision what is left is the grid of the sums
DTYPES = {"float32": (torch.float32, 1e-5), "float64": (torch.float64, 1e-7)}


def oracle_of(network, model, data, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("error" if network.known else "ignore")
        warnings.filterwarnings("ignore", "Using padding=.same.")
        return TorchOracle(model, nets.CROSS_ENTROPY, data, nets.problem_of(model, len(data[0])), **settings)


def question(kind, model, data, oracle):
    """A query that clips about half of the records, and its answer record by record.

    Clips are a little smaller than asked for, so that sums have room for rounding.
    """
    at, since = nets.two_points(model)
    new, old = (nets.gradients(model, data, point) for point in (at, since))
    clip, near = (float(np.median(np.linalg.norm(rows, axis=1))) for rows in (new, new - old))
    gradient, difference = Gradient(at, clip), Difference(at, since, near)
    query = {"gradient": gradient, "difference": difference, "recursion": Recursion(difference, gradient, 0.3)}[kind]
    room = oracle._room(query)
    assert 1 < room < 1.001
    rows = {"gradient": nets.clipped(new, clip / room), "difference": nets.clipped(new - old, near / room)}
    return query, rows[kind] if kind in rows else 0.7 * rows["difference"] + 0.3 * rows["gradient"]


@pytest.mark.filterwarnings("ignore:Using padding=.same.")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", nets.named())
def test_a_clipped_sum_is_the_sum_of_clipped_gradients(name, dtype):
    network = nets.NETWORKS[name]
    kind, tolerance = DTYPES[dtype]
    model, data = network.model(kind), network.data(kind)
    oracle = oracle_of(network, model, data)
    for query in QUERIES:
        asked, expected = question(query, model, data, oracle)
        assert np.linalg.norm(oracle._answer(asked) - expected.sum(0)) <= tolerance * np.linalg.norm(expected.sum(0))


@pytest.mark.slow
@pytest.mark.parametrize("name", nets.named())
def test_other_devices_give_the_same_answer(name, monkeypatch):
    """What a graphics card would be asked to do, done by the processor."""
    network = nets.NETWORKS[name]
    model, data = network.model(), network.data()
    oracle = oracle_of(network, model, data)
    queries = [question(query, model, data, oracle)[0] for query in QUERIES]
    expected = [oracle._answer(asked).copy() for asked in queries]
    monkeypatch.setattr(clipping, "norms_of", norms._Operations)
    for asked, answer in zip(queries, expected, strict=True):
        assert np.linalg.norm(oracle._answer(asked) - answer) <= 1e-7 * np.linalg.norm(answer)


@pytest.mark.parametrize("operations", [True, False])
def test_spoiled_records_are_left_out_on_every_device(operations, monkeypatch):
    if operations:
        monkeypatch.setattr(clipping, "norms_of", norms._Operations)
    network = nets.NETWORKS["linear"]
    model, (X, y) = network.model(), network.data()
    spoiled = X.clone()
    spoiled[3, 1] = np.nan
    oracle = oracle_of(network, model, (spoiled, y))
    asked, rows = question("recursion", model, (X, y), oracle)
    answer = oracle._answer(asked)
    expected = np.delete(rows, 3, axis=0).sum(0)
    assert np.linalg.norm(answer - expected) <= 1e-7 * np.linalg.norm(expected)


def test_a_share_of_nothing_leaves_the_other_alone():
    """mix = 0 weighs every gradient with zero, which is not what marks a spoiled record."""
    network = nets.NETWORKS["linear"]
    model, (X, y) = network.model(), network.data()
    spoiled = X.clone()
    spoiled[3, 1] = np.nan
    oracle = oracle_of(network, model, (spoiled, y))
    asked, _ = question("recursion", model, (X, y), oracle)
    for mix, alone in ((0.0, asked.difference), (1.0, asked.gradient)):
        answer = oracle._answer(Recursion(asked.difference, asked.gradient, mix)).copy()
        expected = oracle._answer(alone)
        assert np.linalg.norm(answer - expected) <= 1e-7 * np.linalg.norm(expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    network = nets.NETWORKS["linear"]
    model, data = network.model(dtype), network.data()
    oracle = oracle_of(network, model, data)
    asked, expected = question("gradient", model, data, oracle)
    answer = oracle._answer(asked)
    assert np.linalg.norm(answer - expected.sum(0)) <= 0.1 * np.linalg.norm(expected.sum(0))


def doubled(layer):
    layer.forward = MethodType(lambda self, x: F.linear(x, self.weight * 2, self.bias), layer)


def scaled_by_a_hook(layer):
    layer.scale = nn.Parameter(torch.linspace(0.5, 2, 4))
    layer.register_forward_hook(lambda layer, inputs, output: output * layer.scale)


@pytest.mark.filterwarnings("ignore:.*torch.func")
@pytest.mark.parametrize("change", [doubled, scaled_by_a_hook])
def test_a_layer_that_somebody_has_changed(change):
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    change(model[0])
    X, y = nets.NETWORKS["linear"].data(torch.float64)
    oracle = TorchOracle(model.double(), nets.CROSS_ENTROPY, (X, y), nets.problem_of(model))
    expected = torch.autograd.grad(nets.CROSS_ENTROPY(model(X), y).sum(), list(model.parameters()))
    answer = oracle._answer(Gradient(parameter_vector(model), 100.0))
    assert np.allclose(answer, torch.cat([each.flatten() for each in expected]), rtol=0, atol=1e-4)
