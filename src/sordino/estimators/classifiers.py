"""Private linear classifiers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from sordino import wire
from sordino.arrays import Array
from sordino.estimators.before import KnowsItsPipeline
from sordino.estimators.cells import require_fitted_names, require_labels, require_numbers
from sordino.estimators.class_scores import class_probabilities, most_likely
from sordino.estimators.intervals import HasIntervals
from sordino.estimators.linear import Settings, fit_linear
from sordino.estimators.notebook import ShowsItsPromise
from sordino.estimators.persons import Whose
from sordino.estimators.tables import ReadsTables, require_own_targets
from sordino.estimators.weights import balance_of, record_weights, weights_in, with_class_weights
from sordino.linear_task import INTERCEPT_OF_CLASSES, LinearTask, class_coding, logistic
from sordino.losses import Hinge, Loss
from sordino.methods.protocol import AnyMethod
from sordino.model_file import released_weights
from sordino.oracle.files.source import Source
from sordino.penalties import Ridge
from sordino.problem import Contribution
from sordino.row_bound import linear_scores
from sordino.sentences import CLASSES_GIVEN, CLASSES_READ
from sordino.tabular.schema import Schema
from sordino.train import PrivacyWarning


class _PrivateClassifier(HasIntervals, ShowsItsPromise, KnowsItsPipeline, ReadsTables, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fit and predict; a subclass says which loss."""

    intervals: bool = False

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        schema: Schema | None = None,
        row_norm: float | None = None,
        classes: Sequence[Any] | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        weight_bound: float | None = None,
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
        self.classes = classes
        self.class_weight = class_weight
        self.weight_bound = weight_bound
        self.method = method
        self.prepare = prepare
        self.relation = relation
        self.records = records
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.intervals = intervals
        self.random_state = random_state

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
        features, targets, classes, known = self._read(X, y)
        task = self.task(classes)
        weights, weighted = record_weights(sample_weight, self.weight_bound, features)
        trained = fit_linear(
            features,
            targets,
            task,
            Settings.of(self),
            whose,
            enforced=weighted,
            assumed=(known, *before, *self._schema_public()),
            weights=weights,
            balance=balance_of(self.class_weight, classes),
            uncoded=self._uncoded(X, y, task.coding),
            known_by=self._known_by(X),
        )
        self.categories_ = trained.found
        self.coef_, self.intercept_ = task.to_raw(trained.weights)
        self.covariance_ = None if trained.covariance is None else task.covariance_to_raw(trained.covariance)
        self.classes_, self.row_bound_ = classes, trained.row_bound
        self.certificate_, self.chosen_ = trained.about(released_weights(self)), trained.chosen
        return self

    def decision_function(self, X: Any) -> Array:
        check_is_fitted(self)
        return self._scores(self._encoded(X))

    def _encoded(self, X: Any) -> Any:
        """Rows as the weights take them."""
        if self.encoded_by is not None:
            return self._rows(X)
        require_numbers("X", X)
        require_fitted_names(self, X)
        kinds = [np.float64, np.float32]
        return validate_data(self, X, accept_sparse="csr", dtype=kinds, reset=False, ensure_all_finite=False)

    def _scores(self, rows: Any) -> Array:
        scores: Array = linear_scores(rows, self.coef_, self.row_bound_) + self.intercept_
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        return most_likely(self.decision_function(X), self.classes_)

    def task(self, classes: NDArray[Any]) -> LinearTask:
        """What is trained, for these sorted classes."""
        rows = Settings.of(self).rows(self.encoded_by, INTERCEPT_OF_CLASSES)
        loss = with_class_weights(self._loss(len(classes)), self.class_weight, classes)
        return LinearTask(loss, rows, class_coding(classes.tolist()), Ridge(self.l2))

    def _read(self, X: Any, y: Any) -> tuple[Any, Array | None, NDArray[Any], str]:
        """Rows, coded targets, the classes and how they are known."""
        if self.encoded_by is not None:
            classes = np.array(self._class_target().sorted)
            if self.classes is not None and np.unique(_listed(self.classes)).tolist() != classes.tolist():
                raise ValueError("classes differ from those of the schema's target: leave `classes` out.")
            return *self._records(X, y, self.task(classes).coding), classes, CLASSES_GIVEN()
        if isinstance(X, Source):
            require_own_targets(y)
            if self.classes is None:
                raise ValueError("classes is required for records in files: the labels, which are not read from them.")
            classes, known = classes_of(self.classes, np.empty(0))
            source = X.coded(self.task(classes).coding)
            _require_known(source.check(), classes)
            self.n_features_in_ = X.shape[1]
            return source, None, classes, known
        require_numbers("X", X)
        require_labels(y)
        kinds = [np.float64, np.float32]
        features, y = validate_data(self, X, y, accept_sparse="csr", dtype=kinds, order="C", ensure_all_finite=False)
        labels = column_or_1d(y, warn=True)
        classes, known = classes_of(self.classes, labels)
        return features, self.task(classes).coding.encoded(codes_of(labels, classes).astype(float)), classes, known

    def _loss(self, classes: int) -> Loss:
        raise AssertionError("a subclass names its loss")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class PrivateLogisticRegression(_PrivateClassifier):
    """Logistic regression whose weights are (epsilon, delta)-differentially private.

    Two classes are trained with the logistic loss, more with the softmax loss.

    Parameters
    ----------
    epsilon, delta : the guarantee; `delta=None` means 1/n^2, `delta=0` a pure guarantee.
    schema : a public description of a table (`sordino.Schema`): then X is a table with its columns, of pandas, Polars
        or PyArrow, at `fit` and at `predict`, and bounds and classes are the schema's.
    row_norm : a bound on each record's Euclidean norm that does not come from the data. Required without a schema. Rows
        above it are scaled down.
    classes : the labels, which must not be read from the records either. `None` reads them, with a warning.
    class_weight : `None`, or a dictionary from labels to public numbers, of which only the ratios count: they are
        divided by the largest. "balanced" makes classes count alike, by a count that is paid for out of the same
        budget. Weights move the point at which a class is predicted; they do not improve the ranking, and cost some.
    weight_bound : a bound on `sample_weight` that does not come from the data; weights above it are cut to it, and
        counted in units of it. Required with `sample_weight`.
    method : "auto", or a method of `sordino.methods` with settings of your own.
    prepare : what is learnt about the rows first, and paid for out of the same budget. "auto" is a centre and a norm
        where public facts say that they are worth it, for the method "auto" on dense rows, and the frequent columns of
        sparse rows with more columns than records; `None` is nothing; else a list of steps: "categories", "centre",
        "norm quantile", "column scales", "column bounds", "frequent columns", "whitening", or the steps of
        `sordino.prepare` with settings of your own, in their order. Categories that the schema leaves to be discovered
        are a part of "auto", for every method.
    relation : "replace_one" or "add_remove". The latter needs `records`.
    records : a public stand-in for the number of records, for "add_remove" only.
    fit_intercept : whether to learn a constant term.
    l2 : strength of the ridge penalty (l2/2)|w|^2 on the weights of rows scaled to norm one.
    intervals : whether to release what intervals of coefficients and predictions follow from, out of the same budget.
        For two classes. Rows are then not prepared, and "auto" is the method with the narrowest intervals. They are
        about the coefficients that all records of such a kind together would give, with the penalty `l2`.
    random_state : `None`, or a seed for tests, which marks the certificate as not private.

    Attributes
    ----------
    coef_, intercept_, classes_ : the released model, for raw rows.
    covariance_, standard_errors_ : of the coefficients and, last, the intercept, counting records and noise; see
        `confidence_intervals` and `predict_interval`. `None`, and a sentence, where nothing would be true.
    categories_ : the values that were discovered, by their columns, else `None`; `schema_` is the schema with them.
    row_bound_ : where rows were prepared, what they are kept within, in training and in predictions; else `None`.
    certificate_ : what was guaranteed, and why.
    chosen_ : which setting of a `RepeatedSelection` the model comes from, else `None`.
    """

    def predict_proba(self, X: Any) -> Array:
        return class_probabilities(self.decision_function(X))

    def predict_interval(self, X: Any, level: float = 0.95) -> Array:
        """Low and high end of the second class's probability (records x 2)."""
        check_is_fitted(self)
        rows = self._encoded(X)
        ends: Array = expit(self._score_intervals(rows, self._scores(rows), level))
        return ends

    def _loss(self, classes: int) -> Loss:
        return logistic(classes)


