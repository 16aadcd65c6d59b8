"""Peers at the same guarantee, (epsilon, 1/n^2) replace-one, with their own defaults and the same public bounds.

DP-EBM (interpret-core) has sums of residuals that a record adds to by 1: noise for one record more or less. A replaced
record moves them by 2, so both of its parts get the epsilon at which the Gaussian that it calibrates has half the mu.
Its columns are the table's own: categories as categories, not as one-hot numbers.

diffprivlib offers epsilon with delta = 0, which is a stronger promise than is asked for here.

AdaSSP (Wang 2018) is written here, with thirds of mu^2 for three releases of rows x with |x| <= 1 and |y| <= 1:

    sum x x^T     one record moves it by sqrt 2 in the Frobenius norm
    sum x y       by 2
    lambda_min    by 1: sums with either of the two records lie between that of the others and 1 more

Opacus trains the perceptron below with its own engine, its Poisson batches and its hooks. Its accountants are for one
record more or less, so its noise multiplier (noise over the clip) comes from Sordino's accountant of Poisson sampling
under replace-one: twice the multiplier over the distance of two clips that a replaced record moves a sum by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from _tables import Split, Table
from scipy.special import softmax

from sordino import Budget
from sordino.privacy.accountants import gdp_epsilon, gdp_mu
from sordino.privacy.calibrate import calibrate
from sordino.privacy.events import Gaussian, PoissonSampled, repeat
from sordino.tabular import Category, ClassTarget, Number, NumberTarget, Schema
from sordino.tabular.columns import Column


class Peer(Protocol):
    def takes(self, table: Table) -> bool: ...
    def __call__(self, split: Split, epsilon: float) -> Any: ...


@dataclass(frozen=True, eq=False)
class Linear:
    coefficients: Any
    intercept: float

    def predict(self, X: Any) -> Any:
        return X @ self.coefficients + self.intercept


class AdaSSP:
    constant = 0.4

    def takes(self, table: Table) -> bool:
        return table.classes == 0

    def __call__(self, split: Split, epsilon: float) -> Linear:
        rng, (n, d) = np.random.default_rng(), split.X.shape
        norms = np.maximum(np.linalg.norm(split.X, axis=1, keepdims=True), split.row_norm)
        length = math.sqrt(1 - self.constant**2)
        x = np.column_stack([length * split.X / norms, np.full(n, self.constant)])
        mu = gdp_mu(epsilon, 1 / n**2) / math.sqrt(3)
        s = math.sqrt(2) / mu
        above = np.triu(rng.normal(0, s / math.sqrt(2), (d + 1, d + 1)), 1)
        noise = above + above.T + np.diag(rng.normal(0, s, d + 1))
        moments = x.T @ x
        least = max(np.linalg.eigvalsh(moments)[0] + rng.normal(0, 1 / mu) - 2 / mu, 0.0)
        ridge = max(0.0, s * math.sqrt(2 * (d + 1)) - least)
        with_targets = x.T @ split.y + rng.normal(0, 2 / mu, d + 1)
        w = np.linalg.solve(moments + noise + ridge * np.eye(d + 1), with_targets)
        return Linear(w[:-1] * length / split.row_norm, float(w[-1]) * self.constant)


@dataclass(frozen=True, eq=False)
class OnColumns:
    """A model of categories and numbers, for rows of one-hot blocks."""

    model: Any
    blocks: list[list[int]]

    def predict(self, X: Any) -> Any:
        return self.model.predict(columns(X, self.blocks))

    def predict_proba(self, X: Any) -> Any:
        return self.model.predict_proba(columns(X, self.blocks))


class DPEBM:
    most_columns = 30
    """Its boosting takes as many steps as columns times 300."""

    def takes(self, table: Table) -> bool:
        return table.classes in (0, 2) and table.X.shape[1] <= 500 and self.columns(table) <= self.most_columns

    @staticmethod
    @lru_cache
    def columns(table: Table) -> int:
        return len(one_hot_blocks(table.X))

    def __call__(self, split: Split, epsilon: float) -> OnColumns:
        from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

        blocks, delta = one_hot_blocks(split.X), 1 / len(split.y) ** 2
        binning, boosting = (gdp_epsilon(gdp_mu(part * epsilon, delta / 2) / 2, delta / 2) for part in (0.1, 0.9))
        settings: dict[str, Any] = {
            "epsilon": binning + boosting,
            "delta": delta,
            "bin_budget_frac": binning / (binning + boosting),
            "feature_types": ["nominal" if len(block) > 1 else "continuous" for block in blocks],
            "privacy_bounds": {at: (-1.0, 1.0) for at, block in enumerate(blocks) if len(block) == 1},
            "n_jobs": 1,
        }
        if split.classes:
            model = DPExplainableBoostingClassifier(**settings)
        else:
            model = DPExplainableBoostingRegressor(**settings, privacy_target_min=-1.0, privacy_target_max=1.0)
        return OnColumns(model.fit(columns(split.X, blocks), split.y), blocks)


def one_hot_blocks(X: Any) -> list[list[int]]:
    """Neighbouring columns of zeros and ones of which every row has one at most belong together."""
    flags = ((X == 0) | (X == 1)).all(axis=0)
    blocks: list[list[int]] = []
    for at in range(X.shape[1]):
        if blocks and flags[at] and flags[blocks[-1][0]] and X[:, [*blocks[-1], at]].sum(axis=1).max() <= 1:
            blocks[-1].append(at)
        else:
            blocks.append([at])
    return blocks


def schema_of(split: Split, blocks: list[list[int]]) -> Schema:
    """What `columns` gives, as somebody would describe it who knows the table's columns."""
    known: dict[str, Column] = {
        f"c{at}": Category(tuple(map(str, range(len(block) + 1)))) if len(block) > 1 else Number(-1.0, 1.0)
        for at, block in enumerate(blocks)
    }
    return Schema(
        ClassTarget("y", tuple(range(split.classes))) if split.classes else NumberTarget("y", -1.0, 1.0), known
    )


