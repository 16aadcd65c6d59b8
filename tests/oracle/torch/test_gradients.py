"""Book-keeping against torch.func: every layer, dtype and query."""

import warnings

import numpy as np
import pytest
import torch

import torch_networks as nets
from sordino.oracle.query import Difference, Gradient, Recursion
from sordino.oracle.torch import TorchOracle, clipping, norms

QUERIES = ["gradient", "difference", "recursion"]
DTYPES = {"float32": (torch.float32, 1e-5), "float64": (torch.float64, 1e-12)}


def oracle_of(network, model, data, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("error" if network.known else "ignore")
        return TorchOracle(model, nets.CROSS_ENTROPY, data, nets.problem_of(model, len(data[0])), **settings)


def question(kind, model, data, batch=None):
    """A query that clips about half of the records, and its answer record by record."""
    at, since = nets.two_points(model)
    new, old = (nets.gradients(model, data, point) for point in (at, since))
    clip, near = (float(np.median(np.linalg.norm(rows, axis=1))) for rows in (new, new - old))
    gradient, difference = Gradient(at, clip, batch), Difference(at, since, near, batch)
    if kind == "gradient":
        return gradient, nets.clipped(new, clip)
    if kind == "difference":
        return difference, nets.clipped(new - old, near)
    return Recursion(difference, gradient, 0.3), 0.7 * nets.clipped(new - old, near) + 0.3 * nets.clipped(new, clip)


@pytest.mark.filterwarnings("ignore:Using padding=.same.")
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", nets.NETWORKS)
def test_a_clipped_sum_is_the_sum_of_clipped_gradients(name, dtype, query):
    network = nets.NETWORKS[name]
    kind, tolerance = DTYPES[dtype]
    model, data = network.model(kind), network.data(kind)
    asked, expected = question(query, model, data)
    answer = oracle_of(network, model, data)._answer(asked)
    assert np.linalg.norm(answer - expected.sum(0)) <= tolerance * np.linalg.norm(expected.sum(0))


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("name", nets.NETWORKS)
def test_other_devices_give_the_same_answer(name, query, monkeypatch):
    """What a graphics card would be asked to do, done by the processor."""
    network = nets.NETWORKS[name]
    model, data = network.model(), network.data()
    asked, _ = question(query, model, data)
    expected = oracle_of(network, model, data)._answer(asked).copy()
    monkeypatch.setattr(clipping, "norms_of", norms._Operations)
    answer = oracle_of(network, model, data)._answer(asked)
    assert np.linalg.norm(answer - expected) <= 1e-12 * np.linalg.norm(expected)


@pytest.mark.parametrize("operations", [True, False])
def test_spoiled_records_are_left_out_on_every_device(operations, monkeypatch):
    if operations:
        monkeypatch.setattr(clipping, "norms_of", norms._Operations)
    network = nets.NETWORKS["linear"]
    model, (X, y) = network.model(), network.data()
    asked, rows = question("recursion", model, (X, y))
    X[3, 1] = np.nan
    answer = oracle_of(network, model, (X, y))._answer(asked)
    expected = np.delete(rows, 3, axis=0).sum(0)
    assert np.linalg.norm(answer - expected) <= 1e-12 * np.linalg.norm(expected)


def test_a_share_of_nothing_leaves_the_other_alone():
    """mix = 0 weighs every gradient with zero, which is not what marks a spoiled record."""
    network = nets.NETWORKS["linear"]
    model, (X, y) = network.model(), network.data()
    asked, _ = question("recursion", model, (X, y))
    X[3, 1] = np.nan
    oracle = oracle_of(network, model, (X, y))
    for mix, alone in ((0.0, asked.difference), (1.0, asked.gradient)):
        answer = oracle._answer(Recursion(asked.difference, asked.gradient, mix)).copy()
        expected = oracle._answer(alone)
        assert np.linalg.norm(answer - expected) <= 1e-12 * np.linalg.norm(expected)


def test_half_precision():
    network = nets.NETWORKS["linear"]
    model, data = network.model(torch.bfloat16), network.data()
    asked, expected = question("gradient", model, data)
    answer = oracle_of(network, model, data)._answer(asked)
    assert np.linalg.norm(answer - expected.sum(0)) <= 0.1 * np.linalg.norm(expected.sum(0))
