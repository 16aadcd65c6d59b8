"""What every oracle checks before it answers."""

from __future__ import annotations

import math
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.budget import Relation
from sordino.oracle.query import Choice, CountedGradient, Recursion, SideBySide
from sordino.oracle.sampling import Batch, CyclicPoisson, InOrder, Sampling
from sordino.privacy.noise import NoisePerRow

if TYPE_CHECKING:
    from sordino.privacy.noise import Noise
    from sordino.privacy.selection import NoisyMinimum


class Query(Protocol):
    """A sum over records, each of which adds at most `clip`."""

    @property
    def clip(self) -> float: ...
    def sensitivity(self, relation: Relation) -> float: ...


def allow(query: Query, noise: Noise | NoisyMinimum, relation: Relation) -> None:
    """Raise a sentence unless the noise was made for at least this query's sensitivity."""
    parts: tuple[Query, ...] = (query,)
    if isinstance(query, Recursion):
        parts = (query.difference, query.gradient)
    elif isinstance(query, CountedGradient):
        parts = (query.gradient,)
    for part in parts:
        if not (math.isfinite(part.clip) and part.clip > 0):
            raise ValueError(f"clip is {part.clip}: a released sum needs a positive finite bound on each record.")
    needed = query.sensitivity(relation)
    if not needed <= noise.sensitivity * (1 + 1e-12):
        raise ValueError(
            f"the query has sensitivity {needed:g} under {relation} (clip {query.clip:g}), but the noise was "
            f"made for {noise.sensitivity:g}: calibrate the noise to the query."
        )


def allow_side_by_side(query: SideBySide, noise: Noise, relation: Relation) -> None:
    """The same for every point by itself, with its own noise. Where there is not one for each, no noise is added."""
    points = [gradient for gradient in query.gradients for _ in gradient.at]
    noises = noise.noises if isinstance(noise, NoisePerRow) else repeat(noise)
    for gradient, own in zip(points, noises, strict=False):
        allow(gradient, own, relation)


def allow_choice(query: Choice, selection: NoisyMinimum, relation: Relation) -> None:
    """The same for a choice, whose noise also depends on the relation."""
    allow(query, selection, relation)
    if selection.relation is not relation:
        raise ValueError(
            f"the choice was made for {selection.relation}, but these records are under {relation}: "
            "state the relation of the budget in both."
        )


def allow_sampling(sampling: Sampling, relation: Relation, unit: str) -> None:
    """Raise a sentence where a neighbour's record would move others to other batches."""
    if not isinstance(sampling, InOrder | CyclicPoisson):
        return
    if relation is not Relation.REPLACE_ONE:
        raise ValueError(
            f"{type(sampling).__name__} batches go by the places of records, and under {relation} one record more or "
            "less moves all that stand behind it: use replace_one, or Poisson batches."
        )
    if unit != "record":
        raise ValueError(
            f"{type(sampling).__name__} batches go by places, and a {unit} stands where their identifier puts them: "
            "another one in their stead would move others. Use Poisson batches."
        )


def checked_batch(batch: Batch, records: int) -> NDArray[np.intp] | None:
    """The batch itself, after checking that no record can count twice."""
    if batch is None:
        return None
    index = np.ascontiguousarray(batch, dtype=np.intp)
    if index.ndim != 1 or (index.size and (index[0] < 0 or index[-1] >= records or not (index[1:] > index[:-1]).all())):
        raise ValueError(
            "a batch must hold increasing record numbers below the number of records, each at most once: "
            "draw it with the oracle's draw."
        )
    return index


def real_numbers(y: Any) -> NDArray[np.float64]:
    """Targets in double precision."""
    try:
        if np.asarray(y).dtype.kind not in "biufO":
            raise TypeError
        return np.ascontiguousarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        # in words of our own: NumPy's would quote a record
        raise ValueError("y must hold real numbers, a missing one as NaN: code labels as the loss expects.") from None