def columns(X: Any, blocks: list[list[int]]) -> Any:
    import pandas as pd

    made = {}
    for at, block in enumerate(blocks):
        one_hot = len(block) > 1
        made[f"c{at}"] = (
            (X[:, block] @ np.arange(1, len(block) + 1)).astype(int).astype(str) if one_hot else X[:, block[0]]
        )
    return pd.DataFrame(made)


class Diffprivlib:
    def takes(self, table: Table) -> bool:
        return not hasattr(table.X, "tocsr") and table.X.shape[1] <= 500

    def __call__(self, split: Split, epsilon: float) -> Any:
        from diffprivlib.models import LinearRegression, LogisticRegression

        if split.classes:
            model = LogisticRegression(epsilon=epsilon, data_norm=split.row_norm, max_iter=300)
        else:
            model = LinearRegression(epsilon=epsilon, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0))
        return model.fit(split.X, split.y)


@dataclass(frozen=True, eq=False)
class Network:
    """A network of PyTorch, for rows of numbers."""

    module: Any

    def predict(self, X: Any) -> Any:
        return self._outputs(X)[:, 0]

    def predict_proba(self, X: Any) -> Any:
        return softmax(self._outputs(X), axis=1)

    def _outputs(self, X: Any) -> Any:
        import torch

        with torch.no_grad():
            return self.module(torch.tensor(X, dtype=torch.float32)).double().numpy()


def perceptron(split: Split) -> tuple[Any, Any, Any]:
    """64 hidden units; the class of its loss; and the records as it takes them."""
    import torch
    from torch import nn

    module = nn.Sequential(nn.Linear(split.X.shape[1], 64), nn.Tanh(), nn.Linear(64, split.classes or 1))
    kind = nn.CrossEntropyLoss if split.classes else nn.MSELoss
    y = torch.tensor(split.y)
    return module, kind, (torch.tensor(split.X).float(), y.long() if split.classes else y.float()[:, None])


class Opacus:
    """Settings as its own pages have them: nobody may tune on private records.

    A clip of 1, 20 epochs, and batches of 256 (512 would be all records of the smallest tables). SGD with steps of .05
    is one of five optimisers that were tried, in one run each, on the test sets of five tables that are reported: a
    choice in Opacus' favour.
    """

    clip, step, epochs, batch = 1.0, 0.05, 20, 256

    def takes(self, table: Table) -> bool:
        return within_half_a_minute(table)

    def __call__(self, split: Split, epsilon: float) -> Network:
        import torch
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader, TensorDataset

        module, loss, records = perceptron(split)
        loader = DataLoader(TensorDataset(*records), batch_size=self.batch)
        budget, steps = Budget(epsilon, 1 / len(split.y) ** 2, "replace_one"), self.epochs * len(loader)
        multiplier = calibrate(lambda m: repeat(PoissonSampled(Gaussian(m), 1 / len(loader)), steps), budget)
        module, optimizer, loader = PrivacyEngine().make_private(
            module=module,
            optimizer=torch.optim.SGD(module.parameters(), lr=self.step),
            data_loader=loader,
            noise_multiplier=2 * multiplier,
            max_grad_norm=self.clip,
            poisson_sampling=True,
        )
        taken = 0
        for _ in range(self.epochs):
            for X, y in loader:
                optimizer.zero_grad()
                loss()(module(X), y).backward()
                optimizer.step()
                taken += 1
        assert taken == steps
        return Network(module.eval())


def within_half_a_minute(table: Table) -> bool:
    """Of Opacus on one core: a step has a part that does not depend on the columns."""
    n, d = table.X.shape
    return not hasattr(table.X, "tocsr") and n * (50 + d) <= 9e6


PEERS: dict[str, Peer] = {"DP-EBM": DPEBM(), "AdaSSP": AdaSSP(), "diffprivlib": Diffprivlib(), "Opacus": Opacus()}
