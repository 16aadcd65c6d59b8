"""A column of what is fitted on that is about a record and no feature of it: whose it is, or what it counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sordino.oracle.files.source import Source


@dataclass(frozen=True)
class ColumnRole:
    """What names a column, what every one of its cells holds, and whether that is a number."""

    parameter: str
    holds: str
    is_number: bool

    def taken(self, X: Any, name: str, has_schema: bool) -> tuple[Any, list[Any]]:
        """What is fitted on without the column, and its cells as Arrow arrays, in the order of the records.

        Where a schema says which columns are features, a table stays as it is.
        """
        if isinstance(X, Source):
            return X, self._of_files(X, name)
        if not has_schema and not hasattr(X, "columns"):
            raise self._without_names(f"X is a {type(X).__name__}, which")
        from sordino.tabular.frames import to_arrow

        cells = to_arrow(X, [name]).column(0).chunks
        if has_schema:
            return X, cells
        import narwhals as nw

        return nw.from_native(X, eager_only=True).drop(name).to_native(), cells

    def _of_files(self, X: Any, name: str) -> list[Any]:
        from sordino.oracle.cluster import Spread

        source = X.source if isinstance(X, Spread) else X
        files = getattr(source, "files", None)
        if files is None:
            raise self._without_names(type(source).__name__)
        if name in getattr(source, "names", ()):
            raise ValueError(
                f"{self.parameter} names a column that is among the features: list the others in `features`, because "
                f"its cells hold every record's {self.holds}, and that is no feature."
            )
        if self.is_number:
            # written as the numbers of the features are, with a decimal comma or without
            kinds = replace(files.kinds, numbers=frozenset((*files.kinds.numbers, name)))
            files = replace(files, kinds=kinds)
        return [piece.column(0) for piece in files.read([name])]

    def _without_names(self, what: str) -> ValueError:
        return ValueError(
            f"{self.parameter} names a column, and {what} has no columns with names: give an array with one "
            f"{self.holds} for every record."
        )


PERSON = ColumnRole("person", "identifier", is_number=False)
WEIGHT = ColumnRole("sample_weight", "weight", is_number=True)
