"""A model's trainable parameters as one flat vector, in the order of `named_parameters`; shared ones stand once."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sordino.arrays import Array
from sordino.problem import NetworkProblem, PersonUnit


class Place(NamedTuple):
    """Where a parameter stands in the flat vector."""

    name: str
    parameter: nn.Parameter
    start: int

    @property
    def stop(self) -> int:
        return self.start + self.parameter.numel()


def places(model: nn.Module) -> list[Place]:
    """Every trainable parameter and its place."""
    found, start = [], 0
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            found.append(Place(name, parameter, start))
            start = found[-1].stop
    return found


def copy_of(model: nn.Module) -> nn.Module:
    """A copy, with memory of its own for what hooks compute before every call (pruned weights, weight_norm)."""
    computed = {
        id(value): value.detach().clone()
        for module in model.modules()
        for value in vars(module).values()
        if isinstance(value, Tensor) and not value.is_leaf
    }
    try:
        return copy.deepcopy(model, computed)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"the model cannot be copied ({str(error).partition(chr(10))[0][:200]}): compute tensors that follow from "
            "parameters in forward, not before, and keep locks, files and streams out of the model."
        ) from error


def parameter_count(model: nn.Module) -> int:
    """The number of trainable parameters: the `dim` of the model's problem."""
    return sum(place.parameter.numel() for place in places(model))


def parameter_vector(model: nn.Module) -> Array:
    """The trainable parameters as the methods see them."""
    with torch.no_grad():
        parts = [place.parameter.detach().reshape(-1).to("cpu", torch.float64) for place in places(model)]
    return torch.cat(parts).numpy() if parts else np.empty(0)


def load_parameters(model: nn.Module, vector: Array) -> None:
    """Write a flat vector into the model; frozen parameters and buffers stay as they are."""
    found = places(model)
    count = found[-1].stop if found else 0
    if np.shape(vector) != (count,):
        raise ValueError(f"a vector of shape {np.shape(vector)} for a model of {count} trainable parameters.")
    values = torch.as_tensor(np.asarray(vector, dtype=np.float64))
    with torch.no_grad():
        for place in found:
            place.parameter.copy_(values[place.start : place.stop].view(place.parameter.shape))


def network_problem(model: nn.Module, records: int, name: str = "", person: PersonUnit | None = None) -> NetworkProblem:
    """The public side of training this model on so many records, or persons; its `name` is by default its class."""
    return NetworkProblem(records, parameter_count(model), name or type(model).__name__, person=person)