class PrivateLinearSVC(_PrivateClassifier):
    """A linear support vector machine, for two classes, whose weights are (epsilon, delta)-differentially private.

    The hinge loss has a kink: "auto" trains on its Moreau envelope (see `ProximalSmoothing`). The parameters and the
    attributes are those of `PrivateLogisticRegression`.
    """

    def _loss(self, classes: int) -> Loss:
        if classes > 2:
            raise ValueError(
                f"Only binary classification is supported: there are {classes} classes. Train one classifier per class "
                "against the rest, each with its share of epsilon and delta, or use PrivateLogisticRegression."
            )
        return Hinge()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def classes_of(given: Sequence[Any] | None, labels: NDArray[Any]) -> tuple[NDArray[Any], str]:
    if given is not None:
        classes, known = np.unique(_listed(given)), CLASSES_GIVEN()
        if len(classes) < 2:
            raise ValueError(f"classes holds {len(classes)} class: a classifier needs at least two.")
        return classes, known
    # only where they are read: it warns where many of the classes occur, and which do is private else
    check_classification_targets(labels)
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError("y holds one class only: a classifier needs records of at least two classes.")
    warnings.warn(
        "the class labels were read from the records, which reveals which labels occur; pass `classes` to keep that "
        "private too.",
        PrivacyWarning,
        stacklevel=3,
    )
    return classes, CLASSES_READ()


def _listed(given: Any) -> NDArray[Any]:
    """The labels one by one, of whatever holds them: NumPy takes a set for a single thing."""
    plain = isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)
    labels = list(given) if plain else []
    if not labels or any(isinstance(label, Iterable) and not isinstance(label, str | bytes) for label in labels):
        raise TypeError(
            f"classes is {wire.shown(given)}: it must be a list of the labels, such as [0, 1] or ['no', 'yes']."
        )
    return np.asarray(given if hasattr(given, "dtype") else labels)


def codes_of(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    try:
        codes = np.searchsorted(classes, labels).clip(0, len(classes) - 1)
    except TypeError:
        # a missing label, or one of another kind, has no place in the order of the classes
        codes = None
    if codes is None:
        raise ValueError(
            "at least one label is missing, or of another kind than the classes (a text among numbers, a date among "
            "texts): give labels of one kind, and drop records without one."
        )
    _require_known(int((classes[codes] != labels).sum()), classes)
    return codes


def _require_known(strange: int, classes: NDArray[Any]) -> None:
    if strange:
        raise ValueError(
            f"at least one label is not among the {len(classes)} given classes: add the missing classes, or drop such "
            "records by a rule that does not look at the others. The number 1 and the text '1' are different labels."
        )
