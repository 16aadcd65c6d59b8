"""Oracles hold the records and answer queries about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sordino.budget import Relation

if TYPE_CHECKING:
    from sordino.oracle.protocol import LinearOracle
    from sordino.oracle.rows import Rows
    from sordino.problem import Problem


def linear_oracle(
    X: Any, y: Any, problem: Problem, rows: Rows, relation: Relation = Relation.REPLACE_ONE
) -> LinearOracle:
    """The oracle of a linear model, by what holds the records.

    Sparse for a SciPy sparse matrix or array, else dense. Records in files or on a cluster have their targets with
    them, so that `y` is None: they are read as they are needed, or asked for where they are.
    """
    # imported here because the compiler behind the kernels takes a while to load
    from scipy.sparse import issparse

    from sordino.oracle.files.source import Source

    if isinstance(X, Source):
        from sordino.oracle.cluster import ClusterOracle, Spread
        from sordino.oracle.files.oracle import StreamedOracle

        if isinstance(X, Spread):
            return ClusterOracle(X, problem, rows, relation)

        return StreamedOracle(X, problem, rows, relation)
    if issparse(X):
        from sordino.oracle.sparse import SparseOracle

        return SparseOracle(X, y, problem, rows, relation)
    from sordino.oracle.dense import DenseOracle

    return DenseOracle(X, y, problem, rows, relation)
