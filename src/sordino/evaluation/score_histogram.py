r"""Two classes by cells of the score: accuracy, AUC, calibration and thresholds, all from one table with noise.

1. A share of .15 of the budget's mu^2 pays for counts on a public grid of scores, dense around its centre and ever
   wider away from it, which suits scores of any size:

       centre + reach sinh(kappa k/64) / sinh(kappa),     k = -63 .. 63,     kappa = asinh(1000).

   Edges are where the noisy counts reach 2, 5, 10, 15, 20, 30 .. 98 per cent, and the threshold of the decision.
2. Where a recall is asked for, as much pays for a noisy binary search of the threshold that has it, in seven questions
   #{positives above t} - r #{positives} >= 0 ?  on the grid; it becomes an edge too.
3. The rest pays for the table of classes by the cells between these edges.

The cells are narrow at both ends because there a rare class is told from the others. Seventeen of them: the noise of a
sum grows with the square root of their number, and AUC counts pairs within a cell as half right.

A threshold for a precision or a share of positive answers is one of the edges, chosen on the released table, so it
costs nothing more. What is then said of it holds for all edges at once, because the best-looking was taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import expit

from sordino.arrays import Array
from sordino.budget import Budget
from sordino.evaluation.class_counts import CountsByClass, Mask, at_most, too_few
from sordino.evaluation.measure import Measure
from sordino.evaluation.outcomes import ClassCells, Outcomes, RecallAbove, ScoreCells
from sordino.evaluation.statistic import (
    Findings,
    StatisticPlan,
    SumPlan,
    Sums,
    check_level,
    check_loss_bound,
    planned_noise,
)
from sordino.privacy.randomness import Randomness
from sordino.problem import HeldOut

LEVELS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)
_SHARE = 0.15
_HALF, _QUESTIONS = 64, 7
_KAPPA = math.asinh(1000.0)

Goal = Literal["recall", "precision", "positive rate"]


@dataclass(frozen=True)
class ScoreHistogram:
    """`threshold` is where the decision turns positive, and scores are compared with it as they are.

    `goal` asks for another threshold, with a recall, a precision or a share of positive answers of `target`.
    `probabilities` says that scores are log-odds, and asks for a calibration curve; `loss_bound` asks for the log-loss.
    """

    centre: float = 0.0
    reach: float = 8.0
    threshold: float = 0.0
    probabilities: bool = True
    goal: Goal | None = None
    target: float | None = None
    loss_bound: float | None = None
    level: float = 0.95
    calibration: ClassVar[str] = "tight"
    needs: ClassVar[type[Outcomes]] = Outcomes

    def __post_init__(self) -> None:
        check_level(self.level)
        check_loss_bound(self.loss_bound)
        if not (math.isfinite(self.centre) and 0 < self.reach < math.inf and math.isfinite(self.threshold)):
            raise ValueError("the scores' centre, reach and threshold must be finite numbers, and the reach positive.")
        if (self.goal is None) != (self.target is None):
            raise ValueError("a goal and its target go together: name both, or neither.")
        if self.goal is not None and self.goal not in get_args(Goal):
            raise ValueError(f"goal is {self.goal!r}: it must be 'recall', 'precision' or 'positive rate'.")
        if self.target is not None and not 0 < self.target < 1:
            raise ValueError(f"{self.goal} is {self.target}: it must lie between 0 and 1.")
        if self.loss_bound is not None and not self.probabilities:
            raise ValueError("the model's scores are no probabilities, so it has no log-loss: leave its bound out.")

    @property
    def grid(self) -> tuple[float, ...]:
        k = np.arange(1 - _HALF, _HALF)
        steps: Array = np.sinh(_KAPPA * k / _HALF) / math.sinh(_KAPPA)
        return tuple((self.centre + self.reach * steps).tolist())

    @property
    def levels(self) -> tuple[float, ...]:
        """Shares of the records that lie below the edges."""
        asked = () if self.goal != "positive rate" or self.target is None else (1 - self.target,)
        return tuple(sorted((*LEVELS, *asked)))

    def plan(self, problem: HeldOut, budget: Budget) -> StatisticPlan:
        if len(problem.classes) != 2:
            raise ValueError(f"ScoreHistogram is for two classes, and this model has {len(problem.classes)}.")
        searched = self.goal == "recall"
        cells = self._cells((0.0,) * (len(self.levels) + 1 + searched))
        search = ((RecallAbove(0.0, self.target or 0.0), _SHARE, _QUESTIONS),) if searched else ()
        left = 1 - _SHARE * (1 + len(search))
        return planned_noise(((ScoreCells(self.grid), _SHARE, 1), *search, (cells, left, 1)), budget)

    def run(self, plan: StatisticPlan, problem: HeldOut, oracle: Outcomes, randomness: Randomness) -> Sums:
        on_grid, *search, on_cells = plan.sums
        edges = self._edges(oracle.release(ScoreCells(self.grid), on_grid.noise, randomness))
        threshold = self._searched(search[0], oracle, randomness) if search else None
        edges = tuple(sorted(edges if threshold is None else (*edges, threshold)))
        cells = oracle.release(self._cells(edges), on_cells.noise, randomness)
        return Sums(tuple(cells.tolist()), edges, threshold)

    def found(self, problem: HeldOut, budget: Budget, released: Sums) -> Findings:
        query, std = self._cells(released.edges), self.plan(problem, budget).sums[-1].noise.std
        sums = np.array(released.sums)
        counts = CountsByClass.of(sums, query, std, problem, budget, self.level)
        edges = np.unique(released.edges)
        own = int(np.searchsorted(edges, self.threshold))
        yes = problem.classes[1]
        found = {"AUC": counts.area(), **_rates(counts, own, yes)}
        shown = [found.pop("accuracy"), *found.values()]
        if self.loss_bound is not None:
            shown.append(counts.log_loss(sums[query.cells :], self.loss_bound))
        missing = [name for name, measure in found.items() if measure is None]
        remarks = too_few(missing, counts.needed(counts.table.shape[1]))
        chosen, told = self._chosen(counts, edges, released.threshold, yes)
        curve = self._calibration(counts, edges, yes) if self.probabilities else ()
        measures = (*shown, *chosen, *_matrix(counts, own, problem.classes), *curve)
        return Findings(tuple(one for one in measures if one is not None), (*remarks, *told))

    def _cells(self, edges: tuple[float, ...]) -> ClassCells:
        return ClassCells(edges, 2, self.loss_bound)

    def _edges(self, counts: Array) -> tuple[float, ...]:
        """Where the counts reach the levels. Their noise may make them fall, which counts of records never do."""
        below = isotonic_regression(np.cumsum(counts)).x
        places = np.searchsorted(below, np.array(self.levels) * below[-1]).clip(0, len(self.grid) - 1)
        return (*np.array(self.grid)[places].tolist(), self.threshold)

    def _searched(self, plan: SumPlan, oracle: Outcomes, randomness: Randomness) -> float:
        """The highest of the grid with the recall that is asked for, as far as the noise lets it be seen."""
        low, high = 0, len(self.grid) - 1
        for _ in range(plan.times):
            middle = (low + high + 1) // 2
            more = oracle.release(RecallAbove(self.grid[middle], self.target or 0.0), plan.noise, randomness)[0]
            low, high = (middle, high) if more >= 0 else (low, max(low, middle - 1))
        return self.grid[low]

    def _said(self, edge: float) -> float:
        """A threshold as the model's users know it."""
        return float(expit(edge)) if self.probabilities else edge

    def _chosen(
        self, counts: CountsByClass, edges: Array, searched: float | None, yes: str
    ) -> tuple[tuple[Measure | None, ...], tuple[str, ...]]:
        """The threshold that the goal asks for, and what is true of it."""
        if self.goal is None or self.target is None:
            return (), ()
        if self.goal == "recall":
            clear = counts.clear(np.indices(counts.table.shape)[0] == 1)
            place = None if searched is None or not clear else int(np.searchsorted(edges, searched))
            choices = 1
        else:
            place, choices = _choice(counts, self.goal, self.target), len(edges)
        name = f"threshold for a {self.goal} of {self.target:g}"
        if place is None:
            remark = (
                f"No {name} was found: none of {len(edges)} has it beside this noise. About "
                f"{math.ceil(counts.needed(counts.table.shape[1])):,} records of {yes} are needed with this budget."
            )
            return (), (remark,)
        rates = _rates(counts, place, yes, choices, group="threshold")
        return (Measure(name, self._said(float(edges[place])), group="threshold"), *rates.values()), ()

    def _calibration(self, counts: CountsByClass, edges: Array, yes: str) -> list[Measure | None]:
        """How often it was so, where so much was predicted; cells are joined until there are enough records in them."""
        ends = [0.0, *(self._said(edge) for edge in edges.tolist()), 1.0]
        shape, curve, first = counts.table.shape, [], 0
        positive = np.indices(shape)[0] == 1
        for last in range(shape[1]):
            cells = at_most(shape, last) & ~at_most(shape, first - 1)
            # what is left at the end would not be enough: it joins the last that was
            if counts.clear(cells) and (last == shape[1] - 1 or counts.clear(~at_most(shape, last))):
                name = f"{yes}, where {ends[first]:.3g} to {ends[last + 1]:.3g} was predicted"
                curve.append(counts.rate(name, positive, cells, group="calibration"))
                first = last + 1
        return curve


