"""Private linear regressors. Targets are counted in halves of their range: settings do not depend on their unit."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sordino import wire
from sordino.arrays import Array
from sordino.estimators.before import KnowsItsPipeline
from sordino.estimators.cells import require_fitted_names, require_numbers
from sordino.estimators.intervals import HasIntervals
from sordino.estimators.linear import Settings, fit_linear
from sordino.estimators.notebook import ShowsItsPromise
from sordino.estimators.persons import Whose
from sordino.estimators.tables import ReadsTables, require_own_targets
from sordino.estimators.weights import record_weights, weights_in
from sordino.given import require_number
from sordino.linear_task import INTERCEPT_OF_NUMBERS, LinearTask
from sordino.losses import LARGE_RESIDUAL, TYPICAL_RESIDUAL, EpsilonInsensitive, Huber, Loss, Pinball, Squared
from sordino.methods.protocol import AnyMethod
from sordino.model_file import Link, linked, released_weights
from sordino.oracle.files.source import AS_GIVEN, InUnits, Multiples, Source
from sordino.penalties import Ridge
from sordino.problem import Contribution
from sordino.row_bound import linear_scores
from sordino.sentences import (
    HUBER_THRESHOLD,
    TARGET_BOUND_PUBLIC,
    TARGET_RANGE_PUBLIC,
    TARGETS_CLIPPED,
    TARGETS_IN_RANGE,
)
from sordino.tabular.columns import Number
from sordino.tabular.schema import Schema
from sordino.train import Trained


class _PrivateRegressor(HasIntervals, ShowsItsPromise, KnowsItsPipeline, ReadsTables, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit and predict; a subclass says which loss, on targets in units of their bound."""

    target_range: tuple[float, float] | None
    target_bound: float | None
    intervals: bool = False
    link: ClassVar[Link] = "identity"
    """What a prediction is of a score: itself, or its exponential."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        person: Any = None,
        records_per_person: int | None = None,
        contribution: Contribution = "mean",
        typical_records: float | None = None,
    ) -> Self:
        """`X` may be records in files (`sordino.files`), which bring their targets along.

        With a schema it is a table, whose own column is the target unless `y` is given. `sample_weight` says what every
        record counts, up to `weight_bound`, and `person` whose it is, each by an array or by the name of a column,
        which is then no feature. With `person` what is protected is a person with all their records, of which at most
        `records_per_person`, a public number, are used. They make one `contribution`: "mean", so that every person
        counts alike; "capped", so that every record does; or "sum", which is clipped as one, and divided by
        `typical_records`, a public guess of how many records a person has.
        """
        before = self._steps_before()
        X, whose = Whose.of(X, person, self.encoded_by is not None, records_per_person, contribution, typical_records)
        X, sample_weight = weights_in(X, sample_weight, self.weight_bound, self.encoded_by)
        # before a record is read: what is asked for may make no sense
        task, coding = self.task(), self._coding()
        features, targets = self._read(X, y, coding)
        enforced, assumed = said_of_targets(self, target_bounds(self))
        weights, weighted = record_weights(sample_weight, self.weight_bound, features)
        trained = fit_linear(
            features,
            targets,
            task,
            Settings.of(self),
            whose,
            enforced=(*enforced, *weighted),
            assumed=(*assumed, *before, *self._schema_public()),
            notes=self._said_of_loss(task),
            weights=weights,
            uncoded=self._uncoded(X, y, coding),
            known_by=self._known_by(X),
        )
        self.categories_ = trained.found
        coefficients, intercepts = task.to_raw(trained.weights)
        shift = coding.unit * self._shift(trained)
        self.coef_, self.intercept_ = coefficients.ravel(), float(intercepts[0]) + shift
        self.row_bound_ = trained.row_bound
        self.covariance_ = None if trained.covariance is None else task.covariance_to_raw(trained.covariance)
        self.certificate_, self.chosen_ = trained.about(released_weights(self)), trained.chosen
        return self

    def predict(self, X: Any) -> Array:
        """With a schema, or a range of targets, within it."""
        check_is_fitted(self)
        return self._within_range(linked(self._scores(self._encoded(X)), self.link))

    def predict_interval(self, X: Any, level: float = 0.95) -> Array:
        """Low and high end of every prediction (records x 2): of what is expected, not of a single target."""
        check_is_fitted(self)
        rows = self._encoded(X)
        return self._within_range(linked(self._score_intervals(rows, self._scores(rows), level), self.link))

    def _encoded(self, X: Any) -> Any:
        """Rows as the weights take them."""
        if self.encoded_by is not None:
            return self._rows(X)
        require_numbers("X", X)
        require_fitted_names(self, X)
        kinds = [np.float64, np.float32]
        return validate_data(self, X, accept_sparse="csr", dtype=kinds, reset=False, ensure_all_finite=False)

    def _scores(self, rows: Any) -> Array:
        scores: Array = linear_scores(rows, self.coef_[None], self.row_bound_)[:, 0] + self.intercept_
        return scores

    def _within_range(self, predicted: Array) -> Array:
        return predicted if self.encoded_by is None else np.clip(predicted, *self._number_target().range)

    def task(self) -> LinearTask:
        """What is trained."""
        coding, rows = self._coding(), Settings.of(self).rows(self.encoded_by, INTERCEPT_OF_NUMBERS)
        return LinearTask(self._loss(coding.unit), rows, coding, Ridge(self.l2), loss_of_many=self._loss_of_many())

    def _coding(self) -> InUnits | Multiples:
        return coding_of(target_bounds(self))

    @property
    def _bounded(self) -> bool:
        return target_bounds(self) is not None

    def _read(self, X: Any, y: Any, coding: InUnits | Multiples) -> tuple[Any, Array | None]:
        """Rows and coded targets."""
        if self.encoded_by is not None:
            return self._records(X, y, coding)
        if isinstance(X, Source):
            require_own_targets(y)
            source = X.coded(coding)
            source.check()
            self.n_features_in_ = X.shape[1]
            return source, None
        require_numbers("X", X)
        require_numbers("y", y)
        kinds = [np.float64, np.float32]
        features, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=kinds, order="C", ensure_all_finite=False, y_numeric=True
        )
        return features, coding.numbers(y)

    def _loss(self, unit: float) -> Loss:
        raise AssertionError("a subclass names its loss")

    def _loss_of_many(self) -> Loss | None:
        """Where records are many for their budget, if it is another one."""
        return None

    def _shift(self, trained: Trained) -> float:
        """What the intercept is corrected by, on public grounds, in units of the bound."""
        return 0.0

    def _said_of_loss(self, task: LinearTask) -> tuple[str, ...]:
        """For the certificate: what the loss has been told of the target's unit."""
        return ()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


