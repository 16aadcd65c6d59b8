"""A trial on made-up records: which layers a record passes, and which parameters the books miss.

Nothing here sees a record, only the shape and dtype of one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sordino.oracle.torch.layers import Rule, form_of, known_parameters, rule_of, takes_one
from sordino.oracle.torch.losses import losses_of
from sordino.oracle.torch.parameters import Place
from sordino.oracle.torch.program import CHANGES
from sordino.oracle.torch.tape import Call, Tape, edges_into_parameters


class Site(NamedTuple):
    """A call of a layer, as it comes for every record: its rule, None where its gradients are not in the books."""

    layer: nn.Module
    rule: Rule | None
    shape: torch.Size


class Layout(NamedTuple):
    """The calls of a record, the parameters whose gradients they do not tell, and those without any gradient.

    `numbers` is how many numbers the books hold of a record, about; `overwrites` tells that the model changes its input
    in place; `losses` are those of made-up records, as one batch and each alone.
    """

    sites: list[Site]
    apart: set[str]
    unused: set[str]
    numbers: int
    overwrites: bool
    losses: tuple[Tensor, Tensor]


class Trial(NamedTuple):
    calls: list[Call]
    losses: Tensor
    overwrites: bool


def layout_of(
    model: nn.Module,
    places: list[Place],
    tape: Tape,
    loss: Callable[[Any, Any], Tensor],
    sample: tuple[Tensor, Tensor],
) -> Layout:
    """How passes of this model will look; `sample` is one record, of which only shape and dtype matter."""
    before = _held(model)
    with torch.random.fork_rng([]):
        inputs, targets = made_up(sample, 2, words_of(model))
        together = _trial(model, tape, loss, inputs, targets)
        trials = [_trial(model, tape, loss, inputs[i : i + 1], targets[i : i + 1]) for i in range(2)]
    if _held(model) != before:
        raise ValueError(CHANGES)
    trial = trials[0]
    sites = [_site(call) for call in trial.calls]

    # a parameter is in the books when every use of it in the graph is a noted call
    noted: Counter[Tensor] = Counter()
    forms: dict[Tensor, set[object]] = {}
    for site in sites:
        if site.rule is not None:
            for parameter in known_parameters(site.layer).values():
                noted[parameter] += 1
                forms.setdefault(parameter, set()).add(form_of(site.layer))
    used = edges_into_parameters(trial.losses)
    own = {id(parameter) for parameter in model.parameters()}
    if any(id(leaf) not in own for leaf in used):
        raise ValueError(
            "the model or the loss uses a tensor that wants gradients and is no parameter of the model, so that it "
            "would not be trained: register it (nn.ParameterList and nn.ModuleList in place of lists), or detach it."
        )
    apart = {
        name
        for name, parameter, _ in places
        if used[parameter] and (used[parameter] != noted[parameter] or len(forms[parameter]) > 1)
    }
    unused = {name for name, parameter, _ in places if not used[parameter]}
    losses = (together.losses.detach(), torch.cat([each.losses.detach() for each in trials]))
    return Layout(sites, apart, unused, _numbers(trial.calls), trial.overwrites, losses)


def made_up(sample: tuple[Tensor, Tensor], size: int, words: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random inputs, whole numbers below `words`, and as targets zeros or fractions, shaped like the sample's."""
    inputs, targets = (torch.zeros((size, *t.shape[1:]), dtype=t.dtype, device=t.device) for t in sample)
    generator = torch.Generator().manual_seed(seed)
    if inputs.is_floating_point():
        inputs += torch.randn(inputs.shape, generator=generator, dtype=torch.float64).to(inputs)
    else:
        inputs += torch.randint(words, inputs.shape, generator=generator).to(inputs)
    if targets.is_floating_point():
        targets += torch.rand(targets.shape, generator=generator, dtype=torch.float64).to(targets)
    return inputs, targets


def words_of(model: nn.Module) -> int:
    """How many words every table of the model has; two where there is none."""
    tables = nn.Embedding | nn.EmbeddingBag
    return min((layer.num_embeddings for layer in model.modules() if isinstance(layer, tables)), default=2)


def refuse_mixing_of(losses: tuple[Tensor, Tensor]) -> None:
    """Raise a sentence when records have other losses in a batch than alone: the model means to mix them.

    Only for whoever wrote the model, since records are computed alone whatever it means.
    """
    together, alone = (each.double() for each in losses)
    rough = math.sqrt(torch.finfo(losses[0].dtype).eps) * max(1e-30, float(alone.nan_to_num(0, 0, 0).abs().max()))
    if not torch.allclose(together, alone, rtol=0, atol=rough, equal_nan=True):
        raise ValueError(
            "the model mixes records: the loss of one depends on another in the same batch, so that no record's "
            "influence can be bounded. Compute every record by itself, with nn.GroupNorm or nn.LayerNorm where it is "
            "normalised over the batch."
        )


def _held(model: nn.Module) -> list[tuple[str, int, int]]:
    """Which tensors a model keeps, and how often each was changed."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return [(name, id(tensor), tensor._version) for name, tensor in tensors]


def used_parameters(model: nn.Module, loss: Callable[[Any, Any], Tensor], sample: tuple[Tensor, Tensor]) -> set[int]:
    """Which parameters the loss of a record depends on, by their identity."""
    with torch.random.fork_rng([]):
        trial = _trial(model, None, loss, *made_up(sample, 1, words_of(model)))
    return {id(leaf) for leaf in edges_into_parameters(trial.losses)}


def _trial(
    model: nn.Module, tape: Tape | None, loss: Callable[[Any, Any], Tensor], inputs: Tensor, targets: Tensor
) -> Trial:
    size = len(inputs)
    recording: AbstractContextManager[list[Call]] = tape.recording() if tape else nullcontext([])
    with recording as calls, torch.enable_grad():
        given = inputs.clone()
        try:
            outputs = model(given)
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            raise ValueError(
                f"the model does not take {size} records of shape {tuple(inputs.shape[1:])} and dtype {inputs.dtype} "
                f"({error}): floats are given to it in its own dtype, whole numbers as they are; convert the data."
            ) from error
        losses = losses_of(loss, outputs, targets.clone(), size)
    for call in calls:
        if tuple(each._version for each in call.inputs) != call.before:
            raise ValueError(
                f"the input of a {type(call.layer).__name__} layer was changed in place after the layer had used it: "
                "let the operation that follows work on a copy."
            )
    return Trial(calls, losses, given._version > 0)


def _numbers(calls: list[Call]) -> int:
    """Of gradients at outputs, and of inputs, which several layers may share."""
    inputs = {id(each): each.numel() for call in calls for each in call.inputs}
    return sum(inputs.values()) + sum(call.output.numel() for call in calls)


def _site(call: Call) -> Site:
    rule = rule_of(call.layer) if call.output.requires_grad and takes_one(call.layer, call.inputs[0]) else None
    return Site(call.layer, rule, call.output.shape)
