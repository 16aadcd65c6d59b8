r"""Private networks for tables: fully connected layers, trained by `sordino.torch.fit`.

    h_0 = x min(1, B/|x|) sqrt(d)/B,     h_{k+1} = activation(h_k W_k + b_k),     output = h_K W_K + b_K

with B the public bound on a row's norm and d the number of features: inputs measure about one whatever their unit.
PyTorch is needed to fit; predictions are made from plain arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from sordino.budget import Budget, Relation
from sordino.certificate import Certificate
from sordino.estimators.classifiers import _classes, _encode
from sordino.estimators.linear import _earlier_releases, _public_count, _randomness
from sordino.methods import DPSGD, DPAdam, DPRMSProp, RecursiveMomentum
from sordino.oracle.rows import Rows

Array = NDArray[np.float64]
Activation = Literal["tanh", "relu"]

_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"tanh": np.tanh, "relu": lambda h: np.maximum(h, 0.0)}


def _named(name: str, clip: float, step_size: float | None, steps: int) -> Any:
    """A method by its name. Step sizes do well on MNIST, Adult and made-up data: public knowledge.

    Moments make a weight move by about the step size, so that it is what a weight may travel over the steps there are.
    """
    travel = step_size or min(0.1, 6 / steps)
    match name:
        case "adam":
            return DPAdam(clip=clip, step_size=travel, moments="corrected")
        case "rmsprop":
            return DPRMSProp(clip=clip, step_size=travel, moments="corrected")
        case "sgd":
            return DPSGD(clip=clip, step_size=step_size or 0.5, momentum=0.9)
        case "recursive_momentum":
            return RecursiveMomentum(clip=clip, step_size=step_size or 1.0, difference_clip=clip / 2, mix=0.2)
    raise ValueError(
        f"method is {name!r}: it must be 'adam', 'rmsprop', 'sgd' or 'recursive_momentum', or a method such as "
        "DPAdam(..)."
    )


class _PrivateNetwork(BaseEstimator):  # type: ignore[misc]
    """Layers from and to arrays; what they are trained for is a subclass's."""

    coefs_: list[Array]
    intercepts_: list[Array]
    certificate_: Certificate

    def _train(
        self,
        X: Any,
        targets: NDArray[Any],
        outputs: int,
        loss: Callable[[Any, Any], Any],
        enforced: tuple[str, ...] = (),
        assumed: tuple[str, ...] = (),
    ) -> None:
        inputs = _scaled(X, self.row_norm)
        records, _ = _public_count(self, len(X))
        if records < 2:
            raise ValueError(f"n_samples={records}: a model of one record would be about that record; give more.")
        delta = 1 / records**2 if self.delta is None else self.delta
        budget = Budget(self.epsilon, delta, Relation(self.relation))
        batch_size = _batch_size(self.batch_size, records)
        method = self.method
        if isinstance(method, str):
            method = _named(method, self.clip, self.step_size, max(1, math.ceil(self.epochs * records / batch_size)))
        _randomness(self.random_state)  # refuses what is no seed
        sizes = (X.shape[1], *_hidden(self.hidden_layer_sizes), outputs)
        notes = _earlier_releases(X, np.asarray(targets, dtype=float))

        from sordino.oracle.torch import load_parameters, parameter_vector
        from sordino.torch import fit

        model = _network(sizes, self.activation)
        load_parameters(model, _first_weights(sizes, self.random_state))
        certificate = fit(
            model,
            loss,
            (inputs.astype(np.float32), targets),
            method=method,
            budget=budget,
            epochs=self.epochs,
            batch_size=batch_size,
            weight_decay=self.l2,
            records=self.records,
            random_state=None if self.random_state is None else int(self.random_state),
        ).certificate
        self.coefs_, self.intercepts_ = _layers(parameter_vector(model), sizes)
        bound = f"rows with a norm above {self.row_norm:g} are scaled down to it"
        known = f"the row bound {self.row_norm:g} and the features were chosen without looking at the records"
        self.certificate_ = replace(
            certificate,
            enforced=(bound, *enforced, *certificate.enforced),
            assumed=(known, *assumed, *certificate.assumed),
            notes=(*certificate.notes, *notes),
        )

    def _outputs(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        h = _scaled(X, self.row_norm)
        for weights, shift in zip(self.coefs_[:-1], self.intercepts_[:-1], strict=True):
            h = _ACTIVATIONS[self.activation](h @ weights + shift)
        outputs: Array = h @ self.coefs_[-1] + self.intercepts_[-1]
        return outputs


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
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(y)
        labels = column_or_1d(y, warn=True)
        classes, known = _classes(self.classes, labels)
        codes = _encode(labels, classes)
        if len(classes) == 2:
            self._train(X, codes.astype(np.float32), 1, _logistic, assumed=(known,))
        else:
            self._train(X, codes.astype(np.int64), len(classes), _cross_entropy, assumed=(known,))
        self.classes_ = classes
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
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", y_numeric=True)
        if self.target_bound is None or not (math.isfinite(self.target_bound) and self.target_bound > 0):
            raise ValueError(
                f"target_bound is {self.target_bound}, but it is required to be a positive finite number: a bound on "
                "|y| that does not come from the data (targets are clipped to it)."
            )
        unit = float(self.target_bound)
        targets = np.clip(np.asarray(y, dtype=float) / unit, -1.0, 1.0).astype(np.float32)
        self._train(
            X,
            targets,
            1,
            _squared,
            enforced=(f"targets are clipped to [-{unit:g}, {unit:g}]",),
            assumed=(f"the target bound {unit:g} does not come from the records",),
        )
        return self

    def predict(self, X: ArrayLike) -> Array:
        outputs = self._outputs(X).ravel()
        return float(self.target_bound or 1.0) * np.clip(outputs, -1.0, 1.0)


def _scaled(X: Array, row_norm: float | None) -> Array:
    """Every row within the bound, in units in which features measure about one."""
    rows = Rows(row_norm, norm=math.sqrt(X.shape[1]))  # type: ignore[arg-type]
    scaled: Array = X * rows.scales(np.linalg.norm(X, axis=1))[:, None]
    return scaled


def _batch_size(given: int | None, records: int) -> int:
    return min(records, max(512, math.ceil(4 * math.sqrt(records)))) if given is None else given


def _hidden(sizes: Any) -> tuple[int, ...]:
    listed = tuple(sizes) if np.iterable(sizes) else (sizes,)
    if not all(isinstance(size, int | np.integer) and size >= 1 for size in listed):
        raise ValueError(f"hidden_layer_sizes is {sizes!r}: whole numbers are needed, one per hidden layer.")
    return tuple(map(int, listed))


def _first_weights(sizes: tuple[int, ...], seed: int | None) -> Array:
    """Uniform within sqrt(6/(in + out)) (Glorot and Bengio 2010), constants at zero, in PyTorch's order."""
    rng = np.random.default_rng(seed)
    parts = []
    for inside, outside in pairwise(sizes):
        reach = math.sqrt(6 / (inside + outside))
        parts += [rng.uniform(-reach, reach, size=inside * outside), np.zeros(outside)]
    return np.concatenate(parts)


def _layers(vector: Array, sizes: tuple[int, ...]) -> tuple[list[Array], list[Array]]:
    """The flat vector as matrices (in x out) and constants."""
    coefs, intercepts, at = [], [], 0
    for inside, outside in pairwise(sizes):
        coefs.append(vector[at : at + inside * outside].reshape(outside, inside).T.copy())
        at += inside * outside
        intercepts.append(vector[at : at + outside].copy())
        at += outside
    return coefs, intercepts


def _network(sizes: tuple[int, ...], activation: str) -> Any:
    if activation not in _ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}: it must be 'tanh' or 'relu'.")
    from torch import nn

    layers: list[Any] = []
    for inside, outside in pairwise(sizes):
        # without PyTorch's own first weights, which would use up its global generator
        layers += [nn.Linear(inside, outside, device="meta"), nn.Tanh() if activation == "tanh" else nn.ReLU()]
    return nn.Sequential(*layers[:-1]).to_empty(device="cpu")


def _cross_entropy(outputs: Any, codes: Any) -> Any:
    from torch.nn.functional import cross_entropy

    return cross_entropy(outputs, codes, reduction="none")


def _logistic(outputs: Any, codes: Any) -> Any:
    from torch.nn.functional import binary_cross_entropy_with_logits

    return binary_cross_entropy_with_logits(outputs[:, 0], codes, reduction="none")


def _squared(outputs: Any, targets: Any) -> Any:
    return (outputs[:, 0] - targets) ** 2 / 2
