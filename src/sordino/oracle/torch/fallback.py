"""Gradients of every record by torch.func, for parameters that no rule covers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sordino.oracle.torch.parameters import Place


class EachRecord:
    """Writes down the gradients of `wanted` parameters, of all records at once where the layers can be batched.

    `trial` are made-up records, on which it is found out.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Any, Any], Tensor],
        wanted: Sequence[Place],
        trial: tuple[Tensor, Tensor],
    ) -> None:
        self._model, self._loss, self._wanted = model, loss, wanted
        self._gradient = torch.func.grad(self._loss_of)
        self._together = True
        if wanted:
            try:
                list(self.gradients(*trial))
            except RuntimeError:
                # recurrent layers work in place, which batching does not allow
                self._together = False

    def gradients(self, inputs: Tensor, targets: Tensor) -> Iterator[tuple[Place, Tensor]]:
        """Every place with its gradients, records x parameters."""
        if not self._wanted:
            return
        parameters = {place.name: place.parameter.detach() for place in self._wanted}
        if self._together:
            batched = torch.func.vmap(self._gradient, in_dims=(None, 0, 0), randomness="different")
            found = batched(parameters, inputs, targets)
        else:
            each = [self._gradient(parameters, x, y) for x, y in zip(inputs, targets, strict=True)]
            found = {name: torch.stack([one[name] for one in each]) for name in parameters}
        for place in self._wanted:
            yield place, found[place.name].reshape(len(inputs), -1)

    def _loss_of(self, parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        outputs = torch.func.functional_call(self._model, parameters, (x.unsqueeze(0),))
        return self._loss(outputs, y.unsqueeze(0)).sum()
