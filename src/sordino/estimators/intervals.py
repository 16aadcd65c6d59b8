"""Intervals of the fitted linear estimators, where they were asked for and came out."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sordino.arrays import Array
from sordino.certificate import Certificate
from sordino.inference import why_no_intervals
from sordino.intervals import Intervals, coefficient_intervals, score_intervals


class NoIntervals(ValueError, AttributeError):
    """Where none were asked for, or none came out. Also the error of an attribute that is not there, as scikit-learn's
    `NotFittedError` is, because whoever lists a model's attributes asks for `standard_errors_`."""


class HasIntervals:
    """`covariance_` is that of `coef_` and `intercept_`, in this order, over other records and other noise; or None."""

    coef_: Array
    intercept_: Any
    covariance_: Array | None
    certificate_: Certificate

    @property
    def standard_errors_(self) -> Array:
        """Of the coefficients, and last of the intercept."""
        return np.sqrt(np.diag(self._covariance()))

    def confidence_intervals(self, level: float = 0.95) -> Intervals:
        """Of every coefficient, and of the intercept: each holds with this probability, all together with less."""
        covariance = self._covariance()
        return coefficient_intervals(self.coef_.ravel(), float(np.ravel(self.intercept_)[0]), covariance, level)

    def _score_intervals(self, X: Any, scores: Array, level: float) -> Array:
        return score_intervals(X, scores, self._covariance(), level)

    def _covariance(self) -> Array:
        check_is_fitted(self)
        if self.covariance_ is None:
            raise NoIntervals(why_no_intervals(self.certificate_))
        return self.covariance_
