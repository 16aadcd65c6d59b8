"""Passes of a network over a fixed number of records, and the books they leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sordino.oracle.torch import cross_entropy, kernels
from sordino.oracle.torch.clipping import Entry, Notes
from sordino.oracle.torch.group_norm import is_group_norm
from sordino.oracle.torch.layers import Rule, known_parameters
from sordino.oracle.torch.layout import Site, layout_of, made_up, refuse_mixing_of, used_parameters, words_of
from sordino.oracle.torch.matrix import Matrix, product
from sordino.oracle.torch.opening import open_layers
from sordino.oracle.torch.pairs import KEEP, Form, Pair, Written
from sordino.oracle.torch.parameters import Place, places
from sordino.oracle.torch.program import Given, Memory, Program, Untraceable
from sordino.oracle.torch.rounding import BLOCK
from sordino.oracle.torch.tape import Tape
from sordino.oracle.torch.weight_norm import Unit
from sordino.privacy import team

MULTIPLE = 16
"""Rows of a pass come in multiples: the last of an odd number may be computed in another way than the others."""


TOGETHER = 3 << 24
"""Bytes of the books of a pass, about: with more of them, what one operation leaves is far away for the next."""


class Books(NamedTuple):
    """How a call is booked: by which rule, for which parameters."""

    layer: nn.Module
    rule: Rule
    places: dict[str, tuple[int, int]]


Booking = tuple[tuple[int, int], Form, Pair]
"""A parameter's place, the form of its gradient, and the pair, while a program is written down."""


