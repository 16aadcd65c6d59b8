"""Fewer operations give the same numbers, to the last bit."""

import warnings

import pytest
import torch

import torch_networks as nets
from sordino.oracle.torch import program
from sordino.oracle.torch.passes import Passes
from sordino.privacy.randomness import Randomness


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