REQUIRED = (
    "target_bound or target_range=(low, high) is required: a bound on |y|, or a range of y, that does not come from "
    "the data (targets are clipped to it)."
)


def target_bounds(estimator: Any) -> Number | None:
    """The public range of targets, by `target_range`, `target_bound` or the schema."""
    given, bound = estimator.target_range, estimator.target_bound
    if estimator.schema is not None:
        if given is not None or bound is not None:
            raise ValueError("the schema has the range of the target: leave target_range and target_bound out.")
        return estimator._number_target().bounds  # type: ignore[no-any-return]
    if given is None and bound is None:
        return None
    if given is not None and bound is not None:
        raise ValueError("target_range and target_bound say the same thing: give one of them.")
    try:
        if bound is not None:
            require_number("target_bound", bound)
        if given is not None:
            low, high = map(float, given)
            return Number(low, high)
        if math.isfinite(bound) and bound > 0:
            return Number(-float(bound), float(bound))
    except (TypeError, ValueError, OverflowError):
        pass
    if given is not None:
        raise ValueError(f"target_range is {given!r}: two finite numbers are needed, the lower one first.")
    raise ValueError(f"target_bound is {wire.shown(bound)}: it must be a positive finite bound on |y|.")


def coding_of(bounds: Number | None) -> InUnits:
    return AS_GIVEN if bounds is None else InUnits(bounds.half, bounds.centre)


