r"""Private networks for tables: fully connected layers, trained by `sordino.torch.fit`.

    output = W_K h_K + b_K,      h_K the last hidden layer (see `hidden_layers`)

PyTorch is needed to fit; predictions are made from plain arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from sordino.arrays import Array
from sordino.certificate import Certificate
from sordino.estimators.before import KnowsItsPipeline
from sordino.estimators.cells import require_fitted_names, require_labels, require_numbers
from sordino.estimators.class_scores import class_probabilities, most_likely
from sordino.estimators.classifiers import classes_of, codes_of
from sordino.estimators.linear import row_bound
from sordino.estimators.notebook import ShowsItsPromise
from sordino.estimators.perceptron import (
    PerceptronLoss,
    PerceptronSettings,
    cross_entropy,
    fit_perceptron,
    logistic,
    squared,
)
from sordino.estimators.persons import Whose
from sordino.estimators.regressors import REQUIRED, coding_of, said_of_targets, target_bounds
from sordino.estimators.tables import ReadsTables
from sordino.hidden_layers import HiddenLayers
from sordino.ledger.ledger import Reservation
from sordino.methods.protocol import AnyMethod
from sordino.model_file import released_weights
from sordino.oracle.files.source import AS_GIVEN, Coding, InUnits, Labels
from sordino.problem import Contribution, refuse_network_sum
from sordino.sentences import CLASSES_GIVEN
from sordino.tabular.schema import Schema
from sordino.train import about

Activation = Literal["tanh", "relu"]


class _PrivateNetwork(ShowsItsPromise, KnowsItsPipeline, ReadsTables, BaseEstimator):  # type: ignore[misc]
    """Layers from and to arrays; what they are trained for is a subclass's."""

    coefs_: list[Array]
    intercepts_: list[Array]
    certificate_: Certificate

    def _train(
        self,
        X: Any,
        targets: NDArray[Any],
        outputs: int,
        loss: PerceptronLoss,
        whose: Whose,
        enforced: tuple[str, ...] = (),
        assumed: tuple[str, ...] = (),
    ) -> tuple[Certificate, Reservation | None]:
        """The layers, and the guarantee, which is yet to be bound to what is released; and what has paid for it."""
        before = self._steps_before()
        given = {name: getattr(self, name) for name in PerceptronSettings.__dataclass_fields__}
        settings = PerceptronSettings(**{**given, "row_norm": self._bound})
        self.coefs_, self.intercepts_, certificate, paid = fit_perceptron(
            X, targets, outputs, loss, settings, whose, enforced, (*assumed, *before, *self._schema_public())
        )
        # the last layer speaks the target's own unit
        self.coefs_[-1], self.intercepts_[-1] = self._coding.back(self.coefs_[-1], self.intercepts_[-1])
        return certificate, paid

    def _table(self, X: Any, y: Any, coding: Coding) -> tuple[Any, Array]:
        """Dense rows and coded targets, with a schema."""
        if self._schema().unknown:
            raise ValueError(
                f"{type(self).__name__} discovers no categories: list the values of the schema's columns that have "
                "`discover`, or fit a linear model."
            )
        rows, targets = self._records(X, y, coding)
        if targets is None:
            raise ValueError(f"{type(self).__name__} needs its records in memory: give EncodedTable more of it.")
        return (rows.toarray() if sparse.issparse(rows) else rows), targets

    def _outputs(self, X: Any) -> Array:
        check_is_fitted(self)
        if self.schema is None:
            require_numbers("X", X)
            require_fitted_names(self, X)
            X = validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite=False)
        else:
            X = self._rows(X)
            X = X.toarray() if sparse.issparse(X) else X
        coef, intercept, hidden = self.file_layers()
        outputs: Array = hidden.after(X) @ coef.T + intercept
        return outputs

    def file_layers(self) -> tuple[Array, Array, HiddenLayers]:
        """The last layer and the hidden ones, as a model file holds them."""
        *layers, (coef, intercept) = [(W.T, b) for W, b in zip(self.coefs_, self.intercepts_, strict=True)]
        return coef, intercept, HiddenLayers(self._bound, self.activation, tuple(layers))

    @property
    def _bound(self) -> float:
        """On the norm of a row."""
        return row_bound(self.row_norm, self.schema)

    @property
    def _coding(self) -> InUnits:
        """What an output of the network that is trained stands for."""
        return AS_GIVEN


