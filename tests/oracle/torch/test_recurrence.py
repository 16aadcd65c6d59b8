"""Unrolled layers compute what nn.LSTM, nn.GRU and nn.RNN do."""

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.rnn import pack_padded_sequence

import torch_networks as nets
from sordino.oracle.query import Gradient
from sordino.oracle.torch import TorchOracle, parameter_vector
from sordino.oracle.torch.opening import open_layers
from sordino.oracle.torch.parameters import places

SETTINGS = [
    {},
    {"batch_first": True},
    {"bias": False},
    {"num_layers": 3},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
]


def opened(layer):
    """As the oracle opens its copy, whose parameters are views of one vector."""
    layer = copy.deepcopy(layer)
    found = places(layer)
    flat = torch.cat([place.parameter.detach().view(-1) for place in found])
    for place in found:
        place.parameter.data = flat[place.start : place.stop].view(place.parameter.shape)
    return layer, open_layers(layer, found, set), flat


def tensors(outputs):
    out, state = outputs
    return [out, *(state if isinstance(state, tuple) else (state,))]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("given", ["nothing", "a state", "one sequence"])
def test_an_opened_layer_computes_the_same(kind, settings, given):
    torch.manual_seed(0)
    layer = kind(3, 4, dtype=torch.float64, **settings)
    x = torch.randn(5, 5, 3, dtype=torch.float64)
    x = x[0] if given == "one sequence" else x
    state = ()
    if given == "a state":
        state = torch.randn(layer.num_layers * (1 + layer.bidirectional), 5, 4, dtype=torch.float64)
        state = ((state, state + 1) if kind is nn.LSTM else state,)
    for one, other in zip(tensors(layer(x, *state)), tensors(opened(layer)[0](x, *state)), strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("act", ["tanh", "relu"])
def test_both_kinds_of_plain_recurrence(act):
    layer = nn.RNN(3, 4, nonlinearity=act)
    x = torch.randn(6, 2, 3)
    assert torch.allclose(layer(x)[0], opened(layer)[0](x)[0], atol=1e-6)


def test_the_places_of_an_opened_layer_are_those_of_the_closed_one():
    layer = nn.GRU(3, 4, num_layers=2, bidirectional=True)
    layer.bias_hh_l0.requires_grad_(False)
    _, found, flat = opened(layer)
    covered = np.concatenate([np.arange(place.start, place.stop) for place in found])
    assert np.array_equal(np.sort(covered), np.arange(flat.numel()))
    flat.fill_(0.5)
    assert all(bool((place.parameter == 0.5).all()) for place in found)


def test_a_layer_with_a_projection_stays_closed():
    copied, found, _ = opened(nn.LSTM(3, 4, proj_size=2))
    assert [place.name for place in found] == [place.name for place in places(copied)]


def test_packed_sequences_are_refused():
    class Packed(nets.Sequences):
        def forward(self, x):
            out, _ = self.rnn(pack_padded_sequence(x, torch.tensor([4] * len(x)), batch_first=True))
            return self.head(out.data[-len(x) :])

    model = Packed(nn.LSTM)
    with pytest.raises(ValueError, match="packs sequences"):
        TorchOracle(model, nets.CROSS_ENTROPY, nets.NETWORKS["lstm"].data(torch.float32), nets.problem_of(model))


def test_a_parameter_that_is_used_beside_its_layer_too():
    class Beside(nets.Sequences):
        def forward(self, x):
            return super().forward(x) + self.rnn.weight_hh_l0.square().sum()

    network = nets.Network(lambda: Beside(nn.RNN), (4, 3), known=False)
    model, data = network.model(), network.data()
    model.head.weight.requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = TorchOracle(model, lambda out, y: out[:, 0], data, nets.problem_of(model))
    query = Gradient(parameter_vector(model), 0.5)
    rows = nets.gradients(model, data, query.at, loss=lambda out, y: out[:, 0])
    assert np.allclose(oracle._answer(query), nets.clipped(rows, 0.5 / oracle._room(query)).sum(0), atol=1e-7)


def test_dropout_between_layers_is_drawn_from_the_runs_randomness():
    model = nets.Sequences(nn.LSTM, num_layers=2, dropout=0.5)
    oracle = TorchOracle(model, nets.CROSS_ENTROPY, nets.NETWORKS["lstm"].data(torch.float32), nets.problem_of(model))
    query = Gradient(parameter_vector(model), 1.0)
    torch.manual_seed(0)
    first = oracle._answer(query).copy()
    torch.manual_seed(0)
    assert not np.array_equal(first, oracle._answer(query))


@pytest.mark.parametrize("trained", ["weight_hh_l0", "bias_hh_l0"])
def test_a_layer_of_which_only_the_state_is_trained(trained):
    """Nothing that goes into the gates wants gradients then, and the books miss the parameter."""
    network = nets.Network(lambda: nets.Sequences(nn.GRU), (4, 3))
    model, data = network.model(), network.data()
    for name, parameter in model.rnn.named_parameters():
        parameter.requires_grad_(name == trained)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = TorchOracle(model, nets.CROSS_ENTROPY, data, nets.problem_of(model))
    query = Gradient(parameter_vector(model), 0.05)
    rows = nets.gradients(model, data, query.at)
    assert np.allclose(oracle._answer(query), nets.clipped(rows, 0.05 / oracle._room(query)).sum(0), atol=1e-7)


@pytest.mark.parametrize("how", ["pruned", "weight_norm"])
def test_a_layer_whose_weight_is_computed_before_every_call_stays_closed(how):
    """Its weight is no parameter: opened, it would keep the numbers it began with, and nothing would train it."""
    layer = nn.GRU(3, 4)
    if how == "pruned":
        prune.random_unstructured(layer, "weight_hh_l0", 0.4)
    else:
        with pytest.warns(FutureWarning, match="deprecated"):
            nn.utils.weight_norm(layer, "weight_hh_l0")
    given = places(layer)
    found = open_layers(layer, given, set)
    assert [place.name for place in found] == [place.name for place in given]
    assert "forward" not in vars(layer)