def _rates(counts: CountsByClass, place: int, yes: str, choices: int = 1, group: str = "") -> dict[str, Measure | None]:
    """With positive answers above the edge at this place."""
    shape = counts.table.shape
    said, positive = ~at_most(shape, place), np.indices(shape)[0] == 1
    everywhere = np.ones(shape, dtype=bool)
    masks: dict[str, tuple[Mask, Mask]] = {
        "accuracy": (said == positive, everywhere),
        f"recall of {yes}": (said, positive),
        f"precision of {yes}": (positive, said),
        f"share predicted {yes}": (said, everywhere),
    }
    at = "" if group == "" else ", there"
    return {name: counts.rate(f"{name}{at}", *pair, choices, group) for name, pair in masks.items()}


def _matrix(counts: CountsByClass, place: int, classes: tuple[str, ...]) -> list[Measure]:
    said, true = ~at_most(counts.table.shape, place), np.indices(counts.table.shape)[0]
    return [
        counts.count(f"{one} taken for {other}", (true == i) & (said == j), "confusion matrix")
        for i, one in enumerate(classes)
        for j, other in enumerate(classes)
    ]


def _choice(counts: CountsByClass, goal: Goal, target: float) -> int | None:
    """The place of the edge, or None where no edge does it: the lowest with this precision, the closest to a share."""
    above = counts.table.sum(axis=1, keepdims=True) - np.cumsum(counts.table, axis=1)[:, :-1]
    answers, hits = above.sum(axis=0), above[1]
    if goal == "positive rate":
        return int(np.argmin(np.abs(answers - target * counts.table.sum())))
    clear = [counts.clear(~at_most(counts.table.shape, place)) for place in range(len(answers))]
    fitting = np.flatnonzero(np.array(clear) & (hits >= target * answers))
    return int(fitting[0]) if len(fitting) else None
