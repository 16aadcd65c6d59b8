"""Which layers are opened: written in terms of layers that have a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from sordino.oracle.torch import attention, recurrence, tables
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
    every call (a pruned weight, weight_norm), and those that their opener leaves closed. `used` tells by identity which
    parameters a record's loss depends on: a layer is closed again where the model uses one of its parameters by itself,
    beside the layer.
    """
    known = {id(place.parameter): place for place in places}
    opened: list[tuple[nn.Module, Known, list[Place]]] = []
    for name, layer in list(model.named_modules()):
        opener = OPENERS.get(type(layer))
        own = {id(parameter) for parameter in layer.parameters(recurse=False)}
        if opener is None or not own & known.keys() or own & _elsewhere(model, layer):
            continue
        computed = any(isinstance(value, Tensor) for value in vars(layer).values())
        if computed or "forward" in vars(layer) or (found := opener(name, layer, known)) is None:
            continue
        opened.append((layer, {parameter: known.pop(parameter) for parameter in own & known.keys()}, found))
        known |= {id(place.parameter): place for place in found}
    by_themselves = used() if opened else set()
    for layer, old, new in opened:
        if old.keys() & by_themselves:
            del layer.forward
            known = {one: place for one, place in known.items() if place not in new} | old
    return sorted(known.values(), key=lambda place: place.start)


def _elsewhere(model: nn.Module, layer: nn.Module) -> set[int]:
    others = (other for other in model.modules() if other is not layer)
    return {id(parameter) for other in others for parameter in other.parameters(recurse=False)}
