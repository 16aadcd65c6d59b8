"""Records in files, larger than memory if need be, in the place of X: `PrivateLogisticRegression(..).fit(table)`."""

from sordino.oracle.files.arrays import Arrays
from sordino.oracle.files.table import Table

__all__ = ["Arrays", "Table"]
