"""True classes by predicted ones: accuracy, recall and precision of every class, from one table with noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sordino.budget import Budget
from sordino.evaluation.class_counts import CountsByClass, too_few
from sordino.evaluation.outcomes import ClassCells, Outcomes
from sordino.evaluation.statistic import Findings, StatisticPlan, Sums, check_level, check_loss_bound, planned_noise
from sordino.privacy.randomness import Randomness
from sordino.problem import HeldOut

_MOST, _SHOWN = 100, 30
"""Classes in a matrix, and in one whose every cell is shown."""


@dataclass(frozen=True)
class ConfusionMatrix:
    """`loss_bound`, a public number, asks for the log-loss too: losses above it are cut."""

    loss_bound: float | None = None
    level: float = 0.95
    calibration: ClassVar[str] = "tight"
    needs: ClassVar[type[Outcomes]] = Outcomes

    def __post_init__(self) -> None:
        check_level(self.level)
        check_loss_bound(self.loss_bound)

    def plan(self, problem: HeldOut, budget: Budget) -> StatisticPlan:
        if len(problem.classes) > _MOST:
            raise ValueError(f"there are {len(problem.classes)} classes: a confusion matrix is for at most {_MOST}.")
        return planned_noise(((self._query(problem), 1.0, 1),), budget)

    def run(self, plan: StatisticPlan, problem: HeldOut, oracle: Outcomes, randomness: Randomness) -> Sums:
        return Sums(tuple(oracle.release(self._query(problem), plan.sums[0].noise, randomness).tolist()))

    def found(self, problem: HeldOut, budget: Budget, released: Sums) -> Findings:
        query, std = self._query(problem), self.plan(problem, budget).sums[0].noise.std
        sums = np.array(released.sums)
        counts = CountsByClass.of(sums, query, std, problem, budget, self.level)
        k = len(problem.classes)
        true, said = np.indices((k, k))
        everywhere = np.ones((k, k), dtype=bool)
        rates = {"accuracy": (true == said, everywhere)}
        for place, label in enumerate(problem.classes):
            rates[f"recall of {label}"] = (said == place, true == place)
            rates[f"precision of {label}"] = (true == place, said == place)
        found = {name: counts.rate(name, *masks) for name, masks in rates.items()}
        shown = [measure for measure in found.values() if measure is not None]
        if self.loss_bound is not None:
            shown.append(counts.log_loss(sums[query.cells :], self.loss_bound))
        matrix = [
            counts.count(f"{one} taken for {other}", (true == i) & (said == j), "confusion matrix")
            for i, one in enumerate(problem.classes)
            for j, other in enumerate(problem.classes)
            if k <= _SHOWN
        ]
        missing = [name for name, measure in found.items() if measure is None]
        return Findings((*shown, *matrix), too_few(missing, counts.needed(k)))

    def _query(self, problem: HeldOut) -> ClassCells:
        k = len(problem.classes)
        if k < 2:
            raise ValueError("a confusion matrix is of a model of classes, and this one predicts a number.")
        return ClassCells(tuple(place + 0.5 for place in range(k - 1)), k, self.loss_bound)
