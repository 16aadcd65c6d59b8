"""Tables, described in public, as rows of bounded norm.

A schema needs nothing; to read a file or to encode a table needs pyarrow, and a data frame Narwhals (the `tables`
extra).
"""

from sordino.tabular.columns import Boolean, Category, ClassTarget, Date, Number, NumberTarget, Ordinal
from sordino.tabular.curves import Curves
from sordino.tabular.schema import Schema

__all__ = ["Boolean", "Category", "ClassTarget", "Curves", "Date", "Number", "NumberTarget", "Ordinal", "Schema"]
