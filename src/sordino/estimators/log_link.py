"""Private regression of counts and of costs: what is predicted is the exponential of a linear score."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from sordino.estimators.regressors import _PrivateRegressor, target_bounds
from sordino.given import require_number
from sordino.linear_task import LinearTask
from sordino.losses import Gamma, Loss, Poisson
from sordino.methods.protocol import AnyMethod
from sordino.model_file import Link
from sordino.oracle.files.source import Multiples
from sordino.sentences import COUNTS_CLIPPED, RATIOS_CLIPPED
from sordino.tabular.columns import Number
from sordino.tabular.schema import Schema

RATIO_CLIP = 4.0
"""Slopes of the gamma loss: costs up to five times their prediction count in full. With shape 1 the mean is then .7 %
too small, and only the intercept is."""


class _LogLinkRegressor(_PrivateRegressor):
    """A subclass says which loss, and which ranges of targets it has a use for."""

    target_bound = None
    link: ClassVar[Link] = "log"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        schema: Schema | None = None,
        row_norm: float | None = None,
        target_range: tuple[float, float] | None = None,
        mean_guess: float | None = None,
        clip: float | None = None,
        weight_bound: float | None = None,
        method: AnyMethod | str = "auto",
        prepare: Any = "auto",
        relation: str = "replace_one",
        records: int | None = None,
        fit_intercept: bool = True,
        l2: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.row_norm = row_norm
        self.target_range = target_range
        self.mean_guess = mean_guess
        self.clip = clip
        self.weight_bound = weight_bound
        self.method = method
        self.prepare = prepare
        self.relation = relation
        self.records = records
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.random_state = random_state

    def _bounds(self) -> Number:
        bounds = target_bounds(self)
        if bounds is None:
            raise ValueError(
                "target_range=(low, high) is required: a range of y that does not come from the data (targets are "
                "clipped to it)."
            )
        return bounds

    def _coding(self) -> Multiples:
        bounds = self._bounds()
        guess: float | None = self.mean_guess
        if guess is None:
            # as far from the largest target as from a hundredth of it, on the scale of the link
            guess = math.sqrt(max(bounds.low, bounds.high / 100) * bounds.high)
        require_number("mean_guess", guess)
        if not (math.isfinite(guess) and guess > 0):
            raise ValueError(f"mean_guess is {guess}: a guess of the mean of y is positive and finite.")
        return Multiples(float(guess), bounds.half, bounds.centre)

    def _clip(self, default: float) -> float:
        if self.clip is not None:
            require_number("clip", self.clip)
        return default if self.clip is None else self.clip

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


class PrivatePoissonRegressor(_LogLinkRegressor):
    """Regression of counts, with a logarithmic link, whose weights are (epsilon, delta)-differentially private.

    `target_range` is a range (low, high) of y, from 0 or above, that does not come from the data: required unless a
    schema brings it, and targets are clipped to it. `mean_guess` is a public guess of the mean of y, in units of which
    counts are measured; `None` is a tenth of the largest. `clip`, in units of y, is how far a count may be from its
    prediction before it counts as if it were no further; `None` is 2 + 3 sqrt(mean_guess), or the width of the
    range. The noise grows with it, and where it is small beside what counts vary by, predictions are too low.

    Counts over different times: give the rate y/t as target and t as `sample_weight`, with its `weight_bound`.

    The other parameters and the attributes are those of `PrivateLogisticRegression`.
    """

    def _loss(self, unit: float) -> Loss:
        bounds = self._bounds()
        if bounds.low < 0:
            raise ValueError(f"the target's range begins at {bounds.low:g}: counts are not negative; begin at 0.")
        return Poisson(bounds.high / unit, self._clip(min(2 + 3 * math.sqrt(unit), bounds.high - bounds.low)) / unit)

    def _said_of_loss(self, task: LinearTask) -> tuple[str, ...]:
        assert isinstance(task.loss, Poisson)
        unit = self._coding().unit
        return (COUNTS_CLIPPED(difference=task.loss.clip * unit, mean=unit),)


class PrivateGammaRegressor(_LogLinkRegressor):
    """Regression of costs, with a logarithmic link, whose weights are (epsilon, delta)-differentially private.

    `target_range` is a range (low, high) of y, from above 0, that does not come from the data: required unless a schema
    brings it, and targets are clipped to it. Where some records have no cost at all, a classifier says which, and this
    one is for the others. `mean_guess` is a public guess of the mean of y, in units of which costs are measured; `None`
    is a tenth of the largest. `clip` is by how many times its prediction a cost may exceed it before it counts as if it
    exceeded it by no more; `None` is 4, or what the range leaves. Where costs vary by more, predictions are too low,
    all by the same factor.

    The other parameters and the attributes are those of `PrivateLogisticRegression`.
    """

    def _loss(self, unit: float) -> Loss:
        bounds = self._bounds()
        if bounds.low <= 0:
            raise ValueError(
                f"the target's range begins at {bounds.low:g}: costs are positive; begin above 0, and leave records "
                "without a cost to a classifier."
            )
        return Gamma(bounds.low / unit, bounds.high / unit, self._clip(min(RATIO_CLIP, bounds.high / bounds.low - 1)))

    def _said_of_loss(self, task: LinearTask) -> tuple[str, ...]:
        assert isinstance(task.loss, Gamma)
        return (RATIOS_CLIPPED(ratio=1 + task.loss.clip, mean=self._coding().unit),)
