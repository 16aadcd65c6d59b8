"""Choosing the settings of a private estimator, with the choice inside the guarantee."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sordino.estimators.notebook import ShowsItsPromise
from sordino.methods import RepeatedSelection, Setting
from sordino.problem import Contribution

SEARCHED = ("method", "l2")
"""The parameters of a private estimator that a search may choose."""


def _offers(name: str) -> Callable[[Any], bool]:
    return lambda search: hasattr(getattr(search, "best_estimator_", search.estimator), name)


class PrivateSearch(ShowsItsPromise, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """The best of several settings for a private estimator, at the cost of its epsilon and delta for everything.

    A random number of runs, each with a setting drawn from the grid, is compared on held-out records by their clipped
    loss with noise, and one is released (`sordino.methods.RepeatedSelection`). A search of four settings needs nearly
    twice the noise of a single fit: it pays where good settings are far better than bad ones.

    Parameters
    ----------
    estimator : a private estimator; its epsilon and delta are those of the whole search.
    param_grid : as for GridSearchCV, values to try for `method` and `l2`, in all combinations; "auto" is noisy gradient
        descent here, on the envelope of a loss with a kink.
    mean_runs : how many runs there are on average; `None` is two for every setting.
    law : of the number of runs: "poisson", "geometric" or "logarithmic", the last for dozens of runs.
    held_out : the share of the records that scores are taken on.
    score_clip : a bound on a held-out record's loss; `None` is twice the loss of predicting nothing.

    Attributes
    ----------
    best_estimator_ : the released model.
    best_params_ : its settings; `None` if it happened that there was no run, and the model predicts nothing.
    certificate_ : what was guaranteed, for the search as a whole.
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Sequence[Any]],
        *,
        mean_runs: float | None = None,
        law: str = "poisson",
        held_out: float = 0.1,
        score_clip: float | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.mean_runs = mean_runs
        self.law = law
        self.held_out = held_out
        self.score_clip = score_clip

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        person: Any = None,
        records_per_person: int | None = None,
        contribution: Contribution = "mean",
        typical_records: float | None = None,
    ) -> Self:
        settings = _settings(self.estimator, self.param_grid)
        method = RepeatedSelection(settings, self.mean_runs, self.law, self.held_out, self.score_clip)
        unit = {"records_per_person": records_per_person, "contribution": contribution}
        # a network does not know of them
        typical = {} if typical_records is None else {"typical_records": typical_records}
        self.best_estimator_ = (
            clone(self.estimator).set_params(method=method).fit(X, y, person=person, **unit, **typical)
        )
        chosen = self.best_estimator_.chosen_
        self.best_params_ = None if chosen is None else {name: getattr(settings[chosen], name) for name in SEARCHED}
        self.certificate_ = self.best_estimator_.certificate_
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        return self._fitted().predict(X)  # type: ignore[no-any-return]

    @available_if(_offers("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        return self._fitted().predict_proba(X)  # type: ignore[no-any-return]

    @available_if(_offers("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        return self._fitted().decision_function(X)  # type: ignore[no-any-return]

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Of the released model on records that it was not trained on: on those it was, a score is one more release."""
        return float(self._fitted().score(X, y))

    @property
    def classes_(self) -> NDArray[Any]:
        classes: NDArray[Any] = self._fitted().classes_
        return classes

    @property
    def n_features_in_(self) -> int:
        return int(self._fitted().n_features_in_)

    def _fitted(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type, tags.input_tags.sparse = inner.estimator_type, inner.input_tags.sparse
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        return tags


def _settings(estimator: Any, grid: Mapping[str, Sequence[Any]]) -> tuple[Setting, ...]:
    parameters = estimator.get_params(deep=False) if isinstance(estimator, BaseEstimator) else {}
    if not all(name in parameters for name in (*SEARCHED, "epsilon")):
        raise TypeError(
            f"estimator is a {type(estimator).__name__}: a search needs a private one, such as "
            "PrivateLogisticRegression."
        )
    strange = [name for name in grid if name not in SEARCHED]
    if strange or not grid:
        raise ValueError(
            f"param_grid names {', '.join(map(repr, strange)) or 'nothing'}: a search chooses `method` and `l2`; what "
            "else a method has (steps, step_size, clip ..) goes into the methods of the list."
        )
    if not all(len(values) for values in grid.values()):
        raise ValueError("param_grid has an empty list: give every parameter at least one value.")
    methods, strengths = (grid.get(name, [parameters[name]]) for name in SEARCHED)
    return tuple(Setting(method, float(l2)) for method, l2 in product(methods, strengths))
