"""One loss per record, or a sentence about what came instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor


def losses_of(loss: Callable[[Any, Any], Tensor], outputs: Any, targets: Tensor, records: int) -> Tensor:
    if isinstance(outputs, Tensor) and outputs.shape[:1] != (records,):
        raise ValueError(
            f"the model gave outputs of shape {tuple(outputs.shape)} for {records} records: the first axis "
            "must count the records."
        )
    failed = ""
    try:
        losses = loss(outputs, targets)
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        # no more than that: what it says may name a target
        failed = type(error).__name__
    if failed:
        raise ValueError(
            f"the loss failed on {_told(outputs, targets)} ({failed}; made-up ones will show why). Class numbers "
            "are whole (int64) and in range, regression targets are floats of the outputs' shape."
        )
    if not isinstance(losses, Tensor) or losses.ndim == 0:
        raise ValueError(
            'the loss gave a single number for a batch: it must give one loss per record, as with reduction="none".'
        )
    if losses.numel() != records or losses.shape[0] != records:
        raise ValueError(
            f"the loss gave shape {tuple(losses.shape)} for {records} records: it must give one number per record; "
            "average over the other axes."
        )
    return losses.reshape(records)


def _told(outputs: Any, targets: Any) -> str:
    kinds = [
        f"shape {tuple(value.shape)} and dtype {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
        for value in (outputs, targets)
    ]
    return f"outputs of {kinds[0]} and targets of {kinds[1]}"
