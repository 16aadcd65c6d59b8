"""Layers under weight_norm, opened: what stays closed, and what is the same for all records."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import weight_norm

import torch_networks as nets
from sordino.oracle.query import Gradient
from sordino.oracle.torch import TorchOracle, parameter_vector
from sordino.oracle.torch.opening import open_layers
from sordino.oracle.torch.parameters import places


def by_hooks(layer, **settings):
    with pytest.warns(FutureWarning, match="deprecated"):
        return nn.utils.weight_norm(layer, **settings)


def opened(layer):
    return [place.name for place in open_layers(layer, places(layer), set)]


@pytest.mark.parametrize("normed", [weight_norm, by_hooks])
@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.Linear(3, 4), (3,)), (nn.Conv1d(3, 4, 2), (3, 5)), (nn.Conv3d(2, 4, 2, bias=False), (2, 3, 3, 3))],
    ids=["linear", "conv1d", "conv3d"],
)
def test_an_opened_layer_computes_the_same(layer, shape, normed):
    torch.manual_seed(0)
    layer = normed(copy.deepcopy(layer).double())
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(1.5).add_(0.1)
    x = torch.randn(2, *shape, dtype=torch.float64)
    expected = layer(x)
    names = opened(layer)
    assert sorted(names) == sorted(["inner.weight", "affine.weight", *["affine.bias"] * (layer.bias is not None)])
    assert torch.allclose(layer(x), expected, rtol=1e-12, atol=1e-12)


def other_lengths(layer):
    return weight_norm(layer, dim=1)


def one_length(layer):
    return by_hooks(layer, dim=None)


def pruned(layer):
    layer = by_hooks(layer)
    prune.random_unstructured(layer, "weight_v", 0.4)
    return layer


def pruned_bias(layer):
    prune.random_unstructured(layer, "bias", 0.5)
    return weight_norm(layer)


def computed_further(layer):
    torch.nn.utils.parametrize.register_parametrization(weight_norm(layer), "weight", nn.Tanh())
    return layer


@pytest.mark.parametrize("change", [other_lengths, one_length, pruned, pruned_bias, computed_further])
def test_what_computes_something_else_stays_closed(change):
    layer = change(nn.Linear(6, 4))
    before = [place.name for place in places(layer)]
    assert opened(layer) == before
    assert "forward" not in vars(layer)


def test_a_layer_that_shares_its_direction_stays_closed():
    model = nn.Sequential(weight_norm(nn.Linear(4, 4)), weight_norm(nn.Linear(4, 4)))
    model[1].parametrizations.weight.original1 = model[0].parametrizations.weight.original1
    assert opened(model) == [place.name for place in places(model)]


@pytest.mark.parametrize("steps", [1, 2])
def test_rows_that_are_aligned_or_computed_one_by_one(steps):
    """The lengths of the weights follow from no record, whichever way the records are computed."""
    model, data = nets.NETWORKS["weight norm"].model(), nets.NETWORKS["weight norm"].data()
    query = Gradient(parameter_vector(model), 0.2)
    oracle = TorchOracle(model, nets.CROSS_ENTROPY, data, nets.problem_of(model))
    expected = oracle._answer(query).copy()
    for _ in range(steps):
        assert oracle._passes.more_careful() is not None
    oracle._books, oracle._clippings = [oracle._passes.books()], {}
    assert np.allclose(oracle._answer(query), expected, rtol=0, atol=1e-7)


def test_without_a_direction_no_record_counts():
    """PyTorch divides by a length of zero: no record has a loss, and what is released must not tell more than that."""
    model, data = nets.NETWORKS["weight norm"].model(), nets.NETWORKS["weight norm"].data()
    with torch.no_grad():
        model[0].parametrizations.weight.original1[2] = 0
    oracle = TorchOracle(model, nets.CROSS_ENTROPY, data, nets.problem_of(model))
    assert not oracle._answer(Gradient(parameter_vector(model), 0.2)).any()
