"""Largest values of windows are PyTorch's, with the place it names where several are largest."""

import pytest
import torch

import torch_networks as nets
from sordino.oracle.torch.passes import Passes
from sordino.oracle.torch.pooling import CHANNELS, max_pool2d

aten = torch.ops.aten


@pytest.mark.parametrize(
    "windows", [([2, 2], [1, 1]), ([3, 3], [2, 2], [1, 1]), ([2, 3], [2, 1], [0, 1], [2, 1], True)]
)
def test_values_and_places_are_pytorchs(windows):
    images = torch.randint(-2, 3, (5, CHANNELS, 9, 11), generator=torch.Generator().manual_seed(0)).float()
    images[1, 2, 3:5, 4] = torch.nan
    images[2, 1] = -torch.inf
    expected = aten.max_pool2d_with_indices(images, *windows)
    written = tuple(torch.empty_like(one) for one in expected)
    max_pool2d(images, *windows, out=written[0], indices=written[1])
    for found in (max_pool2d(images, *windows), written):
        torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0, equal_nan=True)
        assert torch.equal(found[1], expected[1])
        assert all(one.is_contiguous() for one in found)


def test_networks_with_several_channels_use_it():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, CHANNELS, 3), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(CHANNELS * 9, 4)
    )
    X, y = torch.zeros(1, 1, 8, 8), torch.zeros(1, dtype=torch.int64)
    nodes = Passes(model, nets.CROSS_ENTROPY, (X, y), 16).program._module.graph.nodes
    assert max_pool2d in [node.target for node in nodes]
