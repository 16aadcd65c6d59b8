"""What a callback of `fit` is given, and one that tells how far a run has come."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import nn

from sordino import checkpoint
from sordino.oracle.torch.parameters import copy_of, load_parameters


class Moment:
    """A run between two of its steps: how far it has come, what that costs, and on demand the present weights.

    Whoever looks at the weights has seen them: they are released, whatever becomes of the run.
    """

    def __init__(self, moment: checkpoint.RecordedMoment, model: nn.Module) -> None:
        self._moment, self._model = moment, model

    @property
    def step(self) -> int:
        """How many steps are done."""
        return self._moment.step

    @property
    def planned(self) -> int:
        """How many there will be."""
        return self._moment.planned

    @property
    def epsilon(self) -> float:
        """What the steps so far cost at the budget's delta, from public numbers alone."""
        return self._moment.epsilon

    def weights(self) -> NDArray[np.float64]:
        """The trainable parameters as one vector, in the order of `named_parameters`."""
        return self._moment.weights()

    def model(self) -> nn.Module:
        """A copy of the model as it is now, in eval mode. Score it on public data: other scores are releases too."""
        copy = copy_of(self._model)
        load_parameters(copy, self.weights())
        return copy.eval()


Callback = Callable[[Moment], object]


@dataclass
class Report:
    """Every so many steps: a line with steps, time and budget, and nothing that was computed from the records."""

    every: int
    write: Callable[[str], object] = print
    _started: float = field(default_factory=time.monotonic, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.every >= 1:
            raise ValueError(f"every is {self.every}: a report comes every so many steps, at least one.")

    def __call__(self, moment: Moment) -> None:
        if moment.step % self.every == 0 or moment.step == moment.planned:
            seconds = time.monotonic() - self._started
            self.write(f"step {moment.step} of {moment.planned}, {seconds:.0f} s, epsilon {moment.epsilon:.3g} so far")
