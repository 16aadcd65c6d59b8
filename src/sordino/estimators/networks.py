r"""Private networks for tables: fully connected layers, trained by `sordino.torch.fit`.

    output = W_K h_K + b_K,      h_K the last hidden layer (see `hidden_layers`)

PyTorch is needed to fit; predictions are made from plain arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from sordino.arrays import Array
from sordino.certificate import Certificate
from sordino.estimators.before import KnowsItsPipeline
from sordino.estimators.cells import require_fitted_names, require_numbers
from sordino.estimators.classifiers import classes_of, codes_of
from sordino.estimators.notebook import ShowsItsPromise
from sordino.estimators.perceptron import (
    PerceptronLoss,
    PerceptronSettings,
    cross_entropy,
    fit_perceptron,
    logistic,
    squared,
)
from sordino.hidden_layers import HiddenLayers
from sordino.model_file import released_weights
from sordino.sentences import TARGET_BOUND_PUBLIC, TARGETS_CLIPPED

Activation = Literal["tanh", "relu"]


class _PrivateNetwork(ShowsItsPromise, KnowsItsPipeline, BaseEstimator):  # type: ignore[misc]
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
        enforced: tuple[str, ...] = (),
        assumed: tuple[str, ...] = (),
    ) -> Certificate:
        """The layers, and the guarantee, which is yet to be bound to what is released."""
        before = self._steps_before()
        settings = PerceptronSettings(**{name: getattr(self, name) for name in PerceptronSettings.__dataclass_fields__})
        self.coefs_, self.intercepts_, certificate = fit_perceptron(
            X, targets, outputs, loss, settings, enforced, (*assumed, *before)
        )
        return certificate

    def _outputs(self, X: Any) -> Array:
        check_is_fitted(self)
        require_numbers("X", X)
        require_fitted_names(self, X)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        coef, intercept, hidden = self.file_layers()
        outputs: Array = hidden.after(X) @ coef.T + intercept
        return outputs

    def file_layers(self) -> tuple[Array, Array, HiddenLayers]:
        """The last layer and the hidden ones, as a model file holds them."""
        *layers, (coef, intercept) = [(W.T, b) for W, b in zip(self.coefs_, self.intercepts_, strict=True)]
        return self._unit * coef, self._unit * intercept, HiddenLayers(self.row_norm, self.activation, tuple(layers))

    @property
    def _unit(self) -> float:
        """What an output of one stands for."""
        return 1.0


class PrivateMLPClassifier(ClassifierMixin, _PrivateNetwork):  # type: ignore[misc]
    """A multi-layer perceptron whose weights are (epsilon, delta)-differentially private.

    Parameters
    ----------
    epsilon, delta : the guarantee; `delta=None` means 1/n^2. It cannot be 0.
    row_norm : a bound on each record's Euclidean norm that does not come from the data. Required. Rows above it are
        scaled down.
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
        row_norm: float | None = None,
        classes: Sequence[Any] | None = None,
        hidden_layer_sizes: Sequence[int] = (64,),
        activation: Activation = "tanh",
        method: Any = "adam",
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

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        require_numbers("X", X)
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(y)
        labels = column_or_1d(y, warn=True)
        classes, known = classes_of(self.classes, labels)
        codes = codes_of(labels, classes)
        if len(classes) == 2:
            certificate = self._train(X, codes.astype(np.float32), 1, logistic, assumed=(known,))
        else:
            certificate = self._train(X, codes.astype(np.int64), len(classes), cross_entropy, assumed=(known,))
        self.classes_ = classes
        self.certificate_ = certificate.about(released_weights(self))
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """One score per row for two classes, one per row and class for more."""
        outputs = self._outputs(X)
        return outputs.ravel() if len(self.classes_) == 2 else outputs

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[chosen]
        return labels

    def predict_proba(self, X: ArrayLike) -> Array:
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        probabilities: Array = softmax(scores, axis=1)
        return probabilities


class PrivateMLPRegressor(RegressorMixin, _PrivateNetwork):  # type: ignore[misc]
    """A multi-layer perceptron for numbers whose weights are (epsilon, delta)-differentially private.

    `target_bound` is a bound on |y| that does not come from the data: required, targets are clipped to it, and the
    squared error is taken in its units. The other parameters and the attributes are those of `PrivateMLPClassifier`.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        row_norm: float | None = None,
        target_bound: float | None = None,
        hidden_layer_sizes: Sequence[int] = (64,),
        activation: Activation = "tanh",
        method: Any = "adam",
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
        self.row_norm = row_norm
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

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        require_numbers("X", X)
        require_numbers("y", y)
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", y_numeric=True)
        if self.target_bound is None or not (math.isfinite(self.target_bound) and self.target_bound > 0):
            raise ValueError(
                f"target_bound is {self.target_bound}, but it is required to be a positive finite number: a bound on "
                "|y| that does not come from the data (targets are clipped to it)."
            )
        unit = float(self.target_bound)
        targets = np.clip(np.asarray(y, dtype=float) / unit, -1.0, 1.0).astype(np.float32)
        certificate = self._train(
            X,
            targets,
            1,
            squared,
            enforced=(TARGETS_CLIPPED(target_bound=unit),),
            assumed=(TARGET_BOUND_PUBLIC(target_bound=unit),),
        )
        self.certificate_ = certificate.about(released_weights(self))
        return self

    def predict(self, X: ArrayLike) -> Array:
        return self._outputs(X).ravel()

    @property
    def _unit(self) -> float:
        return float(self.target_bound or 1.0)
