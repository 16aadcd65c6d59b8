r"""Records of a network: clipped sums by book-keeping.

A chunk of records takes one forward pass, which notes every layer's input a, and one backward pass, which is asked for
the gradients e at the layers' outputs and for nothing else. Norms of the records' gradients follow from a and e, and
so does the sum of the clipped gradients, written into one flat vector (Bu, Wang, Zha and Karypis 2023); the gradients
themselves are not formed. A difference takes the two passes at both points.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sordino.budget import Relation
from sordino.oracle.allowed import allow, checked_batch
from sordino.oracle.query import Difference, Gradient, Recursion
from sordino.oracle.sampling import Batch, Sampling
from sordino.oracle.torch.checks import checked_places, refuse_mixing
from sordino.oracle.torch.clipping import clipped_sum
from sordino.oracle.torch.norms import Share
from sordino.oracle.torch.passes import Passes
from sordino.oracle.torch.records import records_of
from sordino.oracle.torch.workspace import Workspace
from sordino.problem import NetworkProblem

if TYPE_CHECKING:
    from sordino.privacy.noise import Noise
    from sordino.privacy.randomness import Randomness

Array = NDArray[np.float64]
LossFunction = Callable[[Any, Any], Tensor]


class TorchOracle:
    """Answers about a network's records with noise. It works on a copy of the model, on the model's device.

    `loss(outputs, targets)` gives one loss per record: nn.CrossEntropyLoss(reduction="none"). `data` is a pair (X, y)
    or a data set of PyTorch. The vectors of queries and answers hold the trainable parameters in the order of
    `named_parameters`. At most `chunk` records are in a pass; the answer does not depend on it, but for rounding.

    A record whose loss or gradient is not finite counts for nothing, and raises nothing. Parameters the loss does not
    reach get noise alone. Random layers (nn.Dropout) draw from PyTorch's generator, anew for every record, which a
    record's share is bounded for; a difference has the same draws at both points.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: LossFunction,
        data: Any,
        problem: NetworkProblem,
        relation: Relation = Relation.REPLACE_ONE,
        chunk: int = 1024,
    ) -> None:
        if chunk < 1:
            raise ValueError(f"chunk is {chunk}: at least one record must be in a pass.")
        checked_places(model, problem)
        refuse_mixing(model)
        self._problem, self._relation = problem, Relation(relation)
        self._records = records_of(data)
        self._fits()
        self._passes = Passes(copy.deepcopy(model), loss, self._records.some(slice(0, 1)))
        self._work = Workspace(self._passes.dtype, self._passes.device)
        self._chunk = self._passes.largest(chunk)
        self._sum: Array | None = None
        self._part = torch.zeros(problem.dim, dtype=self._passes.dtype, device=self._passes.device)
        self._pieces = {place: self._part[slice(*place)] for place in self._passes.places}
        for notice in self._passes.notices:
            warnings.warn(notice, UserWarning, stacklevel=2)

    def draw(self, sampling: Sampling, randomness: Randomness) -> Batch:
        return sampling.draw(len(self._records), randomness.sampling)

    def release(self, query: Gradient | Difference | Recursion, noise: Noise, randomness: Randomness) -> Array:
        allow(query, noise, self._relation)
        return noise.perturb(self._answer(query), randomness)

    def _fits(self) -> None:
        if self._relation is Relation.REPLACE_ONE and len(self._records) != self._problem.records:
            raise ValueError(
                f"the data have {len(self._records)} records, but the problem was stated with "
                f"{self._problem.records}: under replace_one their number is public and must be the true one."
            )

    def _answer(self, query: Gradient | Difference | Recursion) -> NDArray[Any]:
        """The exact answer, valid until the next one. What chunks give is added up in double precision."""
        points = self._points(query)
        batch = checked_batch(query.batch, len(self._records))
        count = len(self._records) if batch is None else len(batch)
        if count <= self._chunk:
            return self._chunk_sum(query, points, slice(0, count) if batch is None else batch)
        if self._sum is None:
            self._sum = np.empty(self._problem.dim)
        self._sum.fill(0)
        for start in range(0, count, self._chunk):
            some = slice(start, min(start + self._chunk, count))
            self._sum += self._chunk_sum(query, points, some if batch is None else batch[some])
        return self._sum

    def _chunk_sum(
        self, query: Gradient | Difference | Recursion, points: list[Array], which: NDArray[np.intp] | slice
    ) -> NDArray[Any]:
        if not isinstance(which, slice) and not which.size:
            return np.zeros(self._problem.dim)
        self._work.reset()
        notes = self._passes.run(points, *self._records.some(which))
        clipped_sum(self._pieces, _shares(query), notes, self._work)
        part = self._part.cpu()
        return (part if part.dtype in (torch.float32, torch.float64) else part.float()).numpy()

    def _points(self, query: Gradient | Difference | Recursion) -> list[Array]:
        """Where gradients are asked for: the point itself, and the earlier one of a difference."""
        moved = query.difference if isinstance(query, Recursion) else query
        points = [query.at, moved.since] if isinstance(moved, Difference) else [query.at]
        for point in points:
            if np.shape(point) != (self._problem.dim,):
                raise ValueError(
                    f"parameters of shape {np.shape(point)} for a network of {self._problem.dim}: give one flat vector."
                )
        return points


def _shares(query: Gradient | Difference | Recursion) -> list[Share]:
    match query:
        case Gradient(clip=clip):
            return [Share("gradient", clip, 1.0)]
        case Difference(clip=clip):
            return [Share("difference", clip, 1.0)]
        case Recursion(difference=difference, gradient=gradient, mix=mix):
            return [Share("difference", difference.clip, 1 - mix), Share("gradient", gradient.clip, mix)]
