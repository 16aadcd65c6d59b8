"""What the linear estimators share: from validated arrays to what `train` returns."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from scipy.sparse import issparse

from sordino import wire
from sordino.arrays import Array
from sordino.budget import Budget, Relation
from sordino.estimators.persons import Whose
from sordino.estimators.releases import count_release
from sordino.given import require_choice, require_strength
from sordino.inference import WithIntervals
from sordino.linear_task import LinearTask
from sordino.losses import Squared, unweighted
from sordino.losses.kinked import Kinked
from sordino.methods import (
    ConstantModel,
    Method,
    NoisyGradientDescent,
    ObjectivePerturbation,
    RepeatedSelection,
    Setting,
    SufficientStatistics,
)
from sordino.methods.protocol import AnyMethod, planned, require_settings
from sordino.methods.settings import require_delta
from sordino.oracle.files.source import Source
from sordino.oracle.rows import Rows
from sordino.oracle.statistics import FoundValues
from sordino.oracle.uncoded import UncodedRecords
from sordino.planner import choose, smoothing_for
from sordino.prepare import (
    KEEPS_ZEROS,
    Categories,
    ClassBalance,
    Discovered,
    PreparationStep,
    Prepared,
    default_preparation,
    far_on_words,
    left_for_training,
    only_a_constant,
    share_of,
    starting_score,
    steps_of,
)
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.tabular.schema import Schema
from sordino.train import PrivacyWarning, Trained, public_count, train


@dataclass(frozen=True, eq=False)
class Uncoded:
    """A table with columns whose values are to be discovered: how many of each at most, a count of all of them, and
    rows and coded targets once they are known."""

    most: Mapping[str, int]
    count: Callable[[], Mapping[str, Mapping[str, int]]]
    rows: Callable[[FoundValues], tuple[Any, Array | None]]


@dataclass(frozen=True)
class Settings:
    """The parameters every linear estimator has."""

    epsilon: float
    delta: float | None
    row_norm: float | None
    method: AnyMethod | str
    prepare: Any
    relation: str
    records: int | None
    fit_intercept: bool
    l2: float
    intervals: bool
    random_state: int | None

    def __post_init__(self) -> None:
        require_choice("fit_intercept", self.fit_intercept)
        require_choice("intervals", self.intervals)
        require_strength("l2", self.l2)

    @staticmethod
    def of(estimator: Any) -> Settings:
        return Settings(**{name: getattr(estimator, name) for name in Settings.__dataclass_fields__})

    def rows(self, schema: Schema | None, intercept: float) -> Rows:
        """With a constant column of this size, where there is one."""
        return Rows(row_bound(self.row_norm, schema), intercept if self.fit_intercept else 0.0)


def row_bound(row_norm: float | None, schema: Schema | None) -> float:
    """The bound on a row's norm: given, or a schema's."""
    if schema is None:
        # what is no number is refused by Rows
        return row_norm  # type: ignore[return-value]
    if row_norm is not None:
        raise ValueError("the schema has the bound on a row's norm: leave row_norm out.")
    return schema.row_norm


def stated(settings: Any, actual: int, unit: str = "record") -> tuple[int, Budget]:
    """The number of records, or persons, as the problem states it, and the budget for so many."""
    records = public_count(settings.records, actual, Relation(settings.relation), unit)
    if records < 2:
        raise ValueError(f"n_samples={records}: a model of one {unit} would be about that {unit}; give more.")
    return records, Budget.of(settings.epsilon, settings.delta, settings.relation, records)


def fit_linear(
    X: Any,
    y: Array | None,
    task: LinearTask,
    settings: Settings,
    whose: Whose,
    enforced: tuple[str, ...] = (),
    assumed: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    weights: Array | None = None,
    balance: ClassBalance | None = None,
    uncoded: Uncoded | None = None,
    known_by: Any = None,
) -> Trained:
    """What `train` returns. Records in files have their targets with them: `y` is None.

    `weights` are those of records, from 0 to 1; `balance` is a step that finds out those of classes.
    Where categories are to be discovered, X is what rows are as long as none is known. `known_by` are rows by which the
    records are known again in a model of another kind, where X would not do.
    """
    randomness = randomness_of(settings.random_state)
    persons = whose.persons(randomness)
    if uncoded is not None and persons is not None:
        raise ValueError(
            "categories are discovered where records are protected, and `person` protects persons: list the values of "
            "the columns with `discover` in the schema."
        )
    if persons is None:
        records, budget = stated(settings, X.shape[0])
    else:
        records, budget = stated(settings, len(persons), "person")
    problem = task.problem(records, X.shape[1], whose.unit, budget)
    stays_sparse = X.sparse if isinstance(X, Source) else issparse(X)
    intercept, unknown = task.rows.has_intercept, 0 if uncoded is None else len(uncoded.most)
    if settings.intervals:
        if weights is not None or balance is not None:
            raise ValueError("intervals are known to be right where every record counts one: leave the weights out.")
        if unknown:
            raise ValueError(
                "intervals and a discovery of categories do not go together: list the values of the schema's columns "
                "that have `discover`."
            )
        method = with_intervals(settings.method, settings.prepare, problem, budget)
    else:
        method = prepared_method(
            settings.method,
            settings.prepare,
            problem,
            budget,
            intercept,
            stays_sparse,
            balance,
            unknown,
            weights is not None,
        )
    # after what can be refused, which a plan may be: a refusal is no release
    if uncoded is None:
        planned(method, problem, budget)
    warn_of_earlier_releases(X if known_by is None else known_by)
    said: Any = {"rows": task.rows, "enforced": enforced, "assumed": assumed, "notes": notes}
    if uncoded is None:
        oracle = task.oracle(X, y, problem, budget.relation, persons, weights)
        return train(problem, budget, method, oracle, randomness, **said)
    asked = UncodedRecords(
        uncoded.most,
        budget.relation,
        uncoded.count,
        lambda found: task.oracle(*uncoded.rows(found), problem, budget.relation, None, weights),
    )
    return train(problem, budget, method, asked, randomness, **said)


def prepared_method(
    method: AnyMethod | str,
    prepare: Any,
    problem: Problem,
    budget: Budget,
    intercept: bool = True,
    stays_sparse: bool = False,
    balance: ClassBalance | None = None,
    unknown: int = 0,
    weighted: bool = False,
) -> AnyMethod:
    """The method, on rows that are prepared first where `prepare` says so, and on classes that are balanced.

    "auto" prepares rows for the method "auto" where that is worth its price; a method with settings of its own is run
    as it stands. The categories of `unknown` columns are to be discovered before, and records may be `weighted`.
    """
    if unknown:
        first, rest = _discovery(prepare)
        left = left_for_training(problem, budget, first.share)
        inner = prepared_method(method, rest, problem, left, intercept, stays_sparse, balance, weighted=weighted)
        return Discovered(inner, first, unknown)
    steps: tuple[PreparationStep, ...]
    if prepare is None:
        steps = ()
    elif isinstance(prepare, str) and prepare == "auto":
        # where records or classes count differently, a mean of the targets is not theirs
        alike = balance is None and not weighted
        steps = ()
        if isinstance(method, str) and method == "auto":
            if alike and only_a_constant(problem, budget, intercept):
                return ConstantModel()
            begun = starting_score(problem, budget, intercept, stays_sparse) if alike else ()
            steps = (*begun, *default_preparation(problem, budget, intercept, stays_sparse))
    else:
        categories, steps = steps_of(prepare)
        if categories is not None:
            raise ValueError(
                "prepare names 'categories', and none is to be discovered: write discover = 20 instead of a column's "
                "`values` in the schema, or leave it out."
            )
        if stays_sparse and not all(isinstance(step, KEEPS_ZEROS) for step in steps):
            raise ValueError(
                "the rows are sparse, and a centre or whitening would make them dense: 'frequent columns', 'norm "
                "quantile' and 'column scales' keep zeros, and X.toarray() makes dense rows."
            )
    if balance is not None:
        require_delta("counting classes", budget, "give class_weight as public numbers, or a delta")
        steps = (balance, *steps)
    if not steps:
        return method_for(method, problem, budget)
    left = left_for_training(problem, budget, share_of(steps))
    if isinstance(method, str) and method == "auto":
        # Gaussian releases share a budget to the last bit; objective perturbation needs a search, and wins nothing here
        chosen = choose(problem, left, without=(ObjectivePerturbation,))
        return Prepared(far_on_words(chosen, steps, problem, budget), steps, intercept)
    return Prepared(method_for(method, problem, left), steps, intercept)


def with_intervals(method: AnyMethod | str, prepare: Any, problem: Problem, budget: Budget) -> AnyMethod:
    """The method with what its intervals need; "auto" is the one with the narrowest."""
    if not (prepare is None or (isinstance(prepare, str) and prepare == "auto")):
        raise ValueError(
            "intervals and a preparation of the rows do not go together: rows that it scales down are other rows, and "
            "intervals would be about a model of those. Use prepare=None."
        )
    if isinstance(method, str) and method == "auto":
        return WithIntervals(SufficientStatistics() if isinstance(problem.loss, Squared) else ObjectivePerturbation())
    return WithIntervals(method_for(method, problem, budget))


def _discovery(prepare: Any) -> tuple[Categories, Any]:
    """The settings of a discovery, and what else is prepared."""
    if isinstance(prepare, str) and prepare == "auto":
        return Categories(), prepare
    categories, steps = (None, ()) if prepare is None else steps_of(prepare)
    if categories is None:
        raise ValueError(
            "the schema leaves values to be discovered, which is paid for, and prepare does not say so: name "
            "'categories' first, use prepare='auto', or list the values."
        )
    return categories, list(steps) or None


def method_for(method: AnyMethod | str, problem: Problem, budget: Budget) -> AnyMethod:
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
    require_settings(method)
    if not isinstance(method, Method):
        raise TypeError(
            f"method is {wire.shown(method)}: it must be 'auto' or a method such as NoisyGradientDescent() or "
            "OutputPerturbation()."
        )
    return method


def _searched(setting: Setting, problem: Problem, budget: Budget) -> Setting:
    """A search is accounted by Renyi divergences, so its "auto" is a method that has them and not the planner's."""
    method = setting.method
    if isinstance(method, str) and method == "auto":
        kinked = isinstance(unweighted(problem.loss), Kinked)
        method = smoothing_for(budget) if kinked else NoisyGradientDescent()
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
