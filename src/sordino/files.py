"""Records in files, larger than memory if need be, in the place of X: `PrivateLogisticRegression(..).fit(table)`."""

from typing import TYPE_CHECKING, Any

from sordino.oracle.files.arrays import Arrays
from sordino.oracle.files.table import Table

if TYPE_CHECKING:
    from sordino.oracle.files.encoded import EncodedTable

__all__ = ["Arrays", "EncodedTable", "Table"]


def __getattr__(name: str) -> Any:
    # needs pyarrow, and matrices in .npy files do not
    if name != "EncodedTable":
        raise AttributeError(f"module 'sordino.files' has no attribute {name!r}")
    from sordino.oracle.files.encoded import EncodedTable

    return EncodedTable
