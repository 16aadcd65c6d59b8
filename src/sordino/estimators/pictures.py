r"""A private classifier of pictures: a public map of each picture to a row, and a linear model of the rows.

How it is trained follows from public facts. Rows have norm 1 at most, so that noise of size s on every weight moves a
score by s at most. T = 300 steps of DP-SGD with momentum m = .9 on Poisson batches, their sizes falling like a cosine,
end with noise of

    s = (eta/(1 - m)) T sqrt(3/8) Delta e / (mu n)

on a weight, with Delta what one record moves a sum, mu what the budget is in Gaussian differential privacy, and e what
sampling costs beside steps on all records. A batch is the smallest power of two with e at most 1.05 and noise of 1.2
clips or more in a step. eta makes s two, beside scores that differ by many where a class is sure.

Rows of pictures have much in common, which tells nothing apart and takes as much noise as what does. A centre and a
norm are paid for with  a = .02  and .01 of mu^2 where the centre's error,  dist sqrt(d)/(n mu sqrt a)  in units of the
rows, is .3 at most. Noise, clip and this bound are the best of a few on training pictures that were kept apart, 10,000
of MNIST and 2,000 of the first 10,000 of CIFAR-10.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sordino import wire
from sordino.arrays import Array
from sordino.budget import Budget
from sordino.estimators.before import KnowsItsPipeline
from sordino.estimators.cells import require_unmasked
from sordino.estimators.class_scores import class_probabilities, most_likely
from sordino.estimators.classifiers import PrivateLogisticRegression
from sordino.estimators.linear import stated
from sordino.estimators.notebook import ShowsItsPromise
from sordino.features import HOG, Scattering
from sordino.features.pictures import PictureMap
from sordino.methods import DPSGD, Cosine
from sordino.methods.protocol import AnyMethod
from sordino.methods.schedule import gaussian_allowance
from sordino.model_file import released_weights
from sordino.prepare import Centre, NormQuantile
from sordino.prepare.protocol import Preparation
from sordino.privacy.accountants import guarantee
from sordino.problem import NetworkProblem
from sordino.row_bound import linear_scores

STEPS, MOMENTUM, CLIP = 300, 0.9, 0.2
ENOUGH_NOISE, MOST_BY_SAMPLING = 1.2, 1.05
"""The least noise of a step, in units of the clip, and the most e."""

SCORE_NOISE = 2.0

CENTRE_SHARE, NORM_SHARE, LARGEST_ERROR = 0.02, 0.01, 0.3

MAPS: dict[str, type[PictureMap]] = {"HOG": HOG, "Scattering": Scattering}


class PrivateImageClassifier(ShowsItsPromise, KnowsItsPipeline, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Pictures to classes, by public features and a linear model that is (epsilon, delta)-differentially private.

    Every picture becomes a row of norm 1 at most, by itself, so that the map costs nothing. The rows' linear model is
    a `PrivateLogisticRegression`, and the certificate is its own.

    Parameters
    ----------
    epsilon, delta, relation, records, l2, random_state : those of `PrivateLogisticRegression`.
    features : "hog", histograms of oriented gradients; "scattering", wavelets of two octaves, slower, and better on
        pictures with texture; or a map of `sordino.features` with settings of your own.
    shape : (height, width) or (height, width, channels) of a picture, where pictures come as flat rows.
    classes : the labels, which must not be read from the records. `None` reads them, with a warning.
    method : "auto" is DP-SGD with momentum on large batches, on rows whose common part is taken off where that is worth
        its price, planned from public facts; or a method of `sordino.methods`.

    `X` holds pictures x height x width (x channels), whole numbers from 0 to 255 or numbers from 0 to 1.

    Attributes
    ----------
    coef_, intercept_, classes_ : the released model of the rows.
    features_ : the map.
    row_bound_ : where rows were prepared, what they are kept within, in training and in predictions; else `None`.
    certificate_ : what was guaranteed, and why.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        features: str | PictureMap = "hog",
        shape: tuple[int, ...] | None = None,
        classes: Sequence[Any] | None = None,
        method: AnyMethod | str = "auto",
        relation: str = "replace_one",
        records: int | None = None,
        l2: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.features = features
        self.shape = shape
        self.classes = classes
        self.method = method
        self.relation = relation
        self.records = records
        self.l2 = l2
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        pictures = _pictures(X)
        self.features_ = self._map(pictures.shape[1:])
        rows = self.features_.fit(pictures).transform(pictures)
        method, prepare = self.method, None
        if isinstance(method, str) and method == "auto":
            records, budget = stated(self, len(rows))
            method = picture_method(records, rows.shape[1], budget)
            prepare = picture_preparation(records, rows.shape[1], budget)
        model = PrivateLogisticRegression(
            self.epsilon,
            self.delta,
            row_norm=1.0,
            classes=self.classes,
            method=method,
            prepare=prepare,
            relation=self.relation,
            records=self.records,
            l2=self.l2,
            random_state=self.random_state,
        )
        model._as_part_of(self).fit(rows, y)
        self.coef_, self.intercept_, self.classes_ = model.coef_, model.intercept_, model.classes_
        self.chosen_, self.row_bound_ = model.chosen_, model.row_bound_
        # the map is a part of what is released: its name is in those of the features
        self.feature_names_in_ = named_features(self.features_, rows.shape[1])
        self.certificate_ = model.certificate_.about(released_weights(self))
        return self

    def decision_function(self, X: Any) -> Array:
        check_is_fitted(self)
        rows = self.features_.transform(_pictures(X))
        scores: Array = linear_scores(rows, self.coef_, self.row_bound_) + self.intercept_
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        return most_likely(self.decision_function(X), self.classes_)

    def predict_proba(self, X: Any) -> Array:
        return class_probabilities(self.decision_function(X))

    def _map(self, sides: tuple[int, ...]) -> PictureMap:
        if isinstance(self.features, PictureMap):
            if self.shape is not None:
                raise ValueError("shape and a map of its own shape are given: leave shape out.")
            return self.features
        known = {name.lower(): kind for name, kind in MAPS.items()}
        if not isinstance(self.features, str) or self.features not in known:
            raise ValueError(
                f"features is {wire.shown(self.features)}: it must be 'hog', 'scattering' or a map of sordino.features."
            )
        shape = sides if self.shape is None else tuple(self.shape)
        if len(shape) == 1:
            raise ValueError(
                f"X holds rows of {shape[0]} pixels: say shape=(height, width) or (height, width, channels)."
            )
        return known[self.features](shape)


def picture_method(records: int, columns: int, budget: Budget) -> DPSGD:
    """What "auto" is: see above."""
    b = _batch(records, columns, budget)
    mu = gaussian_allowance(columns, budget)
    travel = STEPS * math.sqrt(3 / 8) * budget.relation.distance * CLIP / (mu * records)
    return DPSGD(STEPS, b, (1 - MOMENTUM) * SCORE_NOISE / travel, CLIP, MOMENTUM, Cosine())


def picture_preparation(records: int, columns: int, budget: Budget) -> list[Preparation] | None:
    """What "auto" pays for before: see above."""
    error = budget.relation.distance * math.sqrt(columns / CENTRE_SHARE)
    if error > LARGEST_ERROR * records * gaussian_allowance(columns, budget):
        return None
    return [Centre(CENTRE_SHARE), NormQuantile(NORM_SHARE)]


def named_features(map: PictureMap, columns: int) -> NDArray[np.object_]:
    return _named(type(map), map.get_params(), columns)


def map_of(names: Sequence[str]) -> PictureMap | None:
    """The map that these are the features of, if they are those of one."""
    found = re.fullmatch(r"(HOG|Scattering)\(([A-Za-z0-9=(), ]{1,200})\) 0", names[0]) if names else None
    if found is None:
        return None
    settings = re.findall(r"([a-z]+)=(\([0-9, ]+\)|[0-9]+|True|False)", found[2])
    given = {name: _read(value) for name, value in settings}
    try:
        made = MAPS[found[1]](**given)
        columns = made.columns()
    except (TypeError, ValueError):
        # a feature may have any name, and a stranger's file any features
        return None
    if columns != len(names):
        return None
    # a file that is older than a setting does not name it, and means what it is when it is not given
    return made if list(_named(type(made), given, columns)) == list(names) else None


def _named(kind: type[PictureMap], settings: Mapping[str, Any], columns: int) -> NDArray[np.object_]:
    text = ", ".join(f"{name}={value}" for name, value in sorted(settings.items()))
    return np.array([f"{kind.__name__}({text}) {place}" for place in range(columns)], dtype=object)


def _read(value: str) -> bool | int | tuple[int, ...]:
    if "(" in value:
        return tuple(map(int, re.findall(r"\d+", value)))
    return value == "True" if value in ("True", "False") else int(value)


def _batch(records: int, columns: int, budget: Budget) -> int:
    """The smallest power of two with enough noise in a step, and not too much; at most half of the records."""
    sizes: list[int] = [1 << power for power in range(6, 63) if 1 << power <= records / 2] or [records]
    low, high = 0, len(sizes) - 1
    # a sum of ten scores' gradients or of one has the same events: a problem of that size is planned for its noise
    problem, mu = NetworkProblem(records, columns), gaussian_allowance(columns, budget)

    def costs(size: int, multiplier: float) -> float:
        event = DPSGD(STEPS, size, 1.0, CLIP, noise_multiplier=multiplier).plan(problem, budget).event
        return guarantee(event, budget.delta, budget.relation).epsilon

    while low < high:
        middle = (low + high) // 2
        # what steps on all records would need on a mean, for a sum over the batch
        most = MOST_BY_SAMPLING * budget.relation.distance * math.sqrt(STEPS) * sizes[middle] / (records * mu)
        enough = most >= ENOUGH_NOISE and costs(sizes[middle], most) <= budget.epsilon
        enough = enough and costs(sizes[middle], ENOUGH_NOISE) >= budget.epsilon
        low, high = (low, middle) if enough else (middle + 1, high)
    return sizes[low]


def _pictures(X: Any) -> NDArray[np.float32]:
    """Numbers from 0 to 1, by the type alone."""
    require_unmasked("X", X)
    try:
        pictures = np.asarray(X)
    except ValueError:
        raise ValueError(
            "X holds pictures of different shapes: give all the same height, width and channels."
        ) from None
    if pictures.dtype.kind not in "biuf" or not 2 <= pictures.ndim <= 4:
        raise ValueError(
            f"X has {pictures.ndim} dimensions and holds {pictures.dtype} values: give numbers, pictures x height x "
            "width (x channels), or flat rows and their shape."
        )
    if pictures.dtype != np.uint8 and any(str(kind).lower() == "uint8" for kind in _kinds(X)):
        raise ValueError(
            "X holds bytes and other numbers, which are from 0 to 255 and from 0 to 1: one picture would decide which "
            "of the two all others are. Give an array of one type."
        )
    scale = np.float32(1 / 255 if pictures.dtype == np.uint8 else 1)
    # a number too large for single precision spoils its own picture alone, and a warning would tell that there is one
    with np.errstate(over="ignore"):
        scaled: NDArray[np.float32] = pictures.astype(np.float32) * scale
    return scaled


def _kinds(X: Any) -> Iterable[Any]:
    """The types that NumPy has made one of: of a data frame's columns, or of the pictures in a list."""
    if isinstance(X, list | tuple):
        return (np.asarray(picture).dtype for picture in X)
    columns: Iterable[Any] = getattr(X, "dtypes", ())
    return columns
