"""A trial on made-up records: which axis of which layer counts the records, and which parameters the books miss.

Nothing here sees a record, only the shape and dtype of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sordino.oracle.torch.layers import feature_axes, form_of
from sordino.oracle.torch.losses import losses_of
from sordino.oracle.torch.parameters import Place
from sordino.oracle.torch.tape import Call, Tape, edges_into_parameters, same_draws

FEW, MORE = 2, 3


class Site(NamedTuple):
    """A call of a layer, as it comes in every pass: the axis that counts the records, None where there is none."""

    layer: nn.Module
    axis: int | None
    for_all: bool


class Layout(NamedTuple):
    """The calls of a pass, the parameters whose gradients they do not tell, and those without any gradient.

    `overwrites` tells that the model changes its input in place.
    """

    sites: list[Site]
    apart: set[str]
    unused: set[str]
    overwrites: bool


class Trial(NamedTuple):
    calls: list[Call]
    losses: Tensor
    inputs: Tensor
    overwrites: bool


def layout_of(
    model: nn.Module,
    places: list[Place],
    tape: Tape,
    loss: Callable[[Any, Any], Tensor],
    sample: tuple[Tensor, Tensor],
) -> Layout:
    """How passes of this model will look; `sample` is one record, of which only shape and dtype matter."""

    def compared() -> tuple[list[Site], Trial]:
        few, more = (_trial(model, tape, loss, made_up(sample, size)) for size in (FEW, MORE))
        return _sites(few.calls, more.calls), more

    sites, trial = compared()
    alone = {number for number, site in enumerate(sites) if site.for_all}
    if alone:
        # handing on copies of an output must not change what the model computes
        tape.spread = alone
        try:
            sites_spread, spread = compared()
            if not torch.allclose(spread.losses, trial.losses, rtol=1e-4, equal_nan=True):
                raise ValueError("other losses")
            sites, trial = sites_spread, spread
        except ValueError:
            tape.spread = set()
    _refuse_dependence(sites, trial)

    # a parameter is in the books when every use of it in the graph is a noted call with an axis of records
    noted: Counter[Tensor] = Counter()
    forms: dict[Tensor, set[object]] = {}
    for site in sites:
        if site.axis is not None:
            for parameter in site.layer.parameters(recurse=False):
                noted[parameter] += 1
                forms.setdefault(parameter, set()).add(form_of(site.layer))
    used = edges_into_parameters(trial.losses)
    apart = {
        name
        for name, parameter, _ in places
        if used[parameter] and (used[parameter] != noted[parameter] or len(forms[parameter]) > 1)
    }
    unused = {name for name, parameter, _ in places if not used[parameter]}
    return Layout(sites, apart, unused, trial.overwrites)


def made_up(sample: tuple[Tensor, Tensor], size: int) -> tuple[Tensor, Tensor]:
    """Random inputs and zeros as targets, shaped like the sample's."""
    inputs, targets = (torch.zeros((size, *t.shape[1:]), dtype=t.dtype, device=t.device) for t in sample)
    if inputs.is_floating_point():
        generator = torch.Generator().manual_seed(0)
        inputs += torch.randn(inputs.shape, generator=generator, dtype=torch.float64).to(inputs)
    return inputs, targets


def _trial(model: nn.Module, tape: Tape, loss: Callable[[Any, Any], Tensor], records: tuple[Tensor, Tensor]) -> Trial:
    inputs, targets = records
    if inputs.is_floating_point():
        inputs.requires_grad_()
    size = len(inputs)
    with same_draws(inputs.device), tape.recording(size) as calls, torch.enable_grad():
        # times one: a leaf cannot be changed in place
        given = inputs * 1
        try:
            outputs = model(given)
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            raise ValueError(
                f"the model does not take {size} records of shape {tuple(inputs.shape[1:])} and dtype {inputs.dtype} "
                f"({error}): floats are given to it in its own dtype, whole numbers as they are; convert the data."
            ) from error
        losses = losses_of(loss, outputs, targets, size)
    return Trial(calls, losses, inputs, given._version > 0)


def _sites(few: list[Call], more: list[Call]) -> list[Site]:
    """What two batch sizes show: the records' axis is the one that differs."""
    if [call.layer for call in few] != [call.layer for call in more]:
        raise ValueError("the model calls other layers for batches of another size: it must not.")
    return [
        Site(one.layer, _axis(one.layer, one.shape, other.shape), one.shape == other.shape)
        for one, other in zip(few, more, strict=True)
    ]


def _axis(layer: nn.Module, few: torch.Size, more: torch.Size) -> int | None:
    if len(few) != len(more):
        return None
    differing = [axis for axis in range(len(few)) if few[axis] != more[axis]]
    if len(differing) != 1 or differing[0] in feature_axes(layer, len(few)):
        return None
    axis = differing[0]
    return axis if (few[axis], more[axis]) == (FEW, MORE) else None


def _refuse_dependence(sites: list[Site], trial: Trial) -> None:
    """Raise a sentence when one record's loss depends on what the others hold."""
    known = [(call.edge, site.axis) for call, site in zip(trial.calls, sites, strict=True) if site.axis is not None]
    if trial.inputs.requires_grad:
        known.append((torch.autograd.graph.get_gradient_edge(trial.inputs), 0))
    if not (known and trial.losses.requires_grad):
        return
    edges, axes = zip(*known, strict=True)
    for record in range(MORE):
        try:
            found = torch.autograd.grad(trial.losses[record], edges, retain_graph=True, allow_unused=True)
        except RuntimeError as error:
            raise ValueError(f"the model's gradient cannot be computed: {error}") from error
        for gradient, axis in zip(found, axes, strict=True):
            if gradient is None:
                continue
            others = gradient.movedim(axis, 0)[[other for other in range(MORE) if other != record]]
            # made-up input may lead to what is not a number, which tells nothing
            if bool((others.nan_to_num() != 0).any()):
                raise ValueError(
                    "the model mixes records: the loss of one depends on another in the same batch, so that no "
                    "record's influence can be bounded. Compute every record by itself, with nn.GroupNorm or "
                    "nn.LayerNorm where it is normalised over the batch."
                )
