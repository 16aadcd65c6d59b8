"""A trial on made-up records: which axis of which layer counts the records, and which parameters the books miss.

Nothing here sees a record; only the shape and dtype of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sordino.oracle.torch.layers import rule_of
from sordino.oracle.torch.losses import losses_of
from sordino.oracle.torch.parameters import Place
from sordino.oracle.torch.tape import Call, Tape, edges_into_parameters

FEW, MORE = 2, 3


class Site(NamedTuple):
    """A call of a layer, as it comes in every pass: the axis that counts the records, None where there is none."""

    layer: nn.Module
    axis: int | None


class Layout(NamedTuple):
    """The calls of a pass, the parameters whose gradients they do not tell, and those without any gradient."""

    sites: list[Site]
    apart: set[str]
    unused: set[str]


def layout_of(
    model: nn.Module,
    places: list[Place],
    tape: Tape,
    loss: Callable[[Any, Any], Tensor],
    inputs: Tensor,
    targets: Tensor,
) -> Layout:
    """`inputs` and `targets` are of one record; only their shapes and dtypes matter."""
    devices = [] if inputs.device.type == "cpu" else [inputs.device]
    with torch.random.fork_rng(devices, device_type=inputs.device.type if devices else "cuda"):
        state = torch.get_rng_state()

        def trial(size: int) -> Trial:
            torch.set_rng_state(state)
            return _trial(model, tape, loss, inputs, targets, size)

        sites, calls, losses, made_up = _compared(trial)
        alone = {number for number, site in enumerate(sites) if site.axis is None}
        if alone:
            # handing on copies of an output must not change what the model computes
            tape.spread = alone
            try:
                spread = _compared(trial)
            except ValueError:
                spread = None
            if spread is not None and torch.allclose(spread[2], losses, rtol=1e-4, equal_nan=True):
                sites, calls, losses, made_up = spread
            else:
                tape.spread = set()
    _refuse_dependence(sites, calls, losses, made_up)

    # a parameter is in the books when every one of its uses in the graph is a noted call with an axis of records
    noted: Counter[Tensor] = Counter()
    forms: dict[Tensor, set[object]] = {}
    for site in sites:
        if site.axis is not None:
            for parameter in site.layer.parameters(recurse=False):
                noted[parameter] += 1
                forms.setdefault(parameter, set()).add(_kind(site.layer))
    used = edges_into_parameters(losses)
    apart = {
        name
        for name, parameter, _ in places
        if used[parameter] and (used[parameter] != noted[parameter] or len(forms[parameter]) > 1)
    }
    return Layout(sites, apart, {name for name, parameter, _ in places if not used[parameter]})


Trial = tuple[list[Call], Tensor, Tensor]


def _compared(trial: Callable[[int], Trial]) -> tuple[list[Site], list[Call], Tensor, Tensor]:
    """The sites that two batch sizes show, and what came of the larger one."""
    few, _, _ = trial(FEW)
    calls, losses, made_up = trial(MORE)
    if [call.layer for call in few] != [call.layer for call in calls]:
        raise ValueError("the model calls other layers for batches of another size: it must not.")
    sites = [Site(call.layer, _axis(one.shape, call.shape)) for one, call in zip(few, calls, strict=True)]
    return sites, calls, losses, made_up


def _trial(
    model: nn.Module, tape: Tape, loss: Callable[[Any, Any], Tensor], inputs: Tensor, targets: Tensor, size: int
) -> Trial:
    generator = torch.Generator().manual_seed(0)
    shape = (size, *inputs.shape[1:])
    made_up = torch.zeros(shape, dtype=inputs.dtype, device=inputs.device)
    if inputs.is_floating_point():
        made_up += torch.randn(shape, generator=generator, dtype=torch.float64).to(made_up)
        made_up.requires_grad_()
    answers = torch.zeros((size, *targets.shape[1:]), dtype=targets.dtype, device=inputs.device)
    with tape.recording(size) as calls, torch.enable_grad():
        try:
            # times one: the first layer may work in place, which a leaf does not allow
            outputs = model(made_up * 1)
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            raise ValueError(
                f"the model does not take {size} records of shape {tuple(inputs.shape[1:])} and dtype {inputs.dtype}: "
                f"{error}"
            ) from error
        losses = losses_of(loss, outputs, answers, size)
    return calls, losses, made_up


def _axis(few: torch.Size, more: torch.Size) -> int | None:
    differing = [axis for axis, pair in enumerate(zip(few, more, strict=False)) if pair != (pair[0], pair[0])]
    if len(few) != len(more) or len(differing) != 1:
        return None
    axis = differing[0]
    return axis if (few[axis], more[axis]) == (FEW, MORE) else None


def _refuse_dependence(sites: list[Site], calls: list[Call], losses: Tensor, made_up: Tensor) -> None:
    """Raise a sentence when the first record's loss depends on what the others hold."""
    if not losses.requires_grad:
        return
    edges = [call.edge for call, site in zip(calls, sites, strict=True) if site.axis is not None]
    axes = [site.axis for site in sites if site.axis is not None]
    if made_up.requires_grad:
        edges.append(torch.autograd.graph.get_gradient_edge(made_up))
        axes.append(0)
    if not edges:
        return
    found = torch.autograd.grad(losses[0], edges, retain_graph=True, allow_unused=True)
    for gradient, axis in zip(found, axes, strict=True):
        if gradient is not None and bool((gradient.movedim(axis, 0)[1:] != 0).any()):
            raise ValueError(
                "the model mixes records: the loss of one depends on another in the same batch, so that no record's "
                "influence can be bounded. Let every record be computed by itself, with nn.GroupNorm or nn.LayerNorm "
                "where it is normalised over the batch."
            )


def _kind(layer: nn.Module) -> object:
    """Layers of one kind have gradients of one form."""
    if isinstance(layer, nn.Linear | nn.Embedding):
        return "matrix"
    if isinstance(layer, nn.Conv1d | nn.Conv2d):
        return (layer.stride, layer.padding, layer.dilation, layer.groups, layer.padding_mode)
    return rule_of(layer)
