"""Tables of numbers, categories and booleans, described in public, as rows of bounded norm.

`sordino.tabular.read` and `sordino.tabular.encode` need pyarrow (the `cli` extra); a schema does not.
"""

from sordino.tabular.schema import Boolean, Category, ClassTarget, Number, NumberTarget, Schema

__all__ = ["Boolean", "Category", "ClassTarget", "Number", "NumberTarget", "Schema"]
