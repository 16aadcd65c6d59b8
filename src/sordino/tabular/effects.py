"""What every column of a linear model adds to a score, by its values: released numbers, so to look costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np

from sordino.arrays import Array
from sordino.tabular.columns import INDICATOR, MISSING, OTHER, Boolean, Category, Column, Date, Number, Ordinal
from sordino.tabular.curves import Curves
from sordino.tabular.expansion import knots
from sordino.tabular.schema import Schema


@dataclass(frozen=True, eq=False)
class Effect:
    """Of one column, or of an interaction of two.

    `points` holds, for every column, values between which its effect is a straight line: the knots of a curve, or all
    values of a category; a marked missing value is the last. `scores` are outputs x points of the first column (x
    points of the second). Effects of all columns and interactions and the intercept add up to the score.
    """

    columns: tuple[str, ...]
    points: tuple[tuple[Any, ...], ...]
    scores: Array
    continuous: tuple[bool, ...]

    @property
    def name(self) -> str:
        return " x ".join(self.columns)


def effects(schema: Schema, coef: Array) -> tuple[Effect, ...]:
    """Of a model with these coefficients (outputs x features) for the schema's rows."""
    return tuple(_effects(schema, np.atleast_2d(coef)))


def draw(effect: Effect, axes: Any, labels: tuple[str, ...] = ()) -> None:
    """On axes of matplotlib, each about its own mean over the range: which level a curve lies at says nothing."""
    if len(effect.columns) == 2:
        _draw_pair(effect, axes)
        return
    points = list(effect.points[0])
    marked = points[-1:] == [MISSING]
    shown = points[:-1] if marked else points
    for place, scores in enumerate(effect.scores):
        label = labels[place] if place < len(labels) and len(effect.scores) > 1 else None
        centred = scores - scores[: len(shown)].mean()
        if effect.continuous[0]:
            (line,) = axes.plot(shown, centred[: len(shown)], label=label)
            if marked:
                axes.axhline(centred[-1], color=line.get_color(), linestyle=":", label="(missing)")
        else:
            axes.plot([str(point) for point in points], centred, "o", label=label)
    axes.set_xlabel(effect.name)
    axes.set_ylabel("effect on the score")
    if axes.get_legend_handles_labels()[0]:
        axes.legend()


def _draw_pair(effect: Effect, axes: Any) -> None:
    """Of the last output."""
    scores = effect.scores[-1]
    for side, (name, points) in enumerate(zip(effect.columns, effect.points, strict=True)):
        places = np.unique(np.linspace(0, len(points) - 1, min(len(points), 9)).astype(int))
        told = [f"{points[p]:.4g}" if isinstance(points[p], float) else str(points[p]) for p in places]
        axis = axes.yaxis if side else axes.xaxis
        axis.set_ticks(places, told)
        (axes.set_ylabel if side else axes.set_xlabel)(name)
    most = np.abs(scores).max()
    axes.imshow(scores.T, origin="lower", aspect="auto", cmap="RdBu_r", vmin=-most, vmax=most)


def _effects(schema: Schema, coef: Array) -> Iterator[Effect]:
    expansion = schema.expansion
    if expansion is None:
        raise ValueError("the schema has no curves: a coefficient of a linear model is its column's effect.")
    grids = {name: _grid(column, expansion.curves) for name, column in schema.columns.items()}
    blocks = {name: expansion.block(schema.columns[name], given) for name, (_, given, _) in grids.items()}
    start = 0
    for name, block in blocks.items():
        points, _, continuous = grids[name]
        start, mine = start + block.shape[1], coef[:, start : start + block.shape[1]]
        yield Effect((name,), (points,), mine @ block.T, (continuous,))
    for a, b in expansion.curves.interactions:
        both, smooth = (grids[a][0], grids[b][0]), (grids[a][2], grids[b][2])
        i, j = np.indices(tuple(map(len, both))).reshape(2, -1)
        block = expansion.product(a, b, blocks[a][i], blocks[b][j])
        start, mine = start + block.shape[1], coef[:, start : start + block.shape[1]]
        yield Effect((a, b), both, (mine @ block.T).reshape(-1, *map(len, both)), smooth)


def _grid(column: Column, curves: Curves) -> tuple[tuple[Any, ...], Array, bool]:
    """Points of a column, what each is encoded as without curves, and whether there is anything between them."""
    u = knots(curves.levels(column) or 0)
    match column:
        case Number():
            points: list[Any] = [column.centre + column.half * float(at) for at in u]
        case Date(days=days):
            points = [date(1970, 1, 1) + timedelta(days=days.centre + days.half * float(at)) for at in u]
        case Ordinal(values=values):
            points, u = list(values), np.linspace(-1, 1, len(values))
        case Boolean():
            points, u = [False, True], np.array([-1.0, 1.0])
        case Category(values=values):
            points = [*(values or ()), *([OTHER] if column.other else [])]
    marked = column.missing == INDICATOR
    wide = isinstance(column, Category)
    given = np.eye(len(points) + marked) if wide else np.zeros((len(points) + marked, 1 + marked))
    if not wide:
        given[: len(points), 0] = u
        given[len(points) :, 1:] = 1.0
    return (*points, *([MISSING] if marked else [])), given, isinstance(column, Number | Date)
