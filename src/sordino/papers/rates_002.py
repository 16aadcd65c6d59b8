"""Table 1 of Yu, Zhang, Chen, Yin & Liu 2020, measured: see `rates`.

Theorem 1 takes mu, the curvature that is public, for nu. Theorem 2 is not run.
"""

from __future__ import annotations

from sordino.methods import NoisyGradientDescent, ObjectivePerturbation, OutputPerturbation
from sordino.papers.rates import Rates, Row
from sordino.penalties import Ridge

SEEDS = "records by (n, d, set), noise by 1000 set + run"
STALE = (
    "DP-GD, strongly convex, n = 1000, d = 20, epsilon = 0.5",
    "objective perturbation, convex, n = 1000, d = 20, epsilon = 0.5",
)
WHOLE = False

READING = """
The exponents of strongly convex problems are about those of the table for all three perturbations, as they must be
where the error is noise seen through a quadratic. For convex ones the table has sqrt(p)/(n epsilon) against the 2/3 of
output perturbation; here curvature is the same in all directions and not small, so that the expected curvature rules:
what is measured of DP-GD and objective perturbation is steeper in n and epsilon than the convex rate, towards the
second term of the table's minimum.

The row of DP-SGD is not measured. Theorem 2 takes (n epsilon)^2 steps on one record each, four million in the middle of
these sizes, which at 144 microseconds a step are ten minutes a run.
"""

_RATES = Rates(
    (
        Row(
            "DP-GD, convex",
            lambda problem, budget: NoisyGradientDescent(release="average", calibration="paper"),
            "excess",
            (-1, 0.5, -1),
            (2, -0.5, 1),
        ),
        Row(
            "DP-GD, strongly convex",
            lambda problem, budget: NoisyGradientDescent(calibration="paper"),
            "excess",
            (-2, 1, -2),
            (1, 0, 0),
            Ridge(0.1),
        ),
        Row(
            "output perturbation, convex",
            lambda problem, budget: OutputPerturbation(radius=3.0, calibration="paper"),
            "excess",
            (-2 / 3, 1 / 3, -2 / 3),
            (5 / 3, -1 / 3, 2 / 3),
        ),
        Row(
            "output perturbation, strongly convex",
            lambda problem, budget: OutputPerturbation(calibration="paper"),
            "excess",
            (-2, 1, -2),
            (1, 0, 0),
            Ridge(0.1),
        ),
        Row(
            "objective perturbation, convex",
            lambda problem, budget: ObjectivePerturbation(radius=3.0),
            "excess",
            (-1, 0.5, -1),
        ),
        Row(
            "objective perturbation, strongly convex",
            lambda problem, budget: ObjectivePerturbation(),
            "excess",
            (-2, 1, -2),
            penalty=Ridge(0.1),
        ),
    )
)
cells, values, tables, draw = _RATES.cells, _RATES.values, _RATES.tables, _RATES.draw
