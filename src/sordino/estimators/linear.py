"""What the linear estimators share: from validated arrays to trained weights and a certificate."""

from __future__ import annotations

import numbers
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.budget import Budget, Relation
from sordino.domains import Domain, Everywhere
from sordino.estimators.releases import count_release
from sordino.losses import Loss
from sordino.losses.kinked import Kinked
from sordino.methods import Method, NoisyGradientDescent, RepeatedSelection, Setting
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.penalties import Ridge
from sordino.planner import choose, smoothing_for
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.train import PrivacyWarning, Trained, public_count, train

INTERCEPT = 0.4
"""The constant column beside features of joint norm 0.92: the intercept learns, the features lose little."""


@dataclass(frozen=True)
class Settings:
    """The parameters every linear estimator has."""

    epsilon: float
    delta: float | None
    row_norm: float | None
    method: Any
    relation: str
    records: int | None
    fit_intercept: bool
    l2: float
    random_state: int | None


def fit_linear(
    X: Any,
    y: NDArray[np.float64] | None,
    loss: Loss,
    settings: Settings,
    domain: Domain | None = None,
    enforced: tuple[str, ...] = (),
    assumed: tuple[str, ...] = (),
) -> tuple[NDArray[np.float64], NDArray[np.float64], Trained]:
    """Coefficients (outputs x features) and intercepts for raw rows, and what `train` returned.

    Records in files have their targets with them: `y` is None.
    """
    rows = Rows(settings.row_norm, INTERCEPT if settings.fit_intercept else 0.0)  # type: ignore[arg-type]
    relation = Relation(settings.relation)
    records = public_count(settings.records, X.shape[0], relation)
    if records < 2:
        raise ValueError(f"n_samples={records}: a model of one record would be about that record; give more.")
    delta = 1 / records**2 if settings.delta is None else settings.delta
    budget = Budget(settings.epsilon, delta, relation)
    problem = Problem(
        records=records,
        features=X.shape[1] + rows.has_intercept,
        loss=loss,
        penalty=Ridge(settings.l2),
        domain=domain or Everywhere(),
    )
    method, randomness = method_for(settings.method, problem, budget), randomness_of(settings.random_state)
    # after what can be refused: a refusal is no release
    warn_of_earlier_releases(X)
    trained = train(
        problem,
        budget,
        method,
        linear_oracle(X, y, problem, rows, budget.relation),
        randomness,
        rows=rows,
        enforced=enforced,
        assumed=assumed,
    )
    coefficients, intercepts = rows.to_raw(trained.weights, loss.outputs)
    return coefficients, intercepts, trained


def method_for(method: Any, problem: Problem, budget: Budget) -> Any:
    """The method itself, or for "auto" the one the planner chooses on public facts."""
    if isinstance(method, str):
        if method != "auto":
            raise ValueError(
                f"method is {method!r}: it must be 'auto' or a method such as NoisyGradientDescent() or "
                "OutputPerturbation()."
            )
        return choose(problem, budget)
    if isinstance(method, RepeatedSelection):
        return replace(method, settings=tuple(_searched(setting, problem, budget) for setting in method.settings))
    if not isinstance(method, Method):
        raise TypeError(f"method is a {type(method).__name__}: it must be 'auto' or a method with plan and run.")
    return method


def _searched(setting: Setting, problem: Problem, budget: Budget) -> Setting:
    """A search is accounted by Renyi divergences, so its "auto" is a method that has them and not the planner's."""
    method = setting.method
    if isinstance(method, str) and method == "auto":
        method = smoothing_for(budget) if isinstance(problem.loss, Kinked) else NoisyGradientDescent()
    return replace(setting, method=method_for(method, problem, budget))


def randomness_of(random_state: int | None) -> Randomness:
    if random_state is None:
        return Randomness.system()
    if not isinstance(random_state, numbers.Integral):
        raise TypeError(
            f"random_state is a {type(random_state).__name__}: it must be None (noise from the operating system) or "
            "an integer seed, which is for tests and marks the certificate as not private."
        )
    return Randomness.seeded(int(random_state))


def require_own_targets(y: Any) -> None:
    """For records in files."""
    if y is not None:
        raise ValueError("records in files bring their targets along, and y was given too: leave it out.")


def warn_of_earlier_releases(X: Any) -> None:
    """Never in the certificate: how often records were released before depends on the records."""
    count = count_release(X)
    if count > 1:
        warnings.warn(
            f"This is release number {count} on these records, or on some of them, in this session. Each has its own "
            "certificate, and what they reveal adds up: trying settings (GridSearchCV and the like) is not free. "
            "Choose them on public data, or with PrivateSearch, whose guarantee covers the choice.",
            PrivacyWarning,
            stacklevel=4,
        )
