"""What the perceptrons share: from validated arrays to trained layers and a certificate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.certificate import Certificate
from sordino.estimators.linear import randomness_of, stated, warn_of_earlier_releases
from sordino.estimators.persons import Whose
from sordino.given import require_strength
from sordino.hidden_layers import ACTIVATIONS, scaled
from sordino.ledger.ledger import Reservation
from sordino.methods import DPSGD, DPAdam, DPRMSProp, RecursiveMomentum
from sordino.methods.protocol import AnyMethod
from sordino.oracle.rows import Rows
from sordino.sentences import required

PerceptronLoss = Callable[[Any, Any], Any]
"""Of a batch of outputs and targets, in tensors: one number per record."""


@dataclass(frozen=True)
class PerceptronSettings:
    """The parameters every perceptron has."""

    epsilon: float
    delta: float | None
    row_norm: float | None
    hidden_layer_sizes: Sequence[int]
    activation: str
    method: AnyMethod | str
    epochs: float
    batch_size: int | None
    clip: float
    step_size: float | None
    relation: str
    records: int | None
    l2: float
    random_state: int | None


def fit_perceptron(
    X: Array,
    targets: NDArray[Any],
    outputs: int,
    loss: PerceptronLoss,
    settings: PerceptronSettings,
    whose: Whose,
    enforced: tuple[str, ...] = (),
    assumed: tuple[str, ...] = (),
) -> tuple[list[Array], list[Array], Certificate, Reservation | None]:
    """Matrices (in x out) and constants of every layer, the certificate, and what has paid for it."""
    require_strength("l2", settings.l2)
    rows = Rows(settings.row_norm)  # type: ignore[arg-type]
    records, budget = stated(settings, *whose.counted(len(X)))
    batch_size = settings.batch_size
    if batch_size is None:
        batch_size = min(records, max(512, math.ceil(4 * math.sqrt(records))))
    method = settings.method
    if isinstance(method, str):
        steps = max(1, math.ceil(settings.epochs * records / max(1, batch_size)))
        method = _named(method, settings.clip, settings.step_size, steps)
    randomness_of(settings.random_state)  # refuses what is no seed
    sizes = (X.shape[1], *_hidden(settings.hidden_layer_sizes), outputs)
    warn_of_earlier_releases(X)

    # first: where PyTorch is missing, it says what to install
    from sordino.torch import fit  # isort: skip
    from sordino.oracle.torch import load_parameters, parameter_vector

    model = network(sizes, settings.activation)
    load_parameters(model, _first_weights(sizes, settings.random_state))
    fitted = fit(
        model,
        loss,
        (scaled(X, rows.bound).astype(np.float32), targets),
        method=method,
        budget=budget,
        epochs=settings.epochs,
        batch_size=batch_size,
        weight_decay=settings.l2,
        records=settings.records,
        person=whose.identifiers,
        records_per_person=None if whose.unit is None else whose.unit.most_records,
        contribution="mean" if whose.unit is None else whose.unit.contribution,
        random_state=None if settings.random_state is None else int(settings.random_state),
    )
    certificate = fitted.certificate
    # what is said about the rows comes first, as everywhere
    always = required(certificate.problem, budget, certificate.method, rows, certificate.epsilon)
    certificate = replace(
        certificate,
        rows=rows,
        enforced=(*always["enforced"], *enforced),
        assumed=(*always["assumed"], *assumed),
    )
    return *_layers(parameter_vector(model), sizes), certificate, fitted.reservation


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


def _hidden(sizes: Any) -> tuple[int, ...]:
    listed = tuple(sizes) if np.iterable(sizes) else (sizes,)
    if not all(isinstance(size, int | np.integer) and size >= 1 for size in listed):
        raise ValueError(f"hidden_layer_sizes is {sizes!r}: whole numbers are needed, one per hidden layer.")
    return tuple(map(int, listed))


def _first_weights(sizes: tuple[int, ...], seed: int | None) -> Array:
    """Uniform within sqrt(6/(in + out)) (Glorot and Bengio 2010), constants at zero, in PyTorch's order.

    Where a run starts protects nobody, so this need not come from the generator of the noise.
    """
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


def network(sizes: tuple[int, ...], activation: str) -> Any:
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}: it must be 'tanh' or 'relu'.")
    from torch import nn

    layers: list[Any] = []
    for inside, outside in pairwise(sizes):
        # without PyTorch's own first weights, which would use up its global generator
        layers += [nn.Linear(inside, outside, device="meta"), nn.Tanh() if activation == "tanh" else nn.ReLU()]
    return nn.Sequential(*layers[:-1]).to_empty(device="cpu")


def cross_entropy(outputs: Any, codes: Any) -> Any:
    from torch.nn import functional

    return functional.cross_entropy(outputs, codes, reduction="none")


def logistic(outputs: Any, codes: Any) -> Any:
    from torch.nn.functional import binary_cross_entropy_with_logits

    return binary_cross_entropy_with_logits(outputs[:, 0], codes, reduction="none")


def squared(outputs: Any, targets: Any) -> Any:
    return (outputs[:, 0] - targets) ** 2 / 2
