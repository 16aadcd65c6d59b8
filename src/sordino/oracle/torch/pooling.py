"""Largest values of windows, with the channels of a place side by side in memory.

PyTorch looks for them number by number where channels lie one after the other, and for several channels at once where
a place's channels do: turning the images over and back takes a fraction of what that saves. Every number is the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

aten = torch.ops.aten

CHANNELS = 6
"""From so many on it is faster."""


def max_pool2d(images: Tensor, *windows: Any, out: Tensor | None = None, indices: Tensor | None = None) -> Any:
    largest, places = aten.max_pool2d_with_indices(images.contiguous(memory_format=torch.channels_last), *windows)
    if out is None or indices is None:
        return largest.contiguous(), places.contiguous()
    return out.copy_(largest), indices.copy_(places)


def turn_images(graph: fx.Graph) -> None:
    """Put this operation in the place of PyTorch's."""
    for node in graph.nodes:
        if node.target in (aten.max_pool2d_with_indices.default, aten.max_pool2d_with_indices.out):
            images = node.args[0].meta["val"]
            if images.device.type == "cpu" and images.ndim == 4 and images.shape[1] >= CHANNELS:
                node.target = max_pool2d
