"""Fewer operations give the same numbers, to the last bit."""

import warnings

import pytest
import torch

import torch_networks as nets
from sordino.oracle.torch import program
from sordino.oracle.torch.passes import Passes
from sordino.privacy.randomness import Randomness

aten = torch.ops.aten


def run(network):
    """The operations of a pass, and what comes out of it at another point than that of the trial."""
    (X, y), model = network.data(), network.model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        passes = Passes(model, nets.CROSS_ENTROPY, (X[:1], y[:1]), 16)
    passes.load(nets.two_points(network.model())[1])
    for tensor, numbers in zip(passes.places_for(16), passes.made_up(seed=2), strict=True):
        tensor.copy_(numbers)
    drawn = passes.program.draw(Randomness.seeded(0).sampling, 16)
    calls = [node.target for node in passes.program._module.graph.nodes if node.op == "call_function"]
    memory, _ = passes.books()
    passes.run(memory, 16, drawn)
    return calls, memory.results


@pytest.mark.slow
@pytest.mark.parametrize("name", nets.NETWORKS)
def test_results_are_the_same_to_the_last_bit(name, monkeypatch):
    fewer, found = run(nets.NETWORKS[name])
    monkeypatch.setattr(program, "simplify", lambda graph, given: None)
    more, expected = run(nets.NETWORKS[name])
    # a list with an operation in place stays as it is
    assert len(fewer) < len(more) if name == "linear" else len(fewer) <= len(more)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_gradients_of_groups_and_convolutions_are_single_operations_on_what_is_there():
    (X, y), model = nets.NETWORKS["group norm, no weights"].data(), nets.NETWORKS["group norm, no weights"].model()
    nodes = Passes(model, nets.CROSS_ENTROPY, (X[:1], y[:1]), 16).program._module.graph.nodes
    calls = [node.target for node in nodes]
    assert calls.count(aten.native_group_norm.default) == calls.count(aten.native_group_norm_backward.default) == 1
    (backward,) = (node for node in nodes if node.target is aten.convolution_backward.default)
    # the input of the second convolution, where a ReLU has written it
    assert "clamp_min" in backward.args[1].args[0].name
