"""Book-keeping against torch.func: every layer, dtype and query."""

import warnings

import numpy as np
import pytest
import torch

import torch_networks as nets
from sordino.oracle.query import Difference, Gradient, Recursion
from sordino.oracle.torch import TorchOracle

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
