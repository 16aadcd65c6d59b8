"""For estimators with a `schema`: tables in the place of X, encoded record by record, at `fit` and at `predict`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from sordino.arrays import Array
from sordino.estimators.linear import Uncoded
from sordino.oracle.files.source import Coding, Source
from sordino.oracle.statistics import FoundValues
from sordino.sentences import SCHEMA_PUBLIC
from sordino.tabular.columns import ClassTarget, NumberTarget
from sordino.tabular.schema import Schema, require_schema


class ReadsTables:
    """A data frame of pandas or Polars, an Arrow table, a dictionary of columns, or `sordino.files.EncodedTable`."""

    schema: Schema | None
    feature_names_in_: Any
    n_features_in_: int

    def _class_target(self) -> ClassTarget:
        target = self._schema().target
        if not isinstance(target, ClassTarget):
            raise ValueError(
                f"the schema's target is a number, and {type(self).__name__} predicts classes: list the target's "
                "`classes`, or take a regressor."
            )
        return target

    def _number_target(self) -> NumberTarget:
        target = self._schema().target
        if not isinstance(target, NumberTarget):
            raise ValueError(
                f"the schema's target has classes, and {type(self).__name__} predicts a number: give the target a "
                "`low` and a `high`, or take a classifier."
            )
        return target

    @property
    def encoded_by(self) -> Schema | None:
        """The schema by which tables become rows; None where rows are given."""
        return self.schema

    def _schema(self) -> Schema:
        return require_schema(self.encoded_by)

    def _records(self, X: Any, y: Any, coding: Coding, found: FoundValues | None = None) -> tuple[Any, Array | None]:
        """Rows and coded targets: those of the table's own column, or `y` in its place.

        Of values that are to be discovered those that were `found`; none before.
        """
        from sordino.tabular.encode import encode_codes, encode_features

        schema = self._schema().with_values({} if found is None else found)
        self.feature_names_in_ = np.array(list(schema.columns), dtype=object)
        self.n_features_in_ = len(schema.columns)
        if isinstance(X, Source):
            return self._from_files(X, y, coding, schema)
        targets = X if y is None else {schema.target.column: column_or_1d(y)}
        return encode_features(schema, X), coding.encoded(encode_codes(schema, targets))

    def _uncoded(self, X: Any, y: Any, coding: Coding) -> Uncoded | None:
        """What there is to discover; None where a schema lists all values, or there is none."""
        unknown = () if self.encoded_by is None else self._schema().unknown
        if not unknown:
            return None
        columns: Any = self._schema().columns
        most = {name: columns[name].discover for name in unknown}
        return Uncoded(most, lambda: _counts(X, unknown), lambda found: self._records(X, y, coding, found))

    def _known_by(self, X: Any) -> Any:
        """Rows by which another model's fit would know these records; None where they are those of this one."""
        return None

    def _from_files(self, X: Source, y: Any, coding: Coding, schema: Schema) -> tuple[Any, Array | None]:
        from sordino.oracle.cluster import Spread
        from sordino.oracle.files.encoded import EncodedTable

        require_own_targets(y)
        table = X.source if isinstance(X, Spread) else X
        if not (isinstance(table, EncodedTable) and table.schema == self._schema()):
            raise ValueError(
                "records in files are encoded by the schema too: give EncodedTable(path, schema) with the same schema."
            )
        if schema != self._schema():
            if isinstance(X, Spread):
                raise ValueError("categories are not discovered on a cluster: list the values in the schema.")
            X = replace(table, schema=schema)
        source = X.coded(coding)
        found = source.held() if isinstance(source, EncodedTable) else None
        if found is not None:
            return found
        source.check()
        return source, None

    def _rows(self, X: Any) -> Any:
        from sordino.tabular.encode import encode_features

        return encode_features(self._schema() if self.schema_ is None else self.schema_, X)

    @property
    def schema_(self) -> Schema | None:
        """The schema with the values that were discovered, where it left some to be; None where there is no schema."""
        schema, found = self.encoded_by, getattr(self, "categories_", None)
        return schema if schema is None or found is None else schema.with_values(found)

    def _schema_public(self) -> tuple[str, ...]:
        return () if self.encoded_by is None else (SCHEMA_PUBLIC(schema=self._schema().digest[:16]),)


def _counts(X: Any, columns: tuple[str, ...]) -> Mapping[str, Mapping[str, int]]:
    from sordino.tabular.discovery import count_values
    from sordino.tabular.frames import to_arrow

    if isinstance(X, Source):
        return count_values(X.files.read(list(columns)), columns)  # type: ignore[attr-defined]
    return count_values(to_arrow(X, list(columns)).to_batches(), columns)


def require_own_targets(y: Any) -> None:
    """For records in files."""
    if y is not None:
        raise ValueError("records in files bring their targets along, and y was given too: leave it out.")