class Passes:
    """Owns a model, whose trainable parameters become views of one flat vector. Every pass has `rows` rows.

    Those are as many as were asked for or, where that would take much memory, fewer of them in equal passes; not fewer
    than `least` for the sake of speed alone. The books are kept in the model's dtype, or in single precision where it
    has less.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Any, Any], Tensor],
        sample: tuple[Tensor, Tensor],
        rows: int,
        least: int = 1,
    ) -> None:
        self._model, self._loss = model, cross_entropy.opened(loss)
        found = places(model)
        first = found[0].parameter
        self._own_dtype, self.device = first.dtype, first.device
        self.dtype = torch.promote_types(self._own_dtype, torch.float32)
        self._flat = torch.empty(found[-1].stop, dtype=self._own_dtype, device=self.device)
        here = self.device.type == "cpu" and self._own_dtype == self.dtype
        self._array = self._flat.numpy() if here else None
        for place in found:
            view = self._flat[place.start : place.stop].view(place.parameter.shape)
            view.copy_(place.parameter.detach())
            place.parameter.data = view
        self._sample = self._moved(sample)
        found = open_layers(model, found, lambda: used_parameters(model, loss, self._sample))
        self.places = [(place.start, place.stop) for place in found]
        self._tape = Tape(model)
        self._layout = layout_of(model, found, self._tape, loss, self._sample)
        self._apart = [place for place in found if place.name in self._layout.apart]
        # not those without a gradient: nothing may be computed for them, so that nothing has seen if a word is in range
        missing = self._layout.apart | self._layout.unused
        booked = {id(place.parameter): place for place in found if place.name not in missing}
        self._books = [_books(site, booked) for site in self._layout.sites]
        self._units = {
            books.places["weight"]: books.layer
            for books in filter(None, self._books)
            if isinstance(books.layer, Unit) and "weight" in books.places
        }
        self._entries: list[tuple[tuple[int, int], Form, int, int | None, bool]] = []
        self.rows = self._largest(rows, least)
        self._inputs, self._targets = self.made_up()
        self._filling = [part[:1].clone() for part in (self._inputs, self._targets)]
        self.program = self._traced()
        if not self.program.is_random:
            refuse_mixing_of(self._layout.losses)
        self.notices = _notices(model, self._apart, self._layout.unused, self.program.together)

    def made_up(self, seed: int = 0) -> tuple[Tensor, Tensor]:
        """A pass of rows that are no records."""
        return made_up(self._sample, self.rows, words_of(self._model), seed)

    def load(self, point: NDArray[np.float64]) -> None:
        point = np.ascontiguousarray(point, dtype=np.float64)
        if self._array is None:
            self._flat.copy_(torch.from_numpy(point))
            finite = bool(np.isfinite(point).all())
        else:
            finite = kernels.copy(point, self._array, team.present(point.size))
        if not finite:
            raise ValueError("the parameters are not finite: the method has diverged; use a smaller step.")

    def places_for(self, count: int) -> tuple[Tensor, Tensor]:
        """Where the inputs and the targets of so many records belong; the rows behind them are made up."""
        if count == self.rows:
            return self._inputs, self._targets
        for tensor, row in zip((self._inputs, self._targets), self._filling, strict=True):
            tensor[count:] = row
        return self._inputs[:count], self._targets[:count]

    def run(self, memory: Memory, count: int, drawn: list[list[Tensor]]) -> None:
        """Keep the books of the first `count` rows, at the point that was loaded.

        A record on which an operation fails, as a loss does that refuses a NaN, gets a loss that is not finite: to
        raise what it raised would tell about it.
        """
        for place, rows in memory.shared.items():
            rows.copy_(self._units[place].rows(self.dtype))
        if self._succeeds(memory, count, drawn):
            return
        given = self._inputs.clone(), self._targets.clone()

        def alone(some: list[int]) -> bool:
            """Whether all goes well with these records among made-up ones."""
            for tensor, row, own in zip((self._inputs, self._targets), self._filling, given, strict=True):
                tensor[:] = row
                tensor[some] = own[some]
            return self._succeeds(memory, count, drawn)

        def failing(some: list[int]) -> list[int]:
            if alone(some):
                return []
            half = len(some) // 2
            return some if half == 0 else failing(some[:half]) + failing(some[half:])

        failed = failing(list(range(count))) if alone([]) else None
        if failed is None or not alone([record for record in range(count) if record not in failed]):
            raise ValueError("an operation of the model or of the loss fails, which it did not before.")
        memory.results[-1][failed] = torch.nan

    def _succeeds(self, memory: Memory, count: int, drawn: list[list[Tensor]]) -> bool:
        inputs = self._inputs
        if self._layout.overwrites and not self.program.together:
            inputs = inputs.clone()
        return self.program.run(memory, inputs, self._targets, count, drawn)

    def books(self) -> tuple[Memory, Notes]:
        """Memory for the books of a pass, and how to read them there."""
        memory = self.program.memory(self._inputs, self._targets)
        memory.shared.update({place: unit.rows(self.dtype) for place, unit in self._units.items()})
        *sides, losses = memory.results
        entries = []
        for place, form, left, right, shared in self._entries:
            other = memory.shared[place] if shared else None if right is None else sides[right]
            entries.append(Entry(place, form, Pair(sides[left], other, shared)))
        return memory, Notes(entries, losses)

    def more_careful(self) -> str | None:
        """Compute records in a slower way that depends less on what is beside them; what it is, None after the last."""
        if not self.program.together:
            return None
        if self.program.aligned:
            self.program = self._program(together=False)
            return "one after the other"
        self.program = self._program(together=True, aligned=True)
        return "in rows filled up with zeros"

    def _largest(self, rows: int, least: int) -> int:
        """How many rows a pass may have, so that gradients that must be written down fit, and books are near."""
        apart = sum(place.parameter.numel() for place in self._apart) * self.dtype.itemsize
        near = max(-(-least // MULTIPLE) * MULTIPLE, TOGETHER // max(1, self._layout.numbers * self.dtype.itemsize))
        fitting = min(near, max(1, KEEP // apart)) if apart else near
        if fitting >= rows:
            return rows
        # one block
        most = min(BLOCK, max(MULTIPLE, fitting // MULTIPLE * MULTIPLE))
        equal = max(least, -(-rows // -(-rows // most)))
        return min(most, -(-equal // MULTIPLE) * MULTIPLE)

    def _traced(self) -> Program:
        try:
            return self._program(together=True)
        except Untraceable:
            try:
                return self._program(together=False)
            except Untraceable as error:
                raise ValueError(
                    f"the model cannot be followed as a function of one record ({error}): what it does must not depend "
                    "on the values it is given, only on their shape, and it must not write to tensors that it keeps."
                ) from error

    def _program(self, together: bool, aligned: bool = False) -> Program:
        """From a record to its books: the sides of the pairs, and the loss."""
        names = [place.name for place in self._apart]
        tensors = {**dict(self._model.named_parameters()), **dict(self._model.named_buffers())}
        held = {name: tensor.detach() for name, tensor in tensors.items() if name not in names}
        booked = [number for number, books in enumerate(self._books) if books is not None]
        shapes = [self._layout.sites[number].shape for number in booked]

        def one(zeros: list[Tensor], apart: list[Tensor], rest: list[Tensor], x: Tensor, y: Tensor) -> Any:
            added: list[Tensor | None] = [None] * len(self._books)
            for number, zero in zip(booked, zeros, strict=True):
                added[number] = zero
            given = {**dict(zip(names, apart, strict=True)), **dict(zip(held, rest, strict=True))}
            x = x.clone() if self._layout.overwrites else x
            with self._tape.recording(added) as calls:
                outputs = torch.func.functional_call(self._model, given, (x.unsqueeze(0),))
                loss = self._loss(outputs, y.unsqueeze(0)).sum()
            if [call.layer for call in calls] != [site.layer for site in self._layout.sites]:
                raise ValueError("the model calls other layers at every call: it must not.")
            return loss, ([calls[number].inputs for number in booked], loss)

        zeros = [torch.zeros(shape, dtype=self._own_dtype, device=self.device) for shape in shapes]
        apart = [place.parameter.detach() for place in self._apart]
        given = Given(zeros, apart, list(held.values()))
        return Program(one, self._written, given, *self.made_up(), together, aligned)

    def _written(self, gradients: Any, rest: Any) -> list[Tensor]:
        """The books as a list of tensors; which is which stays in `_entries`."""
        (e, rows), (a, losses) = gradients, rest
        booked = [
            (books.places[name], form, pair)
            for books, a, e in zip(filter(None, self._books), a, e, strict=True)
            for name, form, pair in books.rule(books.layer, *map(self._booked, a), self._booked(e))
            if name in books.places
        ]
        entries = list(self._formed(booked))
        for place, each in zip(self._apart, rows, strict=True):
            entries.append(((place.start, place.stop), Written(), Pair(self._booked(each).flatten(1))))
        sides = [side for *_, pair in entries for side in pair.sides()]
        numbers = iter(range(len(sides)))
        self._entries = [
            (place, form, next(numbers), None if pair.right is None else next(numbers), pair.shared)
            for place, form, pair in entries
        ]
        # a loss only tells whether it is finite, which it may be beyond what the books can hold
        losses = losses.view(-1)
        if losses.dtype != self.dtype:
            losses = torch.where(losses.isfinite(), 0.0, torch.inf).to(self.dtype)
        return [*sides, losses]

    def _formed(self, entries: list[Booking]) -> Iterator[Booking]:
        """With gradients of a matrix in the place of both sides, where they are kept anyway: the sides need not stay.

        Not where a matrix is used several times, whose gradients would all be there before they are added up.
        """
        uses, taken = Counter(place for place, *_ in entries), 0
        for place, form, pair in entries:
            if (
                isinstance(form, Matrix)
                and uses[place] == 1
                and not pair.shared
                and form.keeps([pair], self.rows, self.dtype.itemsize, taken)
            ):
                rows = product(pair)
                taken += self.rows * rows.shape[1] * rows.itemsize
                yield place, Written(), Pair(rows)
            else:
                yield place, form, pair

    def _booked(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor

    def _moved(self, pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        # in one order of memory, the one on which rows were tried out
        inputs, targets = (
            t.to(self.device, self._own_dtype if t.is_floating_point() else t.dtype).contiguous() for t in pair
        )
        return inputs, targets


def _books(site: Site, booked: dict[int, Place]) -> Books | None:
    found = {name: booked[id(one)] for name, one in known_parameters(site.layer).items() if id(one) in booked}
    own = {name: (place.start, place.stop) for name, place in found.items()}
    return Books(site.layer, site.rule, own) if site.rule is not None and own else None


def _notices(model: nn.Module, apart: list[Place], unused: set[str], together: bool) -> list[str]:
    owners = [
        (id(parameter), f"{name or 'the model'} ({type(layer).__name__})")
        for name, layer in model.named_modules()
        # whose gradients a pass gives as they are wanted
        if not is_group_norm(layer)
        for parameter in layer.parameters(recurse=False)
    ]
    notices = []
    own = {id(place.parameter) for place in apart}
    told = ", ".join(dict.fromkeys(name for parameter, name in owners if parameter in own))
    if told:
        notices.append(
            f"these layers have no book-keeping rule, or are used in a way that has none: {told}. Their gradients are "
            "formed record by record with torch.func, which is slower and takes more memory."
        )
    if not together:
        notices.append(
            "torch.func.vmap cannot follow this model, so its records are computed one after the other, which is slow. "
            "An nn.LSTM with proj_size is such a case: write it with nn.Linear and a loop."
        )
    if unused:
        notices.append(
            f"the loss does not depend on these parameters, which will get noise alone: {', '.join(sorted(unused))}. "
            "Freeze them with requires_grad_(False)."
        )
    return notices
