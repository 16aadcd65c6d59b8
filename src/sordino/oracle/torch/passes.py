"""Forward and backward passes of a network over a chunk of records, and the books they leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sordino.oracle.torch.attention import open_attention
from sordino.oracle.torch.clipping import Entry, Notes
from sordino.oracle.torch.fallback import gradients_of_each
from sordino.oracle.torch.layers import rule_of
from sordino.oracle.torch.layout import layout_of
from sordino.oracle.torch.losses import losses_of
from sordino.oracle.torch.pairs import KEEP, Pair, Scale
from sordino.oracle.torch.parameters import Place, places
from sordino.oracle.torch.tape import Call, Tape


class Passes:
    """Owns a model, whose trainable parameters become views of one flat vector."""

    def __init__(self, model: nn.Module, loss: Callable[[Any, Any], Tensor], sample: tuple[Tensor, Tensor]) -> None:
        self._model, self._loss = model, loss
        self._places = places(model)
        first = self._places[0].parameter
        self.dtype, self.device = first.dtype, first.device
        self._flat = torch.empty(self._places[-1].stop, dtype=self.dtype, device=self.device)
        for place in self._places:
            view = self._flat[place.start : place.stop].view(place.parameter.shape)
            view.copy_(place.parameter.detach())
            place.parameter.data = view
        self._places = open_attention(model, self._places)
        self._tape = Tape(model)
        layout = layout_of(model, self._places, self._tape, loss, *self._moved(sample))
        self._sites = layout.sites
        self._apart = [place for place in self._places if place.name in layout.apart]
        self._booked: dict[int, Place] = {
            id(place.parameter): place for place in self._places if place.name not in layout.apart
        }
        self.notices = _notices(model, self._apart, layout.unused)

    def largest(self, chunk: int) -> int:
        """How many records a pass may have, so that gradients that must be written down fit."""
        apart = sum(place.parameter.numel() for place in self._apart)
        return min(chunk, max(1, KEEP // (apart * self.dtype.itemsize))) if apart else chunk

    def run(self, points: Sequence[NDArray[np.float64]], inputs: Tensor, targets: Tensor) -> list[Notes]:
        """The books at every point."""
        inputs, targets = self._moved((inputs, targets))
        notes = []
        for number, point in enumerate(points):
            self._flat.copy_(torch.from_numpy(point))
            with self._same_draws() if number + 1 < len(points) else nullcontext():
                notes.append(self._pass(inputs, targets))
        return notes

    def _pass(self, inputs: Tensor, targets: Tensor) -> Notes:
        with torch.enable_grad():
            with self._tape.recording(len(inputs)) as calls:
                losses = losses_of(self._loss, self._model(inputs), targets, len(inputs))
            self._as_laid_out(calls)
            total = losses.sum()
            edges = [call.edge for call in calls]
            gradients = torch.autograd.grad(total, edges, allow_unused=True) if edges and total.requires_grad else ()
        with torch.no_grad():
            entries = [
                entry
                for call, site, e in zip(calls, self._sites, gradients, strict=True)
                if site.axis is not None
                for entry in self._entries(call, site.axis, e)
            ]
            for place, rows in gradients_of_each(self._model, self._loss, self._apart, inputs, targets):
                entries.append(Entry(place.start, place.stop, Scale(axis=1), Pair(rows)))
            return Notes(entries, losses.isfinite())

    def _entries(self, call: Call, axis: int, e: Tensor | None) -> list[Entry]:
        rule = rule_of(call.layer)
        assert rule is not None
        a = call.input.movedim(axis, 0)
        e = torch.zeros(call.shape, dtype=self.dtype, device=self.device) if e is None else e
        found = []
        for name, form, pair in rule(call.layer, a, e.movedim(axis, 0)):
            place = self._booked.get(id(getattr(call.layer, name)))
            if place is not None:
                found.append(Entry(place.start, place.stop, form, pair))
        return found

    def _as_laid_out(self, calls: list[Call]) -> None:
        if [call.layer for call in calls] != [site.layer for site in self._sites]:
            raise ValueError(
                "the model called other layers than on made-up records: which layers are used must not depend on the "
                "records."
            )

    def _moved(self, pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        inputs, targets = (t.to(self.device, self.dtype if t.is_floating_point() else t.dtype) for t in pair)
        return inputs, targets

    def _same_draws(self) -> AbstractContextManager[None]:
        if self.device.type == "cpu":
            return torch.random.fork_rng([])
        return torch.random.fork_rng([self.device], device_type=self.device.type)


def _notices(model: nn.Module, apart: list[Place], unused: set[str]) -> list[str]:
    owners = {
        id(parameter): f"{name or 'the model'} ({type(layer).__name__})"
        for name, layer in model.named_modules()
        for parameter in layer.parameters(recurse=False)
    }
    notices = []
    if apart:
        told = ", ".join(dict.fromkeys(owners[id(place.parameter)] for place in apart))
        notices.append(
            f"these layers have no book-keeping rule, or are used in a way that has none: {told}. Their gradients are "
            "formed record by record with torch.func, which is slower and takes more memory."
        )
    if unused:
        notices.append(
            f"the loss does not depend on these parameters, which will get noise alone: {', '.join(sorted(unused))}. "
            "Freeze them with requires_grad_(False)."
        )
    return notices
