"""A model file as a fitted estimator again: what it was asked for is in its certificate, its weights in the file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from sordino.budget import Relation
from sordino.certificate import Certificate
from sordino.domains import Ball
from sordino.estimators.additive import PrivateAdditiveClassifier, PrivateAdditiveRegressor
from sordino.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from sordino.estimators.log_link import PrivateGammaRegressor, PrivatePoissonRegressor
from sordino.estimators.networks import PrivateMLPClassifier, PrivateMLPRegressor
from sordino.estimators.pictures import PrivateImageClassifier, map_of
from sordino.estimators.regressors import (
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVR,
    PrivateQuantileRegressor,
    coding_of,
    target_bounds,
)
from sordino.features.pictures import PictureMap
from sordino.hidden_layers import HiddenLayers
from sordino.inference import WithIntervals
from sordino.losses import EpsilonInsensitive, Gamma, Huber, Pinball, Poisson, Squared, Weighted, unweighted
from sordino.model_file import LoadedModel, read_model
from sordino.penalties import Ridge
from sordino.sentences import RECORDS_WEIGHTED, TARGETS_CLIPPED, TARGETS_IN_RANGE
from sordino.tabular.columns import Number

_OF_LOSS: dict[str, Any] = {
    "Logistic": PrivateLogisticRegression,
    "Softmax": PrivateLogisticRegression,
    "Hinge": PrivateLinearSVC,
    "Huber": PrivateHuberRegressor,
    "Squared": PrivateLinearRegression,
    "Pinball": PrivateQuantileRegressor,
    "EpsilonInsensitive": PrivateLinearSVR,
    "Poisson": PrivatePoissonRegressor,
    "Gamma": PrivateGammaRegressor,
}

_OF_CURVES: dict[str, Any] = {
    "Logistic": PrivateAdditiveClassifier,
    "Softmax": PrivateAdditiveClassifier,
    "Squared": PrivateAdditiveRegressor,
}


def load_model(path: str | os.PathLike[str]) -> Any:
    """The estimator that was saved, ready to predict; with a schema it takes tables.

    The guarantee is not checked: `sordino verify` does that, or `verify_model` for what `read_model` reads.
    """
    model = read_model(path)
    try:
        if model.hidden is not None:
            return _network(model, model.hidden)
        pictures = map_of(model.feature_names or ())
        return _linear(model) if pictures is None else _of_pictures(model, pictures)
    except (TypeError, AttributeError, KeyError, ArithmeticError, LookupError, RecursionError):
        # a stranger's file may hold anything under a digest that fits
        raise ValueError(f"{path}: this model's certificate is not that of an estimator.") from None


def _linear(model: LoadedModel) -> Any:
    certificate: Any = model.certificate
    loss, settings = certificate.problem.loss, _settings(model, certificate)
    named = type(unweighted(loss)).__name__
    kind = _OF_LOSS[named]
    if model.schema is not None and model.schema.curves is not None and named in _OF_CURVES:
        # their rows' bound follows from the curves
        kind = _OF_CURVES[named]
        del settings["row_norm"]
    estimator = kind(**settings, fit_intercept=certificate.rows.has_intercept)
    if (bound := _weight_bound(certificate)) is not None:
        estimator.set_params(weight_bound=bound)
    if model.classes is None:
        if estimator.link != model.link:
            raise LookupError
        estimator.set_params(**_own_settings(certificate, target_bounds(estimator)))
        estimator.coef_, estimator.intercept_ = model.coef[0], float(model.intercept[0])
    else:
        if isinstance(loss, Weighted):
            estimator.set_params(class_weight=dict(zip(model.classes.tolist(), loss.weights, strict=True)))
        estimator.coef_, estimator.intercept_ = model.coef, model.intercept
    estimator.covariance_, estimator.row_bound_ = model.covariance, model.row_bound
    return _fitted(estimator, model)


def _of_pictures(model: LoadedModel, pictures: PictureMap) -> Any:
    settings = _settings(model, model.certificate)
    del settings["schema"], settings["row_norm"]
    estimator: Any = PrivateImageClassifier(**settings, features=pictures)
    estimator.features_, estimator.coef_, estimator.intercept_ = pictures, model.coef, model.intercept
    estimator.classes_, estimator.feature_names_in_ = model.classes, np.array(model.feature_names, dtype=object)
    estimator.certificate_, estimator.chosen_, estimator.row_bound_ = model.certificate, None, model.row_bound
    return estimator


def _network(model: LoadedModel, hidden: HiddenLayers) -> Any:
    kind = PrivateMLPRegressor if model.classes is None else PrivateMLPClassifier
    sizes = tuple(len(intercept) for _, intercept in hidden.layers)
    settings = _settings(model, model.certificate)
    estimator: Any = kind(**settings, hidden_layer_sizes=sizes)
    estimator.set_params(activation=hidden.activation)
    layers = (*hidden.layers, (model.coef, model.intercept))
    estimator.coefs_, estimator.intercepts_ = [W.T for W, _ in layers], [b for _, b in layers]
    return _fitted(estimator, model)


def _settings(model: LoadedModel, certificate: Any) -> dict[str, Any]:
    """What every estimator was asked for."""
    requested, problem, schema = certificate.requested, certificate.problem, model.schema
    given: dict[str, Any] = {
        "epsilon": requested.epsilon,
        "delta": requested.delta,
        "schema": schema,
        "row_norm": certificate.rows.bound if schema is None else None,
        **_method(certificate.method),
        "relation": requested.relation.value,
        "records": problem.records if requested.relation is Relation.ADD_REMOVE else None,
        "l2": problem.penalty.strength if isinstance(problem.penalty, Ridge) else 0.0,
    }
    if schema is not None:
        return given
    return {**given, **({"classes": model.classes} if model.classes is not None else stated_target(certificate))}


def _method(method: object) -> dict[str, Any]:
    return {"method": method.method, "intervals": True} if isinstance(method, WithIntervals) else {"method": method}


def stated_target(certificate: Certificate) -> dict[str, Any]:
    """The range of targets, as the certificate has it."""
    for sentence in certificate.enforced:
        if found := TARGETS_CLIPPED.read(sentence):
            return {"target_bound": float(found["target_bound"])}
        if found := TARGETS_IN_RANGE.read(sentence):
            return {"target_range": (float(found["target_low"]), float(found["target_high"]))}
    return {}


def _weight_bound(certificate: Certificate) -> float | None:
    found = (RECORDS_WEIGHTED.read(sentence) for sentence in certificate.enforced)
    return next((float(read["weight_bound"]) for read in found if read is not None), None)


def _own_settings(certificate: Any, bounds: Number | None) -> dict[str, Any]:
    """Of one regressor alone, in units of the target."""
    unit = coding_of(bounds).unit
    match certificate.problem.loss:
        case Huber(threshold=threshold):
            return {"threshold": unit * threshold}
        case Pinball(quantile=quantile):
            return {"quantile": quantile}
        case EpsilonInsensitive(tolerance=tolerance):
            return {"tolerance": unit * tolerance}
        case Poisson(target_bound=largest, clip=clip) if bounds is not None:
            return {"mean_guess": bounds.high / largest, "clip": clip * bounds.high / largest}
        case Gamma(target_bound=largest, clip=clip) if bounds is not None:
            return {"mean_guess": bounds.high / largest, "clip": clip}
        case Squared() if isinstance(certificate.problem.domain, Ball):
            return {"weight_norm": certificate.problem.domain.radius}
    return {}


def _fitted(estimator: Any, model: LoadedModel) -> Any:
    estimator.certificate_, estimator.chosen_ = model.certificate, None
    names = model.feature_names if model.schema is None else tuple(model.schema.columns)
    estimator.n_features_in_ = model.features if names is None else len(names)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if model.classes is not None:
        estimator.classes_ = model.classes
    return estimator
