"""Forward and backward passes of a network over a chunk of records, and the books they leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sordino.oracle.torch import kernels
from sordino.oracle.torch.attention import open_attention
from sordino.oracle.torch.clipping import Entry, Notes
from sordino.oracle.torch.fallback import EachRecord
from sordino.oracle.torch.layers import Rule, rule_of
from sordino.oracle.torch.layout import FEW, Site, layout_of, made_up
from sordino.oracle.torch.losses import losses_of
from sordino.oracle.torch.pairs import KEEP, Pair, Scale
from sordino.oracle.torch.parameters import Place, places
from sordino.oracle.torch.tape import Call, Tape, same_draws

LINE = 64
"""Bytes of a cache line."""


class Books(NamedTuple):
    """How a call is booked: by which rule, with the records on which axis, for which parameters."""

    rule: Rule
    axis: int
    places: dict[str, tuple[int, int]]


class Passes:
    """Owns a model, whose trainable parameters become views of one flat vector."""

    def __init__(self, model: nn.Module, loss: Callable[[Any, Any], Tensor], sample: tuple[Tensor, Tensor]) -> None:
        self._model, self._loss = model, loss
        found = places(model)
        first = found[0].parameter
        self.dtype, self.device = first.dtype, first.device
        self._flat = torch.empty(found[-1].stop, dtype=self.dtype, device=self.device)
        here = self.device.type == "cpu" and self.dtype in (torch.float32, torch.float64)
        self._array = self._flat.numpy() if here else None
        self._lines = self.dtype == torch.float32 and self._flat.data_ptr() % LINE == 0
        for place in found:
            view = self._flat[place.start : place.stop].view(place.parameter.shape)
            view.copy_(place.parameter.detach())
            place.parameter.data = view
        found = open_attention(model, found)
        self.places = [(place.start, place.stop) for place in found]
        self._tape = Tape(model)
        sample = self._moved(sample)
        layout = layout_of(model, found, self._tape, loss, sample)
        self._layers, self._overwrites = [site.layer for site in layout.sites], layout.overwrites
        self._apart = [place for place in found if place.name in layout.apart]
        booked = {id(place.parameter): place for place in found if place.name not in layout.apart}
        self._books = [_books(site, booked) for site in layout.sites]
        with same_draws(self.device):
            self._each = EachRecord(model, loss, self._apart, made_up(sample, FEW))
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
            self._load(point)
            with same_draws(self.device) if number + 1 < len(points) else nullcontext():
                notes.append(self._pass(inputs.clone() if self._overwrites else inputs, targets))
        return notes

    def _load(self, point: NDArray[np.float64]) -> None:
        point = np.ascontiguousarray(point, dtype=np.float64)
        if self._array is None:
            self._flat.copy_(torch.from_numpy(point))
            finite = bool(np.isfinite(point).all())
        elif self._lines and torch.get_num_threads() > 1:
            # by this thread alone: the point's memory becomes the next noise, and what another core has read is slow to
            # write to
            finite = kernels.stream(point, self._array)
        else:
            finite = kernels.copy(point, self._array)
        if not finite:
            raise ValueError("the parameters are not finite: the method has diverged; use a smaller step.")

    def _pass(self, inputs: Tensor, targets: Tensor) -> Notes:
        with torch.enable_grad():
            with self._tape.recording(inputs.shape[0]) as calls:
                losses = losses_of(self._loss, self._model(inputs), targets, inputs.shape[0])
            self._as_laid_out(calls)
            edges = [call.edge for call in calls]
            # of the sum of all losses; a record's outputs enter its own loss alone
            ones = torch.ones_like(losses)
            gradients = torch.autograd.grad(losses, edges, ones, allow_unused=True) if edges else ()
        with torch.no_grad():
            entries = [
                entry
                for call, books, e in zip(calls, self._books, gradients, strict=True)
                if books is not None
                for entry in self._entries(call, books, e)
            ]
            for place, rows in self._each.gradients(inputs, targets):
                entries.append(Entry((place.start, place.stop), Scale(axis=1), Pair(rows)))
            return Notes(entries, losses.detach())

    def _entries(self, call: Call, books: Books, e: Tensor | None) -> list[Entry]:
        a = call.input
        e = torch.zeros(call.shape, dtype=self.dtype, device=self.device) if e is None else e
        if books.axis != 0:
            a, e = a.movedim(books.axis, 0), e.movedim(books.axis, 0)
        return [
            Entry(books.places[name], form, pair)
            for name, form, pair in books.rule(call.layer, a, e)
            if name in books.places
        ]

    def _as_laid_out(self, calls: list[Call]) -> None:
        if [call.layer for call in calls] != self._layers:
            raise ValueError(
                "the model called other layers than on made-up records: which layers are used must not depend on the "
                "records."
            )

    def _moved(self, pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        inputs, targets = (t.to(self.device, self.dtype if t.is_floating_point() else t.dtype) for t in pair)
        return inputs, targets


def _books(site: Site, booked: dict[int, Place]) -> Books | None:
    rule = rule_of(site.layer)
    found = {name: booked[id(one)] for name, one in site.layer._parameters.items() if id(one) in booked}
    own = {name: (place.start, place.stop) for name, place in found.items()}
    return Books(rule, site.axis, own) if rule is not None and site.axis is not None and own else None


def _notices(model: nn.Module, apart: list[Place], unused: set[str]) -> list[str]:
    owners = [
        (id(parameter), f"{name or 'the model'} ({type(layer).__name__})")
        for name, layer in model.named_modules()
        for parameter in layer.parameters(recurse=False)
    ]
    notices = []
    if apart:
        own = {id(place.parameter) for place in apart}
        told = ", ".join(dict.fromkeys(name for parameter, name in owners if parameter in own))
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
