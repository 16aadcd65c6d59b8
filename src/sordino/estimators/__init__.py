"""Private models in scikit-learn's form."""

from sordino.estimators.classifiers import PrivateLogisticRegression
from sordino.estimators.regressors import PrivateHuberRegressor, PrivateLinearRegression

__all__ = ["PrivateHuberRegressor", "PrivateLinearRegression", "PrivateLogisticRegression"]
