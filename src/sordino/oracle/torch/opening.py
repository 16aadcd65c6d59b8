"""Which layers are opened: written in terms of layers that have a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from sordino.oracle.torch import attention, recurrence, tables, weight_norm
from sordino.oracle.torch.opened import Known
from sordino.oracle.torch.parameters import Place

Opener = Callable[[str, Any, Known], list[Place] | None]

OPENERS: dict[type[nn.Module], Opener] = {
    nn.MultiheadAttention: attention.opened,
    nn.LSTM: recurrence.opened,
    nn.GRU: recurrence.opened,
    nn.RNN: recurrence.opened,
    nn.EmbeddingBag: tables.opened_bag,
    nn.Bilinear: tables.opened_bilinear,
}


def open_layers(model: nn.Module, places: list[Place], used: Callable[[], set[int]]) -> list[Place]:
    """The places of the model's parameters after its layers were opened.

    Left closed are layers that share a parameter with another one, those with a tensor that hooks compute anew before
    every call (a pruned weight), and those that their opener leaves closed. `used` tells by identity which parameters
    a record's loss depends on: a layer is closed again where the model uses one of its parameters by itself, beside
    the layer.
    """
    known = {id(place.parameter): place for place in places}
    opened: list[tuple[nn.Module, Known, list[Place]]] = []
    for name, layer in list(model.named_modules()):
        opener, owners = _opener(layer), _owners(layer)
        own = _parameters(owners)
        if opener is None or not own & known.keys() or own & _parameters(set(model.modules()) - owners):
            continue
        if "forward" in vars(layer) or (found := opener(name, layer, known)) is None:
            continue
        opened.append((layer, {parameter: known.pop(parameter) for parameter in own & known.keys()}, found))
        known |= {id(place.parameter): place for place in found}
    by_themselves = used() if opened else set()
    for layer, old, new in opened:
        if old.keys() & by_themselves:
            del layer.forward
            known = {one: place for one, place in known.items() if place not in new} | old
    return sorted(known.values(), key=lambda place: place.start)


def _opener(layer: nn.Module) -> Opener | None:
    if weight_norm.is_normed(layer):
        return weight_norm.opened
    computed = any(isinstance(value, Tensor) for value in vars(layer).values())
    return None if computed else OPENERS.get(type(layer))


def _owners(layer: nn.Module) -> set[nn.Module]:
    """The layer, and what holds its parameters where a weight is computed from them."""
    return {layer, *(cast(nn.ModuleDict, layer.parametrizations).values() if is_parametrized(layer) else ())}


def _parameters(layers: set[nn.Module]) -> set[int]:
    return {id(parameter) for layer in layers for parameter in layer.parameters(recurse=False)}
