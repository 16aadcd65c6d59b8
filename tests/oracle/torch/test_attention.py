"""Attention in terms of linear layers computes what nn.MultiheadAttention does."""

import copy
import itertools

import numpy as np
import pytest
import torch
from torch import nn

import torch_networks as nets
from sordino.oracle.query import Gradient
from sordino.oracle.torch import TorchOracle, network_problem, parameter_vector
from sordino.oracle.torch.opening import open_layers
from sordino.oracle.torch.parameters import places

RECORDS, QUERIES, KEYS, WIDTH, HEADS = 3, 4, 5, 6, 2
MASKS = {
    "none": None,
    "whole": torch.tensor([[False, False, True, False, True]]).expand(QUERIES, KEYS),
    "additive": torch.linspace(-1, 1, QUERIES * KEYS, dtype=torch.float64).view(QUERIES, KEYS),
    "per head": (torch.arange(RECORDS * HEADS * QUERIES * KEYS) % 7 == 0).view(RECORDS * HEADS, QUERIES, KEYS),
}
PADDING = {"none": None, "some": torch.tensor([[False] * 4 + [True], [False] * 5, [False] * 3 + [True] * 2])}


def opened(layer):
    """As the oracle opens its copy, whose parameters are views of one vector."""
    layer = copy.deepcopy(layer)
    found = places(layer)
    flat = torch.cat([place.parameter.detach().view(-1) for place in found])
    for place in found:
        place.parameter.data = flat[place.start : place.stop].view(place.parameter.shape)
    return layer, open_layers(layer, found, set), flat


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("settings", [{}, {"bias": False}, {"kdim": 3, "vdim": 7}, {"batch_first": False}], ids=str)
@pytest.mark.parametrize(("mask", "padding"), list(itertools.product(MASKS, PADDING)))
@pytest.mark.parametrize("weights", ["none", "mean", "each"])
def test_an_opened_layer_computes_the_same(settings, mask, padding, weights):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(WIDTH, HEADS, **{"batch_first": True, **settings}, dtype=torch.float64)
    for parameter in layer.parameters():
        parameter.data += 0.1
    query, key, value = (
        torch.randn(RECORDS, length, width, dtype=torch.float64)
        for length, width in ((QUERIES, WIDTH), (KEYS, layer.kdim), (KEYS, layer.vdim))
    )
    if not layer.batch_first:
        query, key, value = (tensor.transpose(0, 1) for tensor in (query, key, value))
    given = {
        "key_padding_mask": PADDING[padding],
        "attn_mask": MASKS[mask],
        "need_weights": weights != "none",
        "average_attn_weights": weights == "mean",
    }
    expected, expected_weights = layer(query, key, value, **given)
    out, found_weights = opened(layer)[0](query, key, value, **given)
    assert torch.allclose(out, expected, rtol=1e-12, atol=1e-12)
    assert (found_weights is None) == (expected_weights is None)
    if found_weights is not None:
        assert torch.allclose(found_weights, expected_weights, rtol=1e-12, atol=1e-12)


def test_the_places_of_an_opened_layer_are_those_of_the_closed_one():
    layer = nn.MultiheadAttention(WIDTH, HEADS)
    copied, found, flat = opened(layer)
    covered = np.concatenate([np.arange(place.start, place.stop) for place in found])
    assert np.array_equal(np.sort(covered), np.arange(flat.numel()))
    flat.fill_(0.5)
    assert all(bool((place.parameter == 0.5).all()) for place in found)
    assert copied.get_submodule("key").weight.shape == (WIDTH, WIDTH)


@pytest.mark.parametrize("settings", [{"add_bias_kv": True}, {"add_zero_attn": True}], ids=str)
def test_layers_with_extra_keys_stay_closed(settings):
    layer = nn.MultiheadAttention(WIDTH, HEADS, **settings)
    copied, found, _ = opened(layer)
    assert [place.name for place in found] == [place.name for place in places(layer)]
    assert not hasattr(copied, "query")


def test_a_layer_that_shares_its_parameters_stays_closed():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = nn.MultiheadAttention(WIDTH, HEADS), nn.MultiheadAttention(WIDTH, HEADS)
            self.other.in_proj_weight = self.one.in_proj_weight

    copied, _, _ = opened(Shared())
    assert not hasattr(copied.one, "query")
    assert not hasattr(copied.other, "query")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_transformer_trains_in_either_mode(mode):
    """In eval mode PyTorch has a way of its own, which must not be taken where gradients are wanted."""
    torch.manual_seed(0)
    model = nets.Padded().double()
    model = model.train() if mode == "train" else model.eval()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("in_proj" in name)
    X, y = nets.NETWORKS["transformer"].data()
    oracle = TorchOracle(model, nets.CROSS_ENTROPY, (X, y), network_problem(model, len(X)))
    query = Gradient(parameter_vector(model), 0.02)
    expected = nets.clipped(nets.gradients(model, (X, y), query.at), 0.02 / oracle._room(query)).sum(0)
    assert np.allclose(oracle._answer(query), expected, rtol=1e-6, atol=1e-8)


def test_attention_over_a_single_record_is_refused():
    copied, _, _ = opened(nn.MultiheadAttention(WIDTH, HEADS))
    with pytest.raises(ValueError, match="give it batches"):
        copied(*[torch.zeros(QUERIES, WIDTH)] * 3)
