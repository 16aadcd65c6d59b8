"""Oracles hold the records and answer queries about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sordino.budget import Relation

if TYPE_CHECKING:
    from sordino.oracle.linear import BlockwiseOracle
    from sordino.oracle.rows import Rows
    from sordino.problem import Problem


def linear_oracle(
    X: Any, y: Any, problem: Problem, rows: Rows, relation: Relation = Relation.REPLACE_ONE
) -> BlockwiseOracle:
    """The oracle of a linear model, by what holds the records.

    A matrix, dense or a SciPy sparse one, is a block in memory. Records in files or on a cluster have their targets
    with them, so that `y` is None: they are read as they are needed, or asked for where they are.
    """
    # imported here because the compiler behind the kernels takes a while to load
    import numpy as np

    from sordino.oracle.blocks import HeldBlocks
    from sordino.oracle.cluster import ClusterBlocks, Spread
    from sordino.oracle.files.partition import Partition, StreamedBlocks
    from sordino.oracle.files.source import Source
    from sordino.oracle.linear import BlockwiseOracle
    from sordino.oracle.model import LinearModel

    model = LinearModel(problem, rows, Relation(relation))
    if isinstance(X, Source):
        model.fits(X.shape, X.shape[:1])
        whole = Partition.whole(X)
        return BlockwiseOracle(
            model, ClusterBlocks(X, whole, rows) if isinstance(X, Spread) else StreamedBlocks(whole, rows)
        )
    model.fits(np.shape(X), np.shape(y))
    return BlockwiseOracle(model, HeldBlocks.of(X, y, rows))
