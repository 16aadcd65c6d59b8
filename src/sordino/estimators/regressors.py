"""Private linear regressors. Targets are divided by `target_bound`, so that settings do not depend on their unit."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from sordino.domains import Ball, Domain
from sordino.estimators.before import KnowsItsPipeline
from sordino.estimators.cells import require_fitted_names, require_numbers
from sordino.estimators.linear import Settings, fit_linear, require_own_targets
from sordino.estimators.notebook import ShowsItsPromise
from sordino.losses import EpsilonInsensitive, Huber, Loss, Pinball, Squared
from sordino.model_file import released_weights
from sordino.oracle.files.source import InUnits, Source
from sordino.sentences import TARGET_BOUND_PUBLIC, TARGETS_CLIPPED
from sordino.train import Trained


class _PrivateRegressor(ShowsItsPromise, KnowsItsPipeline, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit and predict; a subclass says which loss, on targets in units of the bound, and which domain."""

    target_bound: float | None

    def fit(self, X: Any, y: Any = None) -> Self:
        """`X` may be records in files, `sordino.files.Table` or `Arrays`, which bring their targets along."""
        before = self._steps_before()
        unit = self._unit()
        if isinstance(X, Source):
            require_own_targets(y)
            features, targets = X.coded(InUnits(unit)), None
            features.check()
            self.n_features_in_ = X.shape[1]
        else:
            require_numbers("X", X)
            require_numbers("y", y)
            features, y = validate_data(
                self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", y_numeric=True
            )
            targets = np.asarray(y, dtype=float) / unit
        loss, domain = self._loss(unit), self._domain(features.shape[1])
        coefficients, intercepts, trained = fit_linear(
            features,
            targets,
            loss,
            Settings(**{name: getattr(self, name) for name in Settings.__dataclass_fields__}),
            domain,
            enforced=(TARGETS_CLIPPED(target_bound=unit),) if self.target_bound else (),
            assumed=(TARGET_BOUND_PUBLIC(target_bound=unit), *before) if self.target_bound else before,
        )
        self.coef_, self.intercept_ = unit * coefficients.ravel(), unit * (float(intercepts[0]) + self._shift(trained))
        self.certificate_, self.chosen_ = trained.certificate.about(released_weights(self)), trained.chosen
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self)
        require_numbers("X", X)
        require_fitted_names(self, X)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        predicted: NDArray[np.float64] = safe_sparse_dot(X, self.coef_, dense_output=True) + self.intercept_
        return predicted

    def _unit(self) -> float:
        if self.target_bound is None:
            return 1.0
        if not (math.isfinite(self.target_bound) and self.target_bound > 0):
            raise ValueError(f"target_bound is {self.target_bound}: it must be a positive finite bound on |y|.")
        return float(self.target_bound)

    def _loss(self, unit: float) -> Loss:
        raise AssertionError("a subclass names its loss")

    def _domain(self, features: int) -> Domain | None:
        return None

    def _shift(self, trained: Trained) -> float:
        """What the intercept is corrected by, on public grounds, in units of the bound."""
        return 0.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class PrivateHuberRegressor(_PrivateRegressor):
    """Huber regression whose weights are (epsilon, delta)-differentially private.

    `threshold` is where the loss turns from squared to linear, in units of y. `target_bound` is a bound on |y| that
    does not come from the data: optional, it scales the problem and helps the plan. The other parameters and the
    attributes are those of `PrivateLogisticRegression`.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        row_norm: float | None = None,
        target_bound: float | None = None,
        threshold: float = 1.0,
        method: Any = "auto",
        relation: str = "replace_one",
        records: int | None = None,
        fit_intercept: bool = True,
        l2: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_norm = row_norm
        self.target_bound = target_bound
        self.threshold = threshold
        self.method = method
        self.relation = relation
        self.records = records
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.random_state = random_state

    def _loss(self, unit: float) -> Loss:
        return Huber(self.threshold / unit, math.inf if self.target_bound is None else 1.0)


class PrivateLinearRegression(_PrivateRegressor):
    """Least squares on a ball whose weights are (epsilon, delta)-differentially private.

    `target_bound` is a bound on |y| that does not come from the data: required, targets are clipped to it.
    `weight_norm` bounds the weights of rows scaled to norm one and targets in units of the bound; the noise grows with
    it, and `None` means the square root of the number of features. The other parameters and the attributes are those
    of `PrivateLogisticRegression`.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        row_norm: float | None = None,
        target_bound: float | None = None,
        weight_norm: float | None = None,
        method: Any = "auto",
        relation: str = "replace_one",
        records: int | None = None,
        fit_intercept: bool = True,
        l2: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_norm = row_norm
        self.target_bound = target_bound
        self.weight_norm = weight_norm
        self.method = method
        self.relation = relation
        self.records = records
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.random_state = random_state

    def _loss(self, unit: float) -> Loss:
        if self.target_bound is None:
            raise ValueError(
                "target_bound is required: a bound on |y| that does not come from the data (targets are clipped to it)."
            )
        return Squared(target_bound=1.0)

    def _domain(self, features: int) -> Domain | None:
        return Ball(math.sqrt(features) if self.weight_norm is None else self.weight_norm)


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
        row_norm: float | None = None,
        target_bound: float | None = None,
        quantile: float = 0.5,
        method: Any = "auto",
        relation: str = "replace_one",
        records: int | None = None,
        fit_intercept: bool = True,
        l2: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_norm = row_norm
        self.target_bound = target_bound
        self.quantile = quantile
        self.method = method
        self.relation = relation
        self.records = records
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.random_state = random_state

    def _loss(self, unit: float) -> Loss:
        return Pinball(self.quantile, math.inf if self.target_bound is None else 1.0)

    def _shift(self, trained: Trained) -> float:
        # the envelope's slope climbs from -tau to 1 - tau as a - y climbs from -tau/s to (1 - tau)/s; the kink that it
        # stands for is in their middle, at (1/2 - tau)/s, and so the quantile is at a + (tau - 1/2)/s
        sharpness = trained.certificate.plan.get("sharpness", math.inf)
        return (self.quantile - 0.5) / sharpness if self.fit_intercept else 0.0


class PrivateLinearSVR(_PrivateRegressor):
    """Linear support vector regression whose weights are (epsilon, delta)-differentially private.

    `tolerance` is how far a prediction may be off without costing anything, in units of y. `target_bound` is a bound on
    |y| that does not come from the data: optional, it scales the problem and helps the plan. The loss has kinks: "auto"
    trains on its Moreau envelope (see `ProximalSmoothing`). The other parameters and the attributes are those of
    `PrivateLogisticRegression`.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        row_norm: float | None = None,
        target_bound: float | None = None,
        tolerance: float = 0.1,
        method: Any = "auto",
        relation: str = "replace_one",
        records: int | None = None,
        fit_intercept: bool = True,
        l2: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_norm = row_norm
        self.target_bound = target_bound
        self.tolerance = tolerance
        self.method = method
        self.relation = relation
        self.records = records
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.random_state = random_state

    def _loss(self, unit: float) -> Loss:
        return EpsilonInsensitive(self.tolerance / unit, math.inf if self.target_bound is None else 1.0)
