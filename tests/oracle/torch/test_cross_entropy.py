"""Cross entropy for all records at once: the numbers of PyTorch's rules, and of every record alone."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import torch_networks as nets
from sordino.oracle.query import Difference, Gradient, Recursion
from sordino.oracle.torch import TorchOracle, cross_entropy
from sordino.oracle.torch.parameters import parameter_vector

NETWORK = nets.NETWORKS["linear"]


def operations(oracle):
    return [node.name for node in oracle._passes.program._module.graph.nodes]


def answers(loss, y):
    """Those of a gradient and of a recursion, and whether the loss was opened."""
    model, (X, _) = NETWORK.model(torch.float32), NETWORK.data(torch.float32)
    at, since = nets.two_points(model)
    gradient = Gradient(at, 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = TorchOracle(model, loss, (X, y), nets.problem_of(model, len(X)))
    asked = (gradient, Recursion(Difference(at, since, 0.05), gradient, 0.3))
    return [oracle._answer(query).copy() for query in asked], any("nll_loss" in name for name in operations(oracle))


def spoiled(target):
    """The records' classes, one of which is another number."""
    y = NETWORK.data(torch.float32)[1].clone()
    y[3] = target
    return y


@pytest.mark.parametrize("target", [0, -100, nets.CLASSES, -1], ids=["a class", "ignored", "beyond", "below"])
def test_it_gives_the_numbers_of_pytorchs_rules(target):
    """Bit for bit; a record whose class is out of range counts for nothing, and raises nothing."""
    plain = nn.CrossEntropyLoss(reduction="none")
    y = spoiled(target)
    found, opened = answers(plain, y)
    expected, written_out = answers(lambda outputs, targets: plain(outputs, targets), y)
    assert opened
    assert not written_out
    for one, other in zip(found, expected, strict=True):
        assert one.any()
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(reduction="none", weight=torch.arange(1.0, 1 + nets.CLASSES)),
        nn.CrossEntropyLoss(reduction="none", label_smoothing=0.1),
    ],
    ids=["weights", "smoothing"],
)
def test_other_cross_entropies_stay_as_they_are(loss):
    assert cross_entropy.opened(loss) is loss
    found, opened = answers(loss, NETWORK.data(torch.float32)[1])
    assert not opened
    assert all(each.any() for each in found)


def test_probabilities_as_targets_stay_as_they_are():
    y = torch.softmax(torch.randn(nets.RECORDS, nets.CLASSES, generator=torch.Generator().manual_seed(0)), 1)
    found, opened = answers(nn.CrossEntropyLoss(reduction="none"), y)
    assert not opened
    assert all(each.any() for each in found)


class TwiceForward(nn.CrossEntropyLoss):
    def forward(self, input, target):
        return 2 * super().forward(input, target)


class TwiceCalled(nn.CrossEntropyLoss):
    def __call__(self, *given):
        return 2 * super().__call__(*given)


def with_hook():
    loss = nn.CrossEntropyLoss(reduction="none")
    loss.register_forward_hook(lambda module, given, losses: 2 * losses)
    return loss


def with_forward():
    loss = nn.CrossEntropyLoss(reduction="none")
    forward = loss.forward
    loss.forward = lambda *given: 2 * forward(*given)
    return loss


@pytest.mark.parametrize(
    "made",
    [lambda: TwiceForward(reduction="none"), lambda: TwiceCalled(reduction="none"), with_hook, with_forward],
    ids=["forward", "call", "hook", "forward of its own"],
)
def test_a_loss_that_does_more_stays_as_it_is(made):
    loss = made()
    assert cross_entropy.opened(loss) is loss
    model, data = NETWORK.model(torch.float32), NETWORK.data(torch.float32)
    oracle = TorchOracle(model, loss, data, nets.problem_of(model, len(data[0])))
    once = TorchOracle(model, nn.CrossEntropyLoss(reduction="none"), data, nets.problem_of(model, len(data[0])))
    query = Gradient(parameter_vector(model), 1e3)
    np.testing.assert_allclose(oracle._answer(query), 2 * once._answer(query), rtol=1e-5)
