r"""The shape of the rows, and rows of a rounder one.

    S = (1/n) sum u_i u_i^T + E,     e_j -> max(e_j, 0) + s sqrt(2d),     x -> S^(-p) x / t,
    t^2 = sum_j (max(e_j, 0) + s sqrt(2d))^(1 - 2p),      p = 1/2 whitens, 1/4 goes half way

E is symmetric with N(0, s^2) on the diagonal and N(0, s^2/2) beside it, the Gaussian that is round in the Frobenius
norm, in which one record moves the sum by sqrt 2 (by 1 where it is added or removed). Its spectral norm is about
s sqrt(2d), below which eigenvalues are noise. After it rows have a norm of about 1: a `NormQuantile` should follow.

It helps on some tables (ijcnn1, bank) and hurts on others (german, credit), and no public fact told them apart: never
by default, and never where n mu/sqrt(d) is below 30.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sordino.budget import Relation
from sordino.oracle.protocol import RowsOracle
from sordino.oracle.rows import PreparedRows
from sordino.oracle.statistics import MomentSum, matrix_of
from sordino.prepare.protocol import StepPlan, check_share
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness

WIDEST = 2000
"""Columns: the matrix has as many rows."""


@dataclass(frozen=True)
class Whitening:
    share: float = 0.1
    power: float = 0.25

    def __post_init__(self) -> None:
        check_share(self, self.share)
        if not 0 < self.power <= 0.5:
            raise ValueError(f"power is {self.power}: it lies above 0 and at most at 1/2, which whitens.")

    def plan(self, columns: int, records: int, relation: Relation, mu: float) -> StepPlan:
        if columns > WIDEST:
            raise ValueError(f"{columns} columns: rows of at most {WIDEST} are whitened; use ColumnScales.")
        multiplier, asked = 1 / (mu * math.sqrt(self.share)), MomentSum()
        width = asked.width(columns, intercept=False)
        return StepPlan(GaussianNoise.at(multiplier, asked.sensitivity(relation), width), 1)

    def run(
        self, plan: StepPlan, rows: PreparedRows, records: int, oracle: RowsOracle, randomness: Randomness
    ) -> PreparedRows:
        d = len(rows.centre)
        told = oracle.release(MomentSum(), plan.noise, randomness) / records
        e, U = np.linalg.eigh(matrix_of(told, d))
        kept = np.maximum(e, 0.0) + plan.noise.std / records * math.sqrt(2 * d)
        length = math.sqrt(float(np.sum(kept ** (1 - 2 * self.power))))
        rounder = (U * kept**-self.power) @ U.T / length
        return replace(rows, matrix=rows.matrix[:, None] * rounder if rows.matrix.ndim == 1 else rows.matrix @ rounder)
