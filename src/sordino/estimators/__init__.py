"""Private models in scikit-learn's form."""

from sordino.estimators.classifiers import PrivateLogisticRegression
from sordino.estimators.regressors import PrivateHuberRegressor, PrivateLinearRegression
from sordino.estimators.search import PrivateSearch

__all__ = ["PrivateHuberRegressor", "PrivateLinearRegression", "PrivateLogisticRegression", "PrivateSearch"]
