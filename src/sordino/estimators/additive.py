"""Additive models: a curve for every number instead of a slope, on public knots.

They are linear models of the rows that `tabular.expansion` makes, so methods, certificates and model files are theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from sordino import wire
from sordino.arrays import Array
from sordino.estimators.cells import require_numbers
from sordino.estimators.classifiers import PrivateLogisticRegression
from sordino.estimators.regressors import PrivateLinearRegression
from sordino.estimators.tables import ReadsTables
from sordino.methods.protocol import AnyMethod
from sordino.oracle.files.source import Coding, Source
from sordino.oracle.statistics import FoundValues
from sordino.problem import Contribution
from sordino.tabular.columns import ClassTarget, Number, NumberTarget, Target
from sordino.tabular.curves import Curves
from sordino.tabular.schema import Schema

Ranges = tuple[float, float] | Sequence[tuple[float, float]] | Mapping[str, tuple[float, float]]


class _Additive(ReadsTables):
    """Tables by a schema, or arrays by the ranges of their columns, which make a schema."""

    row_norm: float | None = None
    weight_bound: float | None = None
    class_weight: Any = None
    ranges: Ranges | None
    pieces: int | None
    interactions: Sequence[tuple[str, str]]

    @property
    def encoded_by(self) -> Schema | None:
        if self.schema is None:
            return getattr(self, "_by_ranges", None)
        if isinstance(self.schema, Schema) and self.schema.curves is None:
            return replace(self.schema, curves=self._curves())
        if self.pieces is not None or self.interactions:
            raise ValueError("the schema has curves of its own: leave pieces and interactions out.")
        return self.schema

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        person: Any = None,
        records_per_person: int | None = None,
        contribution: Contribution = "mean",
        typical_records: float | None = None,
    ) -> Self:
        """`X` is a table with a schema, whose own column is the target unless `y` is given, or with ranges an array or
        a data frame of numbers. `person` says whose each record is, as in `PrivateLogisticRegression`.
        """
        if (self.schema is None) == (self.ranges is None):
            raise ValueError(
                f"schema and ranges are {'both given' if self.schema is not None else 'missing'}: give a schema for a "
                "table, or for an array ranges=(low, high) of its numbers, which do not come from the records."
            )
        if self.ranges is not None:
            if y is None or isinstance(X, Source):
                raise ValueError("ranges are for an array or data frame X with its targets y; a table needs a schema.")
            self._by_ranges = self._schema_of(X, person)
        fitted: Self = super().fit(  # type: ignore[misc]
            X,
            y,
            person=person,
            records_per_person=records_per_person,
            contribution=contribution,
            typical_records=typical_records,
        )
        return fitted

    def effects(self) -> tuple[Any, ...]:
        """What every column and every interaction adds to the score, at its knots or values (`tabular.effects`)."""
        from sordino.tabular.effects import effects

        check_is_fitted(self)
        return effects(self._schema(), self.coef_)  # type: ignore[attr-defined]

    def plot(self, column: str, ax: Any = None) -> Any:
        """The effect of a column, or of an interaction as "one x other", on axes of matplotlib, which are returned."""
        from sordino.tabular.effects import draw

        found = {effect.name: effect for effect in self.effects()}
        if column not in found:
            raise ValueError(f"column is {wire.shown(column)}: known are {', '.join(map(repr, found))}.")
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ModuleNotFoundError as error:
                raise ModuleNotFoundError(
                    f"{error.name} is needed to draw: pip install 'sordino[report]'.", name=error.name
                ) from None
            ax = plt.subplots()[1]
        draw(found[column], ax, tuple(map(str, getattr(self, "classes_", ()))))
        return ax

    def _records(self, X: Any, y: Any, coding: Coding, found: FoundValues | None = None) -> tuple[Any, Array | None]:
        return super()._records(self._table(X), y, coding, found)

    def _rows(self, X: Any) -> Any:
        return super()._rows(self._table(X))

    def _known_by(self, X: Any) -> Any:
        """Rows without curves, as a linear model has them: numbers as they are, or what a schema makes of a table."""
        from sordino.tabular.encode import encode_features, numbers_in
        from sordino.tabular.frames import to_arrow

        if isinstance(X, Source):
            return None
        schema = self._schema()
        if self.schema is None and _is_array(X):
            return np.asarray(X, dtype=np.float64)
        if self.schema is None and not isinstance(X, Mapping):
            # of the columns that have a range alone: others may be texts, whose cells NumPy would quote
            table = to_arrow(X, list(schema.columns)).combine_chunks()
            return np.column_stack([numbers_in(name, table[name].chunk(0)) for name in schema.columns])
        return encode_features(replace(schema.with_values({}), curves=None), self._table(X))

    def _table(self, X: Any) -> Any:
        """An array by the names that its columns have in the schema."""
        if isinstance(X, Source):
            plain = getattr(X, "schema", None) is not None and X.schema == self.schema  # type: ignore[attr-defined]
            return replace(X, schema=self._schema()) if plain else X  # type: ignore[type-var]
        names = list(self._schema().columns)
        if sparse.issparse(X) or not _is_array(X) or names != _numbered(len(names)):
            return X
        require_numbers("X", X)
        numbers = np.asarray(X, dtype=np.float64)
        if numbers.shape[1] != len(names):
            raise ValueError(
                f"X has {numbers.shape[1]} features, but {type(self).__name__} is expecting {len(names)} features as "
                "input."
            )
        return dict(zip(names, numbers.T, strict=True))

    def _schema_of(self, X: Any, person: Any) -> Schema:
        if sparse.issparse(X):
            raise TypeError("Sparse data was passed for X: an additive model needs dense numbers; use X.toarray().")
        if _is_array(X):
            require_numbers("X", X)
            names = _numbered(np.shape(X)[1])
        else:
            from sordino.tabular.frames import column_kinds

            named = X if isinstance(X, Mapping) else column_kinds(X)
            names = [str(name) for name in named if not (isinstance(person, str) and name == person)]
        columns = dict(self._columns(names))
        target = "target"
        while target in columns:
            target += "_"
        return Schema(self._target(target), columns, curves=self._curves())

    def _columns(self, names: list[str]) -> Iterator[tuple[str, Number]]:
        given: Any = self.ranges
        if isinstance(given, Mapping):
            pairs = [(str(name), pair) for name, pair in given.items()]
        elif _is_pair(given):
            pairs = [(name, given) for name in names]
        else:
            pairs = list(zip(names, given, strict=False)) if isinstance(given, Sequence | np.ndarray) else []
            if len(pairs) != len(names) or len(given) != len(names):
                raise ValueError(
                    f"ranges is {wire.shown(given)}: give (low, high) for all columns, or one such pair for each of "
                    f"the {len(names)}, or a dictionary of them by column."
                )
        for name, pair in pairs:
            if not _is_pair(pair):
                raise ValueError(f"the range of {wire.shown(name)} is {wire.shown(pair)}: give (low, high).")
            yield name, Number(float(pair[0]), float(pair[1]))

    def _curves(self) -> Curves:
        return Curves(16 if self.pieces is None else self.pieces, self.interactions)  # type: ignore[arg-type]

    def _target(self, name: str) -> Target:
        raise AssertionError("a subclass says what is predicted")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = False
        return tags


class PrivateAdditiveClassifier(_Additive, PrivateLogisticRegression):  # type: ignore[misc]  # weighs no records
    """A generalised additive model of classes whose curves are (epsilon, delta)-differentially private.

    The score is a sum of one function per column: of a number a curve of straight pieces between knots that divide its
    public range evenly, of a category a value each. Where the records say little a curve is nearly a line.

    Parameters
    ----------
    schema : a public description of a table (`sordino.Schema`), as in `PrivateLogisticRegression`.
    ranges : for arrays and data frames of numbers instead: a public range (low, high) of all columns, a list with one
        for each, or a dictionary by column. Numbers beyond it are moved to its end.
    pieces : of a curve, a power of two; `None` is 16, or what a schema with curves of its own says.
    interactions : pairs of columns, by a public list, whose effects depend on each other; an array's columns are called
        "x0", "x1" and so on.
    classes : with ranges, the labels. A schema brings its own.

    The other parameters and the attributes are those of `PrivateLogisticRegression`; `coef_` is of the curves' columns,
    `effects()` has the curves themselves, and `plot(column)` draws one.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        schema: Schema | None = None,
        ranges: Ranges | None = None,
        pieces: int | None = None,
        interactions: Sequence[tuple[str, str]] = (),
        classes: Sequence[Any] | None = None,
        method: AnyMethod | str = "auto",
        prepare: Any = "auto",
        relation: str = "replace_one",
        records: int | None = None,
        fit_intercept: bool = True,
        l2: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.ranges = ranges
        self.pieces = pieces
        self.interactions = interactions
        self.classes = classes
        self.method = method
        self.prepare = prepare
        self.relation = relation
        self.records = records
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.random_state = random_state

    def _target(self, name: str) -> Target:
        if self.classes is None:
            raise ValueError("classes is required with ranges: the labels, which are not read from the records.")
        return ClassTarget(name, tuple(self.classes))


