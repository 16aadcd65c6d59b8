"""Train models on sensitive records and release them with a guarantee that anyone can re-check."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# the names load on first use, so that `import sordino` stays fast
_HOMES = {
    "Budget": "sordino.budget",
    "Relation": "sordino.budget",
    "Problem": "sordino.problem",
    "OutputPerturbation": "sordino.methods",
    "NoisyGradientDescent": "sordino.methods",
    "NoisySGD": "sordino.methods",
    "ProximalSmoothing": "sordino.methods",
    "PrivateLogisticRegression": "sordino.estimators",
    "PrivateLinearSVC": "sordino.estimators",
    "PrivateHuberRegressor": "sordino.estimators",
    "PrivateLinearRegression": "sordino.estimators",
    "PrivateQuantileRegressor": "sordino.estimators",
    "PrivateLinearSVR": "sordino.estimators",
    "PrivateMLPClassifier": "sordino.estimators",
    "PrivateMLPRegressor": "sordino.estimators",
    "PrivateSearch": "sordino.estimators",
    "Certificate": "sordino.certificate",
    "verify": "sordino.certificate",
    "PrivacyWarning": "sordino.train",
}

if TYPE_CHECKING:
    from sordino.budget import Budget, Relation
    from sordino.certificate import Certificate, verify
    from sordino.estimators import (
        PrivateHuberRegressor,
        PrivateLinearRegression,
        PrivateLinearSVC,
        PrivateLinearSVR,
        PrivateLogisticRegression,
        PrivateMLPClassifier,
        PrivateMLPRegressor,
        PrivateQuantileRegressor,
        PrivateSearch,
    )
    from sordino.methods import NoisyGradientDescent, NoisySGD, OutputPerturbation, ProximalSmoothing
    from sordino.problem import Problem
    from sordino.train import PrivacyWarning

__all__ = [
    "Budget",
    "Certificate",
    "NoisyGradientDescent",
    "NoisySGD",
    "OutputPerturbation",
    "PrivacyWarning",
    "PrivateHuberRegressor",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLinearSVR",
    "PrivateLogisticRegression",
    "PrivateMLPClassifier",
    "PrivateMLPRegressor",
    "PrivateQuantileRegressor",
    "PrivateSearch",
    "Problem",
    "ProximalSmoothing",
    "Relation",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sordino' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
