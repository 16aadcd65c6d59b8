r"""nn.LSTM, nn.GRU and nn.RNN, unrolled over time: a layer whose gradients are kept by the books.

PyTorch's modules compute all steps inside one function that vmap cannot follow. In the oracle's copy of a model every
direction of every layer becomes one `Recurrence`, which shares its memory with the flat vector of parameters. With the
gradient e_t at the gates of step t,

    gates_t = W_ih x_t + b_ih + W_hh h_{t-1} + b_hh,      dW_ih = sum_t e_t x_t',    dW_hh = sum_t e_t h_{t-1}',

so that its gradients are those of two linear layers with the steps as positions. The new state n of a GRU takes in the
old one behind a gate r: there e_t r_t stands in the place of e_t for W_hh and b_hh.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from sordino.oracle.torch.opened import Known, piece
from sordino.oracle.torch.parameters import Place

PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class Unrolled(NamedTuple):
    """What came out of all steps, the last state, the gates, and what goes into the gradients."""

    output: Tensor
    state: tuple[Tensor, ...]
    gates: Tensor
    inputs: tuple[Tensor, ...]


class Recurrence(nn.Module):
    """One direction of one layer, over x (records, steps, numbers); `kind` is its `mode` in PyTorch."""

    weight_ih: nn.Parameter
    weight_hh: nn.Parameter
    bias_ih: nn.Parameter | None
    bias_hh: nn.Parameter | None

    def __init__(self, kind: str, parameters: dict[str, nn.Parameter | None]) -> None:
        super().__init__()
        self.kind = kind
        for name in PARAMETERS:
            self.register_parameter(name, parameters.get(name))

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        unrolled = self.unroll(x, state, None)
        return (unrolled.output, *unrolled.state)

    def unroll(self, x: Tensor, state: tuple[Tensor, ...], zeros: Tensor | None) -> Unrolled:
        """`zeros` are added to the gates; every parameter is used once, so that uses and notes can be counted."""
        gates = functional.linear(x, self.weight_ih, self.bias_ih)
        hidden = self.weight_hh.t()
        bias: Tensor | None = self.bias_hh
        if self.kind == "GRU":
            bias = None if bias is None else bias.view(-1)
        elif bias is not None:
            gates, bias = gates + bias, None
        gates = gates if zeros is None else gates + zeros
        before, behind, outputs = [], [], []
        for step in gates.unbind(1):
            before.append(state[0])
            from_state = state[0] @ hidden
            if self.kind == "LSTM":
                i, f, g, o = (step + from_state).chunk(4, 1)
                c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
                state = (torch.sigmoid(o) * torch.tanh(c), c)
            elif self.kind == "GRU":
                from_state = from_state if bias is None else from_state + bias
                width = state[0].shape[1]
                r, z = torch.sigmoid(step[:, : 2 * width] + from_state[:, : 2 * width]).chunk(2, 1)
                n = torch.tanh(step[:, 2 * width :] + r * from_state[:, 2 * width :])
                state = (n + z * (state[0] - n),)
                behind.append(r)
            else:
                state = ((torch.tanh if self.kind == "RNN_TANH" else torch.relu)(step + from_state),)
            outputs.append(state[0])
        inputs = [torch.stack(each, 1) for each in (before, behind) if each]
        return Unrolled(torch.stack(outputs, 1), state, gates, (x, *inputs))


def opened(name: str, layer: nn.RNNBase, known: Known) -> list[Place] | None:
    """Put recurrences in the place of a layer; None where its state is projected, which they do not do."""
    if layer.proj_size:
        return None
    places: list[Place] = []
    recurrences: list[nn.Module] = []
    directions = ("", "_reverse") if layer.bidirectional else ("",)
    for suffix in [f"_l{number}{direction}" for number in range(layer.num_layers) for direction in directions]:
        parameters: dict[str, nn.Parameter | None] = {}
        for part in PARAMETERS if layer.bias else PARAMETERS[:2]:
            parameters[part], place = piece(
                getattr(layer, part + suffix), f"{name}.recurrences.{len(recurrences)}.{part}", known
            )
            places += place
        recurrences.append(Recurrence(layer.mode, parameters))
    layer.recurrences = nn.ModuleList(recurrences)
    layer.forward = partial(_forward, layer)
    return places


def _forward(layer: nn.RNNBase, x: Tensor, hx: Tensor | tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, object]:
    """What nn.LSTM, nn.GRU and nn.RNN compute."""
    if isinstance(x, PackedSequence):
        raise ValueError(
            "the model packs sequences, whose lengths are values of the records: give padded ones to the layer, and "
            "choose among its outputs by a mask."
        )
    single = x.ndim == 2
    x = x.unsqueeze(0) if single else x if layer.batch_first else x.transpose(0, 1)
    paths, parts = len(cast(nn.ModuleList, layer.recurrences)), 2 if layer.mode == "LSTM" else 1
    if hx is None:
        given = [x.new_zeros(paths, len(x), layer.hidden_size)] * parts
    else:
        given = [hx] if isinstance(hx, Tensor) else list(hx)
        given = [each.unsqueeze(1) for each in given] if single else given
    ends: list[tuple[Tensor, ...]] = []
    directions = 2 if layer.bidirectional else 1
    for number in range(layer.num_layers):
        outputs = []
        for path in range(number * directions, (number + 1) * directions):
            turned = path % directions == 1
            output, *state = layer.recurrences[path](  # type: ignore[index,operator]
                x.flip(1) if turned else x, *(each[path] for each in given)
            )
            outputs.append(output.flip(1) if turned else output)
            ends.append(tuple(state))
        x = outputs[0] if directions == 1 else torch.cat(outputs, 2)
        if layer.dropout and number + 1 < layer.num_layers:
            x = functional.dropout(x, layer.dropout, layer.training)
    last = [torch.stack(each) for each in zip(*ends, strict=True)]
    if single:
        x, last = x.squeeze(0), [each.squeeze(1) for each in last]
    elif not layer.batch_first:
        x = x.transpose(0, 1)
    return x, tuple(last) if layer.mode == "LSTM" else last[0]
