"""An owner's table, encoded by the public schema, as the oracle that its party answers from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sordino.budget import Relation
from sordino.federation.identifiers import distinct, of_persons
from sordino.federation.signed_plan import SignedPlan
from sordino.linear_task import target_coding
from sordino.oracle import linear_oracle
from sordino.oracle.persons import Persons
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem


def open_records(signed_plan: SignedPlan, owner: int, data: Path, randomness: Randomness) -> Any:
    """The oracle of one owner's records; its own randomness decides which of a person's count."""
    from sordino.tabular.read import open_table, read_records

    schema, plan = signed_plan.schema, signed_plan.plan
    if plan.rows is None:
        raise ValueError("the plan does not say how rows are bounded: write it with sordino federation init.")
    rows, targets = read_records(open_table(data, schema), schema)
    problem = plan.local_problem(owner)
    assert isinstance(problem, Problem)
    persons = None
    if problem.person is not None:
        persons = Persons.of(np.array(_column(signed_plan, data)), problem.person, randomness)
    planned, count = plan.owners[owner], rows.shape[0] if persons is None else len(persons)
    if plan.relation is Relation.REPLACE_ONE and count != planned.records:
        raise ValueError(
            f"{planned.name} brings {count} {problem.unit}s, but the plan says {planned.records}: under replace_one "
            "their number is public and must be the true one; agree on a new plan."
        )
    return linear_oracle(rows, target_coding(schema).encoded(targets), problem, plan.rows, plan.relation, persons)


def read_identifiers(signed_plan: SignedPlan, data: Path) -> list[bytes] | None:
    """The column by which the owners compare records, or persons, where the plan names one."""
    if not signed_plan.identifiers:
        return None
    told_apart = distinct if signed_plan.plan.problem.person is None else of_persons
    return told_apart(_column(signed_plan, data))


def _column(signed_plan: SignedPlan, data: Path) -> list[str]:
    """An identifier for every record."""
    from sordino.tabular.files import TableFiles

    name = signed_plan.identifiers
    column = [value for batch in TableFiles.open(data, [name]).read([name]) for value in batch.column(0).to_pylist()]
    found = ["" if value is None else str(value).strip() for value in column]
    if missing := found.count(""):
        raise ValueError(
            f"{missing} records have nothing in the column {name!r}, by which the owners tell "
            "records apart: every record needs an identifier."
        )
    return found
