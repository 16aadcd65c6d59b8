"""Private models in scikit-learn's form."""

from sordino.estimators.additive import PrivateAdditiveClassifier, PrivateAdditiveRegressor
from sordino.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from sordino.estimators.encoder import SchemaEncoder
from sordino.estimators.log_link import PrivateGammaRegressor, PrivatePoissonRegressor
from sordino.estimators.networks import PrivateMLPClassifier, PrivateMLPRegressor
from sordino.estimators.pictures import PrivateImageClassifier
from sordino.estimators.regressors import (
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVR,
    PrivateQuantileRegressor,
)
from sordino.estimators.saved import load_model
from sordino.estimators.score import private_score
from sordino.estimators.search import PrivateSearch

__all__ = [
    "PrivateAdditiveClassifier",
    "PrivateAdditiveRegressor",
    "PrivateGammaRegressor",
    "PrivateHuberRegressor",
    "PrivateImageClassifier",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLinearSVR",
    "PrivateLogisticRegression",
    "PrivateMLPClassifier",
    "PrivateMLPRegressor",
    "PrivatePoissonRegressor",
    "PrivateQuantileRegressor",
    "PrivateSearch",
    "SchemaEncoder",
    "load_model",
    "private_score",
]
