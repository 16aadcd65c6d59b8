r"""How far predicted numbers are off: RMSE and R^2 from the moments of errors and targets, released once.

v is the squared error in units of its bound C^2 and t the target in [-1, 1], in units of half its range Y. With means
over the records, beta = mean t and V = mean t^2 - beta^2:

    RMSE = C sqrt(mean v),        R^2 = 1 - (C/Y)^2 (mean v) / V.

Other records move R^2 by the mean of (C/Y)^2 (v - q (t - beta)^2) / V, q = (mean v) / V, whose square has the mean that
the released moments v^2, v t, v t^2, t^3 and t^4 give; the noise by the gradient in the sums of v, t^2, t and 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sordino.budget import Budget, Relation
from sordino.evaluation.measure import quantile, within
from sordino.evaluation.outcomes import ErrorSums, Outcomes
from sordino.evaluation.statistic import Findings, StatisticPlan, Sums, check_level, planned_noise
from sordino.privacy.randomness import Randomness
from sordino.problem import HeldOut

_CLEAR = 5.0


@dataclass(frozen=True)
class ErrorMoments:
    """`error_bound` is C, in units of the target: errors above it are cut. None is half the range of targets, beyond
    which the middle of the range would be the better prediction."""

    error_bound: float | None = None
    level: float = 0.95
    calibration: ClassVar[str] = "tight"
    needs: ClassVar[type[Outcomes]] = Outcomes

    def __post_init__(self) -> None:
        check_level(self.level)
        if self.error_bound is not None and not 0 < self.error_bound < math.inf:
            raise ValueError(f"error_bound is {self.error_bound}: it must be a positive finite number.")

    def plan(self, problem: HeldOut, budget: Budget) -> StatisticPlan:
        return planned_noise(((self._query(problem), 1.0, 1),), budget)

    def run(self, plan: StatisticPlan, problem: HeldOut, oracle: Outcomes, randomness: Randomness) -> Sums:
        return Sums(tuple(oracle.release(self._query(problem), plan.sums[0].noise, randomness).tolist()))

    def found(self, problem: HeldOut, budget: Budget, released: Sums) -> Findings:
        query, s = self._query(problem), self.plan(problem, budget).sums[0].noise.std
        public = budget.relation is Relation.REPLACE_ONE
        records = float(problem.records) if public else max(1.0, released.sums[-1])
        v, tt, *halves = np.array(released.sums[:-1]) / records
        t, vv, ttt, tttt, vt, vtt = 2 * np.array(halves)
        z, C, Y = quantile(self.level), query.error_bound, (query.high - query.low) / 2
        own = 0.0 if public else v
        far = z * math.sqrt(max(0.0, vv - v**2) / records + (1 + own**2) * (s / records) ** 2)
        low, middle, high = (C * math.sqrt(max(0.0, end)) for end in (v - far, v, v + far))
        rmse = within("RMSE", middle, (low, high), self.level, possible=(0.0, C))

        V, unsure = tt - t**2, s / records * math.sqrt(1 + (4 * t) ** 2 + (0 if public else (t**2 - tt) ** 2))
        if _CLEAR * unsure > V:
            remark = (
                "Left out: R^2. The noise is too large beside how much the targets vary: more records are needed, a "
                "larger epsilon, or a narrower range of targets."
            )
            return Findings((rmse,), (remark,))
        ratio, q = (C / Y) ** 2 / V, v / V
        square = vv - 2 * q * (vtt - 2 * t * vt + t**2 * v)
        square += q**2 * (tttt - 4 * t * ttt + 6 * t**2 * tt - 3 * t**4)
        # noise on t/2 is noise of 2 s on t; the gradient in the number of records makes up for all others
        gradient = ratio * np.array([-1.0, q, -2 * q * t])
        count = 0.0 if public else float(gradient @ np.array([v, tt, t]))
        noise = (s / records) ** 2 * (gradient[0] ** 2 + gradient[1] ** 2 + 4 * gradient[2] ** 2 + count**2)
        far = z * math.sqrt(ratio**2 * max(0.0, square) / records + noise)
        fit = 1 - ratio * v
        return Findings((within("R^2", fit, (fit - far, fit + far), self.level, possible=(-math.inf, 1.0)), rmse))

    def _query(self, problem: HeldOut) -> ErrorSums:
        if problem.target_range is None:
            raise ValueError("ErrorMoments are of a model of numbers, and this one predicts classes.")
        low, high = problem.target_range
        return ErrorSums(low, high, (high - low) / 2 if self.error_bound is None else self.error_bound)