class PrivateMLPClassifier(ClassifierMixin, _PrivateNetwork):  # type: ignore[misc]
    """A multi-layer perceptron whose weights are (epsilon, delta)-differentially private.

    Parameters
    ----------
    epsilon, delta : the guarantee; `delta=None` means 1/n^2. It cannot be 0.
    schema : a public description of a table, as for `PrivateLogisticRegression`.
    row_norm : a bound on each record's Euclidean norm that does not come from the data. Required without a schema. Rows
        above it are scaled down.
    classes : the labels, which must not be read from the records either. `None` reads them, with a warning.
    hidden_layer_sizes : the widths of the hidden layers. Noise grows with the number of weights: keep it small.
    activation : "tanh" or "relu".
    method : "adam", "rmsprop", "sgd" or "recursive_momentum", or a method of `sordino.methods` with a clip and a step
        size of its own.
    epochs : passes over the records; the noise is what the budget then needs.
    batch_size : the expected number of records in a step; `None` means 4 sqrt(n), at least 512.
    clip, step_size : bound on a record's gradient and length of a step, for a method given by its name.
    relation : "replace_one" or "add_remove". The latter needs `records`.
    records : a public stand-in for the number of records, for "add_remove" only.
    l2 : strength of the penalty (l2/2)|w|^2 on all weights.
    random_state : `None`, or a seed for tests, which marks the certificate as not private.

    Attributes
    ----------
    coefs_, intercepts_ : the layers, for inputs as they are scaled by `row_norm`.
    classes_ : the labels.
    certificate_ : what was guaranteed, and why.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        schema: Schema | None = None,
        row_norm: float | None = None,
        classes: Sequence[Any] | None = None,
        hidden_layer_sizes: Sequence[int] = (64,),
        activation: Activation = "tanh",
        method: AnyMethod | str = "adam",
        epochs: float = 20,
        batch_size: int | None = None,
        clip: float = 1.0,
        step_size: float | None = None,
        relation: str = "replace_one",
        records: int | None = None,
        l2: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.row_norm = row_norm
        self.classes = classes
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.method = method
        self.epochs = epochs
        self.batch_size = batch_size
        self.clip = clip
        self.step_size = step_size
        self.relation = relation
        self.records = records
        self.l2 = l2
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        person: Any = None,
        records_per_person: int | None = None,
        contribution: Contribution = "mean",
    ) -> Self:
        """With a schema `X` is a table, whose own column is the target unless `y` is given.

        `person` and `contribution` are as for `PrivateLogisticRegression`; a network needs `records_per_person`, and
        `batch_size` counts persons then.
        """
        refuse_network_sum(contribution)
        X, whose = Whose.of(X, person, self.schema is not None, records_per_person, contribution)
        if self.schema is not None:
            classes, known = np.array(self._class_target().sorted), CLASSES_GIVEN()
            places = Labels(tuple(classes.tolist()), tuple(map(float, range(len(classes)))))
            X, codes = self._table(X, y, places)
        else:
            require_numbers("X", X)
            require_labels(y)
            X, y = validate_data(self, X, y, dtype=np.float64, order="C", ensure_all_finite=False)
            labels = column_or_1d(y, warn=True)
            classes, known = classes_of(self.classes, labels)
            codes = codes_of(labels, classes).astype(float)
        if len(classes) == 2:
            certificate, paid = self._train(X, codes.astype(np.float32), 1, logistic, whose, assumed=(known,))
        else:
            codes = codes.astype(np.int64)
            certificate, paid = self._train(X, codes, len(classes), cross_entropy, whose, assumed=(known,))
        self.classes_ = classes
        self.certificate_ = about(certificate, released_weights(self), paid)
        return self

    def decision_function(self, X: Any) -> Array:
        """One score per row for two classes, one per row and class for more."""
        outputs = self._outputs(X)
        return outputs.ravel() if len(self.classes_) == 2 else outputs

    def predict(self, X: Any) -> NDArray[Any]:
        return most_likely(self.decision_function(X), self.classes_)

    def predict_proba(self, X: Any) -> Array:
        return class_probabilities(self.decision_function(X))


class PrivateMLPRegressor(RegressorMixin, _PrivateNetwork):  # type: ignore[misc]
    """A multi-layer perceptron for numbers whose weights are (epsilon, delta)-differentially private.

    `target_range` is a range (low, high) of y that does not come from the data, or `target_bound` a bound on |y|: one
    is required, unless a schema brings it. Targets are clipped to it, and the squared error is taken in halves of it.
    The other parameters and the attributes are those of `PrivateMLPClassifier`.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        schema: Schema | None = None,
        row_norm: float | None = None,
        target_range: tuple[float, float] | None = None,
        target_bound: float | None = None,
        hidden_layer_sizes: Sequence[int] = (64,),
        activation: Activation = "tanh",
        method: AnyMethod | str = "adam",
        epochs: float = 20,
        batch_size: int | None = None,
        clip: float = 1.0,
        step_size: float | None = None,
        relation: str = "replace_one",
        records: int | None = None,
        l2: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.row_norm = row_norm
        self.target_range = target_range
        self.target_bound = target_bound
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.method = method
        self.epochs = epochs
        self.batch_size = batch_size
        self.clip = clip
        self.step_size = step_size
        self.relation = relation
        self.records = records
        self.l2 = l2
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        person: Any = None,
        records_per_person: int | None = None,
        contribution: Contribution = "mean",
    ) -> Self:
        """With a schema `X` is a table, whose own column is the target unless `y` is given.

        `person` and `contribution` are as for `PrivateLogisticRegression`; a network needs `records_per_person`, and
        `batch_size` counts persons then.
        """
        refuse_network_sum(contribution)
        X, whose = Whose.of(X, person, self.schema is not None, records_per_person, contribution)
        bounds = target_bounds(self)
        if bounds is None:
            raise ValueError(REQUIRED)
        if self.schema is not None:
            X, targets = self._table(X, y, self._coding)
        else:
            require_numbers("X", X)
            require_numbers("y", y)
            X, y = validate_data(self, X, y, dtype=np.float64, order="C", ensure_all_finite=False, y_numeric=True)
            targets = self._coding.numbers(y)
        enforced, assumed = said_of_targets(self, bounds)
        certificate, paid = self._train(
            X, np.clip(targets, -1.0, 1.0).astype(np.float32), 1, squared, whose, enforced, assumed
        )
        self.certificate_ = about(certificate, released_weights(self), paid)
        return self

    def predict(self, X: Any) -> Array:
        """With a schema within the target's range."""
        predicted = self._outputs(X).ravel()
        return predicted if self.schema is None else np.clip(predicted, *self._number_target().range)

    @property
    def _coding(self) -> InUnits:
        return coding_of(target_bounds(self))