def said_of_targets(estimator: Any, bounds: Number | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """For the certificate: what is enforced, and what it rests on."""
    if bounds is None:
        return (), ()
    if estimator.target_bound is not None:
        bound = {"target_bound": bounds.high}
        return (TARGETS_CLIPPED(**bound),), (TARGET_BOUND_PUBLIC(**bound),)
    ends = {"target_low": bounds.low, "target_high": bounds.high}
    return (TARGETS_IN_RANGE(**ends),), (TARGET_RANGE_PUBLIC(**ends),)


class PrivateHuberRegressor(_PrivateRegressor):
    """Huber regression whose weights are (epsilon, delta)-differentially private.

    `threshold` is where the loss turns from squared to linear, in units of y; `None` is an eighth of the target's
    range, or 1 without one. `target_range` is a range (low, high) of y that does not come from the data, or
    `target_bound` a bound on |y|: optional, it scales the problem and helps the plan; a schema brings its own. The
    other parameters and the attributes are those of `PrivateLogisticRegression`.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        schema: Schema | None = None,
        row_norm: float | None = None,
        target_range: tuple[float, float] | None = None,
        target_bound: float | None = None,
        weight_bound: float | None = None,
        threshold: float | None = None,
        method: AnyMethod | str = "auto",
        prepare: Any = "auto",
        relation: str = "replace_one",
        records: int | None = None,
        fit_intercept: bool = True,
        l2: float = 0.0,
        intervals: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.row_norm = row_norm
        self.target_range = target_range
        self.target_bound = target_bound
        self.weight_bound = weight_bound
        self.threshold = threshold
        self.method = method
        self.prepare = prepare
        self.relation = relation
        self.records = records
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.intervals = intervals
        self.random_state = random_state

    def _loss(self, unit: float) -> Loss:
        if not self._bounded:
            return Huber(1.0 if self.threshold is None else self.threshold)
        return Huber(TYPICAL_RESIDUAL if self.threshold is None else self.threshold / unit, 1.0)

    def _said_of_loss(self, task: LinearTask) -> tuple[str, ...]:
        assert isinstance(task.loss, Huber)
        return (HUBER_THRESHOLD(threshold=task.loss.threshold * self._coding().unit),)


class PrivateLinearRegression(_PrivateRegressor):
    """Least squares whose weights are (epsilon, delta)-differentially private.

    `target_range` is a range (low, high) of y that does not come from the data, or `target_bound` a bound on |y|: one
    is required, unless a schema brings it, and targets are clipped to it. `clip`, in units of y, bounds what a record
    of full norm adds to a gradient; `None` is an eighth of the range, a quarter of the bound, and twice that where
    records are many for their budget (n mu/sqrt(d) at least 750). The noise grows with it, and where it is small
    beside the residuals, skewed ones pull the prediction from the mean towards the median. The other parameters and the
    attributes are those of `PrivateLogisticRegression`.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        schema: Schema | None = None,
        row_norm: float | None = None,
        target_range: tuple[float, float] | None = None,
        target_bound: float | None = None,
        weight_bound: float | None = None,
        clip: float | None = None,
        method: AnyMethod | str = "auto",
        prepare: Any = "auto",
        relation: str = "replace_one",
        records: int | None = None,
        fit_intercept: bool = True,
        l2: float = 0.0,
        intervals: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.row_norm = row_norm
        self.target_range = target_range
        self.target_bound = target_bound
        self.weight_bound = weight_bound
        self.clip = clip
        self.method = method
        self.prepare = prepare
        self.relation = relation
        self.records = records
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.intervals = intervals
        self.random_state = random_state

    def _loss(self, unit: float) -> Loss:
        if not self._bounded:
            raise ValueError(REQUIRED)
        return Squared(1.0, TYPICAL_RESIDUAL if self.clip is None else self.clip / unit)

    def _loss_of_many(self) -> Loss | None:
        return Squared(1.0, LARGE_RESIDUAL) if self.clip is None else None


class PrivateQuantileRegressor(_PrivateRegressor):
    """Linear regression of a quantile whose weights are (epsilon, delta)-differentially private.

    `quantile` is the fraction of targets that should lie below the prediction. `target_bound` is a bound on |y| that
    does not come from the data: optional, it scales the problem and helps the plan. The pinball loss has a kink: "auto"
    trains on its Moreau envelope (see `ProximalSmoothing`), and the intercept makes up for what smoothing shifts. The
    other parameters and the attributes are those of `PrivateLogisticRegression`.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        schema: Schema | None = None,
        row_norm: float | None = None,
        target_range: tuple[float, float] | None = None,
        target_bound: float | None = None,
        weight_bound: float | None = None,
        quantile: float = 0.5,
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
        self.target_bound = target_bound
        self.weight_bound = weight_bound
        self.quantile = quantile
        self.method = method
        self.prepare = prepare
        self.relation = relation
        self.records = records
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.random_state = random_state

    def _loss(self, unit: float) -> Loss:
        return Pinball(self.quantile, 1.0 if self._bounded else math.inf)

    def _loss_of_many(self) -> Loss | None:
        """Where records are many for their budget, if it is another one."""
        return None

    def _shift(self, trained: Trained) -> float:
        # the envelope's slope climbs from -tau to 1 - tau as a - y climbs from -tau/s to (1 - tau)/s; the kink that it
        # stands for is in their middle, at (1/2 - tau)/s, and so the quantile is at a + (tau - 1/2)/s
        plan = trained.certificate.plan
        sharpness = plan.get("inner", plan).get("sharpness", plan.get("sharpness", math.inf))
        return (self.quantile - 0.5) / sharpness if self.fit_intercept else 0.0


class PrivateLinearSVR(_PrivateRegressor):
    """Linear support vector regression whose weights are (epsilon, delta)-differentially private.

    `tolerance` is how far a prediction may be off without costing anything, in units of y. `target_range`
    and `target_bound` are those of `PrivateHuberRegressor`. The loss has kinks: "auto"
    trains on its Moreau envelope (see `ProximalSmoothing`). The other parameters and the attributes are those of
    `PrivateLogisticRegression`.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        schema: Schema | None = None,
        row_norm: float | None = None,
        target_range: tuple[float, float] | None = None,
        target_bound: float | None = None,
        weight_bound: float | None = None,
        tolerance: float = 0.1,
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
        self.target_bound = target_bound
        self.weight_bound = weight_bound
        self.tolerance = tolerance
        self.method = method
        self.prepare = prepare
        self.relation = relation
        self.records = records
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.random_state = random_state

    def _loss(self, unit: float) -> Loss:
        return EpsilonInsensitive(self.tolerance / unit, 1.0 if self._bounded else math.inf)
