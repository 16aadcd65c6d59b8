"""An owner's table, encoded by the public schema, as the oracle that its party answers from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sordino.budget import Relation
from sordino.federation.identifiers import distinct
from sordino.federation.signed_plan import SignedPlan
from sordino.oracle import linear_oracle
from sordino.problem import Problem
from sordino.tabular.schema import ClassTarget, Schema


def open_records(signed_plan: SignedPlan, owner: int, data: Path) -> Any:
    """The oracle of one owner's records."""
    from sordino.tabular.encode import encode_features, encode_target
    from sordino.tabular.read import open_table

    schema, plan = signed_plan.schema, signed_plan.plan
    if plan.rows is None:
        raise ValueError("the plan does not say how rows are bounded: write it with sordino federation init.")
    table = open_table(data).read([*schema.columns, schema.target.column])
    planned = plan.owners[owner]
    if plan.relation is Relation.REPLACE_ONE and table.num_rows != planned.records:
        raise ValueError(
            f"{planned.name} brings {table.num_rows} records, but the plan says {planned.records}: under replace_one "
            "their number is public and must be the true one; agree on a new plan."
        )
    y = encode_target(schema, table)
    problem = plan.local_problem(owner)
    assert isinstance(problem, Problem)
    targets = np.asarray(y, dtype=float) if not isinstance(schema.target, ClassTarget) else _codes(schema, y)
    return linear_oracle(encode_features(schema, table), targets, problem, plan.rows, plan.relation)


def read_identifiers(signed_plan: SignedPlan, data: Path) -> list[bytes] | None:
    """The column by which the owners compare records, where the plan names one."""
    from sordino.tabular.read import open_table

    if not signed_plan.identifiers:
        return None
    column = open_table(data).read([signed_plan.identifiers]).column(0)
    found = ["" if value is None else str(value).strip() for value in column.to_pylist()]
    if missing := found.count(""):
        raise ValueError(
            f"{missing} records have nothing in the column {signed_plan.identifiers!r}, by which the owners tell "
            "records apart: every record needs an identifier."
        )
    return distinct(found)


def sorted_classes(schema: Schema) -> list[str]:
    """In the order in which the weights know them."""
    assert isinstance(schema.target, ClassTarget)
    return sorted(schema.target.classes)


def _codes(schema: Schema, labels: Any) -> Any:
    classes = sorted_classes(schema)
    # -1 and 1, or 0, 1, 2 .. for more than two
    values = np.array([-1.0, 1.0]) if len(classes) == 2 else np.arange(float(len(classes)))
    return values[np.searchsorted(classes, labels)]