class PrivateAdditiveRegressor(_Additive, PrivateLinearRegression):  # type: ignore[misc]  # weighs no records
    """An additive model of a number, by least squares, whose curves are (epsilon, delta)-differentially private.

    `target_range` is a range (low, high) of y that does not come from the data: required with ranges, a schema brings
    its own. Targets are clipped to it, and predictions stay inside. `clip` is that of `PrivateLinearRegression`, the
    other parameters and the attributes are those of `PrivateAdditiveClassifier`.
    """

    target_bound = None

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        schema: Schema | None = None,
        ranges: Ranges | None = None,
        pieces: int | None = None,
        interactions: Sequence[tuple[str, str]] = (),
        target_range: tuple[float, float] | None = None,
        clip: float | None = None,
        method: AnyMethod | str = "auto",
        prepare: Any = "auto",
        relation: str = "replace_one",
        records: int | None = None,
        fit_intercept: bool = True,
        l2: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.ranges = ranges
        self.pieces = pieces
        self.interactions = interactions
        self.target_range = target_range
        self.clip = clip
        self.method = method
        self.prepare = prepare
        self.relation = relation
        self.records = records
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.random_state = random_state

    def _target(self, name: str) -> Target:
        if not _is_pair(self.target_range):
            raise ValueError(
                f"target_range is {wire.shown(self.target_range)}: with ranges a pair (low, high) is required, a range "
                "of y that does not come from the data (targets are clipped to it)."
            )
        low, high = self.target_range  # type: ignore[misc]
        return NumberTarget(name, float(low), float(high))


def _is_array(X: Any) -> bool:
    """Of numbers without names of columns."""
    return isinstance(X, np.ndarray | list | tuple)


def _numbered(columns: int) -> list[str]:
    return [f"x{place}" for place in range(columns)]


def _is_pair(given: Any) -> bool:
    try:
        low, high = given
        return not isinstance(given, str | Mapping) and all(
            np.ndim(end) == 0 and float(end) == end for end in (low, high)
        )
    except (TypeError, ValueError):
        return False
