"""`sordino plan`: every number of a training run, before there is a record."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from sordino.budget import Budget, Relation
from sordino.cli.console import say, show_table
from sordino.cli.options import HUBER_THRESHOLD, L2, Delta, Epsilon, MethodName, Neighbours, method_named


def plan(
    records: Annotated[int, typer.Option(help="How many records there are, or under add_remove a public stand-in.")],
    features: Annotated[int, typer.Option(help="How many encoded columns a row has, the intercept not counted.")],
    epsilon: Epsilon,
    delta: Delta = None,
    relation: Neighbours = Relation.REPLACE_ONE,
    loss: Annotated[str, typer.Option(help="logistic, huber or squared.")] = "logistic",
    classes: Annotated[int, typer.Option(help="With logistic: the number of classes.")] = 2,
    method: MethodName = "auto",
    l2: L2 = 0.0,
) -> None:
    """Print the plan that `fit` would follow for these public facts. No record is needed, and none is read."""
    from sordino import wire
    from sordino.estimators.linear import method_for
    from sordino.penalties import Ridge
    from sordino.privacy.accountants import guarantee
    from sordino.problem import Problem

    function, domain = _loss(loss, classes, features)
    problem = Problem(records, features + 1, function, penalty=Ridge(l2), domain=domain)
    budget = Budget(epsilon, 1 / records**2 if delta is None else delta, relation)
    chosen = method_for(method_named(method), problem, budget)
    planned = chosen.plan(problem, budget)
    L, beta, mu = problem.constants
    facts = {
        "records": records,
        "parameters": problem.dim,
        "norm of a row, scaled": problem.row_norm,
        "largest gradient of a record, L": L,
        "smoothness, beta": beta,
        "strong convexity, mu": mu,
        "one record moves the mean gradient by": problem.gradient_sensitivity(relation),
    }
    show_table("Public facts", ("", ""), [(name, _number(value)) for name, value in facts.items()])
    show_table(f"Plan of {type(chosen).__name__}", ("", ""), _rows(wire.to_plain(planned)))
    spent = guarantee(planned.event, budget.delta, relation)
    say(
        f"The {spent.accountant} accountant finds epsilon {spent.epsilon:.6g} at delta {budget.delta:.6g} under "
        f"{relation.value}; {epsilon:g} was asked for."
    )


def _loss(name: str, classes: int, features: int) -> tuple[Any, Any]:
    from sordino.domains import Ball, Everywhere
    from sordino.losses import Huber, Logistic, Softmax, Squared

    match name:
        case "logistic":
            return Logistic() if classes == 2 else Softmax(classes), Everywhere()
        case "huber":
            # targets are mapped to [-1, 1]
            return Huber(HUBER_THRESHOLD, 1.0), Everywhere()
        case "squared":
            return Squared(1.0), Ball(math.sqrt(features))
    raise ValueError(f"loss is {name!r}: it must be logistic, huber or squared.")


def _rows(plain: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in plain.items():
        name = f"{prefix}{key.replace('_', ' ')}"
        if isinstance(value, dict):
            rows += [(name, value["kind"]), *_rows(value, f"{name}: ")]
        elif key != "kind":
            rows.append((name, _number(value)))
    return rows


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
