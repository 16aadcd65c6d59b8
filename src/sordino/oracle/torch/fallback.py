"""Gradients of every record by torch.func, for parameters that no rule covers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sordino.oracle.torch.parameters import Place


def gradients_of_each(
    model: nn.Module, loss: Callable[[Any, Any], Tensor], wanted: Sequence[Place], inputs: Tensor, targets: Tensor
) -> Iterator[tuple[Place, Tensor]]:
    """Every place with its gradients, records x parameters."""
    if not wanted:
        return

    def loss_of(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        outputs = torch.func.functional_call(model, parameters, (x.unsqueeze(0),))
        return loss(outputs, y.unsqueeze(0)).sum()

    parameters = {place.name: place.parameter.detach() for place in wanted}
    found = torch.func.vmap(torch.func.grad(loss_of), in_dims=(None, 0, 0), randomness="different")(
        parameters, inputs, targets
    )
    for place in wanted:
        yield place, found[place.name].reshape(len(inputs), -1)
