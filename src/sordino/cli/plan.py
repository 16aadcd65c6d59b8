"""`sordino plan`: every number of a training run, before there is a record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino import outputs
from sordino.budget import Budget, Relation
from sordino.cli.console import say, show_table
from sordino.cli.options import (
    L2,
    OF_CLASSES,
    Contributed,
    Delta,
    Epsilon,
    Intervals,
    LossName,
    MethodName,
    Neighbours,
    Typical,
    estimator_named,
    method_named,
)

if TYPE_CHECKING:
    from sordino.linear_task import LinearTask
    from sordino.problem import Problem

_PLOT = outputs.Kind("a plot", rb".*sordino plan")
_FORMATS = {".svg": "Creator", ".png": "Software", ".pdf": "Creator"}
"""Of plots, with the entry of their metadata that says who made them."""


def plan(
    records: Annotated[int, typer.Option(help="How many records there are, or under add_remove a public stand-in.")],
    features: Annotated[int, typer.Option(help="How many encoded columns a row has, the intercept not counted.")],
    epsilon: Epsilon,
    delta: Delta = None,
    relation: Neighbours = Relation.REPLACE_ONE,
    loss: LossName = "logistic",
    classes: Annotated[int, typer.Option(help="For classes: how many there are.")] = 2,
    target_range: Annotated[
        tuple[float, float] | None,
        typer.Option(help="With poisson and gamma: the lowest and the highest target, which the plan depends on."),
    ] = None,
    method: MethodName = "auto",
    l2: L2 = 0.0,
    intervals: Intervals = False,
    per_person: Annotated[
        int | None,
        typer.Option(help="Persons are protected, with at most so many records each: --records counts them."),
    ] = None,
    contribution: Contributed = "mean",
    typical_records: Typical = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the predicted excess risk against epsilon (SVG, PNG or PDF).")
    ] = None,
) -> None:
    """Print the plan that `fit` would follow for these public facts. No record is needed, and none is read."""
    from sordino import wire
    from sordino.estimators.linear import prepared_method, with_intervals
    from sordino.losses import Huber
    from sordino.planner import candidates
    from sordino.privacy.accountants import guarantee
    from sordino.problem import PersonUnit

    if plot is not None:
        if plot.suffix.lower() not in _FORMATS:
            raise ValueError(
                f"{plot} has a name that ends in none of {', '.join(_FORMATS)}: name a plot by its format."
            )
        outputs.require_writable([(plot, _PLOT)])
    # a clipped sum needs no bound on a person's records, and says by itself that persons are meant
    unit = PersonUnit(per_person, contribution, typical_records)  # type: ignore[arg-type]  # refuses other words
    person = None if unit == PersonUnit() else unit
    task = _task(loss, classes, l2, target_range)
    budget = Budget.of(epsilon, delta, relation, task.problem(records, features, person).records)
    problem = task.problem(records, features, person, budget)
    how = with_intervals if intervals else prepared_method
    chosen = how(method_named(method), "auto", problem, budget)
    planned = chosen.plan(problem, budget)
    L, beta, mu = problem.constants
    facts = {
        f"{problem.unit}s": records,
        "parameters": problem.dim,
        "norm of a row, scaled": problem.row_norm,
        f"largest gradient of a {problem.unit}, L": L,
        "smoothness, beta": beta,
        "strong convexity, mu": mu,
        f"one {problem.unit} moves the mean gradient by": problem.gradient_sensitivity(relation),
    }
    if isinstance(problem.loss, Huber):
        facts["Huber's threshold, of half the target's range"] = problem.loss.threshold
    show_table("Public facts", ("", ""), [(name, shown_number(value)) for name, value in facts.items()])
    compared = candidates(problem, budget)
    feasible = [one for one in compared if one.feasible]
    columns = {
        "method": [one.name for one in feasible],
        "excess risk": [shown_number(one.excess) for one in feasible],
        "proven at most": ["" if one.bound is None else shown_number(one.bound) for one in feasible],
        "noise": [shown_number(one.noise) for one in feasible],
        "passes": [shown_number(one.passes) for one in feasible],
    }
    # most theorems are about strongly convex problems: without a penalty there is often nothing to show
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    show_table("Methods, by predicted excess risk", tuple(shown), list(zip(*shown.values(), strict=True)))
    for one in compared:
        if not one.feasible:
            say(f"Not {one.name}: {one.reason}")
    show_table(f"Plan of {type(chosen).__name__}", ("", ""), shown_rows(wire.to_plain(planned)))
    spent = guarantee(planned.event, budget.delta, relation)
    say(
        f"The {spent.accountant} accountant finds epsilon {spent.epsilon:.6g} at delta {budget.delta:.6g} under "
        f"{relation.value}; {epsilon:g} was asked for."
    )
    if plot is not None:
        _draw(problem, budget, plot)
        say(f"Plot:  {plot}")


def _draw(problem: Problem, budget: Budget, path: Path) -> None:
    """Every feasible method's predicted excess risk, for budgets around the one asked for."""
    import io

    from matplotlib.figure import Figure

    from sordino.planner import candidates

    grid = [budget.epsilon * factor for factor in (0.1, 0.2, 0.5, 1, 2, 5, 10)]
    lines: dict[str, list[tuple[float, float]]] = {}
    for epsilon in grid:
        for one in candidates(problem, replace(budget, epsilon=epsilon)):
            if one.feasible:
                lines.setdefault(one.name, []).append((epsilon, one.excess))
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="epsilon", ylabel="predicted excess risk")
    for name, points in lines.items():
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    axes.axvline(budget.epsilon, color="grey", linewidth=0.8, linestyle=":")
    axes.legend(frameon=False)
    ending, drawn = path.suffix.lower(), io.BytesIO()
    figure.savefig(drawn, format=ending[1:], metadata={_FORMATS[ending]: "sordino plan"})
    outputs.write(path, drawn.getvalue(), _PLOT)


def _task(loss: str, classes: int, l2: float, target_range: tuple[float, float] | None) -> LinearTask:
    """What `fit` would train. Which bounds rows have makes no difference to a plan, nor most bounds of targets."""
    import numpy as np

    kind = estimator_named(loss)
    if loss in OF_CLASSES:
        task: LinearTask = kind(row_norm=1.0, l2=l2).task(np.arange(classes))
    else:
        linked = loss in ("poisson", "gamma")
        if linked and target_range is None:
            raise ValueError(f"--target-range is required with {loss}: two public numbers, the lower one first.")
        task = kind(row_norm=1.0, l2=l2, target_range=target_range if linked else (-1.0, 1.0)).task()
    return task


def shown_rows(plain: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in plain.items():
        name = f"{prefix}{key.replace('_', ' ')}"
        if isinstance(value, list):
            rows += shown_rows({f"{name} {place}": part for place, part in enumerate(value, 1)})
        elif isinstance(value, dict):
            rows += [(name, value["kind"]), *shown_rows(value, f"{name}: ")]
        elif key != "kind":
            rows.append((name, shown_number(value)))
    return rows


def shown_number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
