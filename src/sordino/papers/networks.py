"""What the experiments with networks share: pictures, networks, and accuracy along a run.

Accuracy on test pictures during a run looks at its iterates. All of them are covered by the guarantee, and so is any
average of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sordino.budget import Budget
from sordino.methods.protocol import AnyMethod
from sordino.oracle.torch import load_parameters
from sordino.torch import Moment, fit

# mean and deviation of a pixel, as the two data sets are commonly described: public, and the same for all channels
MNIST_PIXELS = (0.1307, 0.3081)
CIFAR_PIXELS = (0.4734, 0.2516)
_SCORED = 10_000
"""Training pictures that a curve is scored on."""


@dataclass(frozen=True, eq=False)
class Pictures:
    X: torch.Tensor
    y: torch.Tensor
    X_test: torch.Tensor
    y_test: torch.Tensor

    def held_out(self, count: int) -> Pictures:
        """The last `count` training pictures in the place of the test pictures."""
        return Pictures(self.X[:-count], self.y[:-count], self.X[-count:], self.y[-count:])

    def tested_on(self, count: int) -> Pictures:
        return replace(self, X_test=self.X_test[:count], y_test=self.y_test[:count])


def mnist(folder: Path) -> Pictures:
    return _pictures(folder / "mnist.npz", MNIST_PIXELS)


def cifar(folder: Path) -> Pictures:
    """10,000 of the 50,000 training pictures, 2,000 of the 10,000 for the test."""
    return _pictures(folder / "cifar10_subset_10000_2000.npz", CIFAR_PIXELS)


def cifar_whole(folder: Path) -> Pictures:
    return _pictures(folder / "cifar10.npz", CIFAR_PIXELS)


def _pictures(path: Path, pixels: tuple[float, float]) -> Pictures:
    """Channels first, pixels centred and scaled by public numbers."""
    with np.load(path) as stored:
        parts = [stored[name] for name in ("x_train", "y_train", "x_test", "y_test")]
    mean, deviation = pixels

    def scaled(raw: NDArray[np.uint8]) -> torch.Tensor:
        X = raw[:, None] if raw.ndim == 3 else raw.transpose(0, 3, 1, 2)
        return torch.from_numpy((np.ascontiguousarray(X, dtype=np.float32) / 255 - mean) / deviation)

    X, y, X_test, y_test = parts
    labels = [torch.from_numpy(part.astype(np.int64).ravel()) for part in (y, y_test)]
    return Pictures(scaled(X), labels[0], scaled(X_test), labels[1])


def mlp() -> nn.Module:
    """784-128-128-10 with ReLU: 118,282 weights."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )  # fmt: skip


def small_cnn(activation: Callable[[], nn.Module] = nn.Tanh) -> nn.Module:
    """Two convolutions and two linear layers on 28 x 28 pixels: 26,010 weights."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=3), activation(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, stride=2), activation(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), activation(), nn.Linear(32, 10),
    )  # fmt: skip


def cnn5(activation: Callable[[], nn.Module] = nn.Tanh) -> nn.Module:
    """Two convolutions and three linear layers on 3 x 32 x 32 pixels: 62,006 weights."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 5), activation(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), activation(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), activation(), nn.Linear(120, 84), activation(), nn.Linear(84, 10),
    )  # fmt: skip


def cnn6_convolutions() -> nn.Module:
    """Three convolutions on 3 x 32 x 32 pixels with 32, 64 and 128 filters: 2,048 features."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    )  # fmt: skip


def cnn6_head(activation: Callable[[], nn.Module] = nn.Tanh) -> nn.Module:
    """Three linear layers on those features: 256,894 weights."""
    return nn.Sequential(
        nn.Linear(2048, 120), activation(), nn.Linear(120, 84), activation(), nn.Linear(84, 10)
    )  # fmt: skip


def accuracy(model: nn.Module, X: torch.Tensor, y: torch.Tensor) -> float:
    with torch.no_grad():
        guesses = torch.cat([model(part).argmax(1) for part in X.split(250)])
    return float((guesses == y).float().mean())


class Curve:
    """Test and training accuracy every so many steps, and at the end that of a moving average of all iterates.

        a_t = d_t a_{t-1} + (1 - d_t) w_t,      d_t = min(decay, t / (t + 10))

    The average costs nothing: it is computed from iterates that are covered already.
    """

    def __init__(self, pictures: Pictures, model: nn.Module, every: float, decay: float = 0.99) -> None:
        self.pictures, self.every, self.decay = pictures, every, decay
        # the channels of a pixel side by side: several times as fast
        self._scored = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._average, self._due = np.zeros(0), every
        self.steps: list[int] = []
        self.last: list[float] = []
        self.training: list[float] = []
        self.averaged = 0.0

    def __call__(self, moment: Moment) -> None:
        t, w = moment.step, moment.weights()
        d = min(self.decay, t / (t + 10)) if len(self._average) else 0.0
        self._average = d * self._average + (1 - d) * w if d else w
        if t + 0.5 >= self._due or t == moment.planned:
            self._due += self.every
            if self.steps and t - self.steps[-1] < self.every / 2:
                # the last step, hardly after the last point
                self.steps.pop()
                self.last.pop()
                self.training.pop()
            self.steps.append(t)
            self.last.append(self._score(w))
            self.training.append(self._score_training(w))
        if t == moment.planned:
            self.averaged = self._score(self._average)

    def _score_training(self, w: NDArray[np.float64]) -> float:
        load_parameters(self._scored, w)
        return accuracy(self._scored, self.pictures.X[:_SCORED], self.pictures.y[:_SCORED])

    def _score(self, w: NDArray[np.float64]) -> float:
        load_parameters(self._scored, w)
        return accuracy(self._scored, self.pictures.X_test, self.pictures.y_test)


def train(
    network: Callable[[], nn.Module],
    pictures: Pictures,
    method: AnyMethod,
    budget: Budget,
    seed: int,
    epochs: float,
    batch_size: int,
    decay: float = 0.99,
    points: float = 1.0,
) -> dict[str, Any]:
    """One seeded run by `sordino.torch.fit`: accuracy `points` times an epoch, and what the certificate says."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    n, model = len(pictures.y), network()
    curve = Curve(pictures, network(), n / batch_size / points, decay)
    start = time.process_time()
    fitted = fit(
        model,
        nn.CrossEntropyLoss(reduction="none"),
        (pictures.X, pictures.y),
        method=method,
        budget=budget,
        epochs=epochs,
        batch_size=batch_size,
        records=n if budget.relation == "add_remove" else None,
        callbacks=[curve],
        random_state=seed,
    )
    noise = fitted.certificate.plan["noise"]
    return {
        "steps": curve.steps,
        "accuracy": curve.last,
        "training accuracy": curve.training,
        "averaged": curve.averaged,
        "epsilon": fitted.certificate.epsilon,
        "noise multiplier": noise["std"] / noise["sensitivity"],
        "cpu seconds": time.process_time() - start,
    }


def mean_and_spread(curves: Sequence[Sequence[float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of curves of equal length; a lone curve has no deviation."""
    stacked = np.array(curves)
    return stacked.mean(axis=0), stacked.std(axis=0, ddof=1) if len(stacked) > 1 else np.zeros(stacked.shape[1])
