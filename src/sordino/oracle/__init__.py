"""Oracles hold the records and answer queries about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sordino.budget import Relation

if TYPE_CHECKING:
    from sordino.oracle.linear import BlockwiseOracle
    from sordino.oracle.persons import Persons
    from sordino.oracle.rows import Rows
    from sordino.problem import Problem


def linear_oracle(
    X: Any,
    y: Any,
    problem: Problem,
    rows: Rows,
    relation: Relation = Relation.REPLACE_ONE,
    persons: Persons | None = None,
    weights: Any = None,
) -> BlockwiseOracle:
    """The oracle of a linear model, by what holds the records.

    A matrix, dense or a SciPy sparse one, is a block in memory. Records in files or on a cluster have their targets
    with them, so that `y` is None: they are read as they are needed, or asked for where they are. A problem that is
    about persons needs to know whose each record is. `weights` say what every record counts, wherever it is: they are
    cut to [0, 1], so that no record adds more than without them.
    """
    # imported here because libraries behind them take a while to load, the kernels' compiler above all
    import numpy as np

    from sordino.oracle.allowed import real_numbers
    from sordino.oracle.blocks import Blocks, HeldBlocks
    from sordino.oracle.files.source import Source
    from sordino.oracle.linear import BlockwiseOracle
    from sordino.oracle.model import LinearModel
    from sordino.oracle.person_blocks import person_blocks
    from sordino.oracle.persons import require_same_unit

    model = LinearModel(problem, rows, Relation(relation))
    shape = X.shape if isinstance(X, Source) else np.shape(X)
    model.fits(shape, shape[:1] if isinstance(X, Source) else np.shape(y))
    require_same_unit(problem, persons, shape[0])
    model.counts(shape[0] if persons is None else len(persons))
    if weights is not None and np.shape(weights) != shape[:1]:
        raise ValueError(f"the weights have shape {np.shape(weights)} for {shape[0]} rows of X: one each is needed.")
    blocks: Blocks
    if isinstance(X, Source):
        from sordino.oracle.cluster import ClusterBlocks, Spread
        from sordino.oracle.files.partition import Partition, StreamedBlocks

        whole = Partition.whole(X, None if weights is None else real_numbers(weights))
        blocks = ClusterBlocks(X, whole, rows) if isinstance(X, Spread) else StreamedBlocks(whole, rows)
    else:
        blocks = HeldBlocks.of(X, y, rows, weights)
    return BlockwiseOracle(model, blocks if persons is None else person_blocks(blocks, persons))
