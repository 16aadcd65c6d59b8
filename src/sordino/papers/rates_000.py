"""Table 1 of Zhang, Zheng, Mou & Wang 2017, measured: see `rates`.

Its column of earlier results, n^2 steps, is run in Table 3 alone.
"""

from __future__ import annotations

from sordino.methods import OutputPerturbation, RandomRoundSGD
from sordino.papers.rates import Rates, Row
from sordino.penalties import Ridge

SEEDS = "records by (n, d, set), noise by 1000 set + run"
STALE = (
    "output perturbation, pure, n = 1000, d = 20, epsilon = 0.5",
    "RRPSGD, planned, n = 1000, d = 20, epsilon = 0.5",
)
WHOLE = False

READING = """
Strongly convex: the error's exponents of n and epsilon are the theorem's. That of d is a little less, .87 for 1 and
1.81 for 2: what matters is the trace of the Hessian, mu d and a part of the records that does not grow with d, where
the theorem has beta d. Passes grow with the logarithm alone, which over these sizes is an exponent of .3 to .4. With
printed constants the bound of the proof is a small multiple of what is measured, for it is the noise's part of the
error that both are about.

Not convex: the plan runs as many rounds as the noise is worth instead of the n^2 of the table, so that the number of
gradients goes as (n epsilon)^2/d. The table is about the squared norm; the norm has half the exponents.
Rows of norm one have smaller gradients the more directions there are, so that the norm does not grow with d here.
"""

_RATES = Rates(
    (
        Row(
            "output perturbation, pure",
            lambda problem, budget: OutputPerturbation(calibration="paper"),
            "excess",
            (-2, 2, -2),
            (1, 0, 0),
            Ridge(0.1),
            pure=True,
        ),
        Row(
            "output perturbation",
            lambda problem, budget: OutputPerturbation(calibration="paper"),
            "excess",
            (-2, 1, -2),
            (1, 0, 0),
            Ridge(0.1),
        ),
        Row(
            "RRPSGD, planned",
            lambda problem, budget: RandomRoundSGD(sampling="fixed_size"),
            "norm",
            (-0.5, 0.25, -0.5),
            (2, -1, 2),
        ),
    )
)
cells, values, tables, draw = _RATES.cells, _RATES.values, _RATES.tables, _RATES.draw
