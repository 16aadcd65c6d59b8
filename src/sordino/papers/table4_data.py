"""The data sets of Table 4 as rows of bounded norm. Every change to a row looks at that row alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy import sparse
from scipy.ndimage import affine_transform

from sordino.losses import Logistic, Loss, Softmax
from sordino.tabular.columns import ClassTarget
from sordino.tabular.encode import encode_features, encode_target
from sordino.tabular.schema import Schema

SCHEMA = Path(__file__).parent / "schemas" / "adult_complete.toml"
CURVE = (0.1, 0.3, 1.0, 3.0)

# non-private, AMP, Out-SGD, DP-SGD, DP-GD; RCV1 with 50,000 records where we have 12,337
PRINTED = {"Adult": (84.8, 79.3, 77.4, 80.4, 80.9), "MNIST": (91.9, 71.9, 69.4, 87.5, 88.6)}
PRINTED["RCV1 subset"] = (93.5, 64.5, 66.7, 70.4, 74.9)
SIZES = {"Adult": (45_220, 104), "MNIST": (65_000, 784), "RCV1 subset": (50_000, 47_236)}
"""Records and features as printed, Table 3; the paper's fourth set, Real-sim, is not here."""
BUDGETS = {"Adult": (0.1,), "MNIST": (1.0,), "RCV1 subset": (0.1, 1.0)}


@dataclass(frozen=True, eq=False)
class Data:
    """One split. `bound` is on the norm of a raw row; `intercept` whether a constant term is learnt."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    loss: Loss
    bound: float = 1.0
    intercept: bool = True


def adult(folder: Path) -> Callable[[int], Data]:
    """One-hot categories and public ranges, complete records: 45,222 x 104."""
    schema = Schema.load(SCHEMA)
    table = pq.read_table(folder / "adult.parquet")
    for column in ("workclass", "occupation", "native-country"):
        table = table.filter(pc.not_equal(table[column], "?"))
    X, y = encode_features(schema, table), encode_target(schema, table)
    assert isinstance(schema.target, ClassTarget)
    return _split(X, np.where(y == schema.target.classes[1], 1.0, -1.0), Logistic(), schema.row_norm)


def mnist(folder: Path) -> Callable[[int], Data]:
    """Images as rows of norm one. 65,000 of the 70,000, as many as the paper has."""
    images, y = _digits(folder)
    return _split(unit(images.reshape(len(y), -1)), y, Softmax(10))


def mnist_deskewed(folder: Path) -> Callable[[int], Data]:
    """The same after every image is sheared upright by its own moments (LeCun, Bottou, Bengio & Haffner 1998)."""
    images, y = _digits(folder)
    upright = np.stack([deskewed(image) for image in images])
    return _split(unit(upright.reshape(len(y), -1)), y, Softmax(10))


def rcv1(folder: Path) -> Callable[[int], Data]:
    """Documents as they come, of norm one, in their own training and test parts. No intercept: it would take norm."""
    parts = _documents(folder)
    return lambda seed: Data(*parts, Logistic(), intercept=False)


def rcv1_roots(folder: Path) -> Callable[[int], Data]:
    """Square roots of the weights, of norm one again: documents overlap more, so the same noise hides less."""
    X, y, X_test, y_test = _documents(folder)
    return lambda seed: Data(unit(X.sqrt()), y, unit(X_test.sqrt()), y_test, Logistic(), intercept=False)


SOURCES: dict[str, Callable[[Path], Callable[[int], Data]]] = {
    "Adult": adult,
    "MNIST": mnist,
    "MNIST, deskewed": mnist_deskewed,
    "RCV1 subset": rcv1,
    "RCV1 subset, square roots": rcv1_roots,
}


def unit(X: Any) -> Any:
    """Every row divided by its own norm."""
    if sparse.issparse(X):
        norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        return sparse.csr_matrix(sparse.diags(1 / np.maximum(norms, 1e-12)) @ X)
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)


def deskewed(image: np.ndarray) -> np.ndarray:
    """The image with its centre of mass in the middle and its rows shifted so that its axis stands upright."""
    total = image.sum()
    if total == 0:
        return image
    down, across = np.mgrid[: image.shape[0], : image.shape[1]]
    centre = np.array([(down * image).sum(), (across * image).sum()]) / total
    variance = ((down - centre[0]) ** 2 * image).sum() / total
    covariance = ((down - centre[0]) * (across - centre[1]) * image).sum() / total
    shear = np.array([[1.0, 0.0], [covariance / max(variance, 1e-9), 1.0]])
    middle = (np.array(image.shape) - 1) / 2
    return affine_transform(image, shear, offset=centre - shear @ middle, order=1)


def _split(X: Any, y: np.ndarray, loss: Loss, bound: float = 1.0) -> Callable[[int], Data]:
    """80 % for training, the rest for testing, by a seed."""

    def split(seed: int) -> Data:
        order = np.random.default_rng(seed).permutation(len(y))
        cut = int(0.8 * len(y))
        train, test = np.sort(order[:cut]), np.sort(order[cut:])
        return Data(X[train], y[train], X[test], y[test], loss, bound)

    return split


def _digits(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    file = np.load(folder / "mnist.npz")
    images = np.concatenate([file["x_train"], file["x_test"]]).astype(np.float32) / 255
    y = np.concatenate([file["y_train"], file["y_test"]]).astype(float)
    some = np.sort(np.random.default_rng(65_000).permutation(len(y))[:65_000])
    return images[some], y[some]


def _documents(folder: Path) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    def part(name: str) -> tuple[Any, np.ndarray]:
        path = folder / f"rcv1_subset_{name}.npz"
        return sparse.load_npz(path).tocsr(), np.load(path)["y"].astype(float)

    return *part("train"), *part("test")
