"""What Theorems 5 and 6 of Zhou, Chen, Hong, Wu & Banerjee 2020 promise, measured: see `rates`.

Algorithm 1 as printed: all records in every step, T and steps of Theorem 3, an iterate at random. Theorem 1 prints no
constant, so the noise is the least.
"""

from __future__ import annotations

from sordino.methods import DPAdam, DPRMSProp
from sordino.papers.rates import Powers, Rates, Row

SEEDS = "records by (n, d, set), noise by 1000 set + run"
STALE = ("DP-RMSProp, n = 1000, d = 20, epsilon = 0.5", "DP-Adam, n = 1000, d = 20, epsilon = 0.5")
WHOLE = False

READING = """
The numbers of gradients have the theorems' exponents, because T is theirs. Norms fall with n as promised for DP-RMSProp
and by less for DP-Adam, in epsilon by less for both, and with d, where the theorems let them grow: rows of norm one
without a preferred direction have mean gradients that shrink as 1/sqrt(d), .035 at w = 0 for d = 20.

What is left with DP-Adam is the path, not the noise. The same number of steps without noise has a mean norm of .0205 at
n = 16,000, and .0062 with DP-RMSProp, where .0208 and .0102 are measured: the theorem's condition allows DP-Adam steps
of .205 where DP-RMSProp takes 1. Bounds are 80 to 1,700 times above. That of Theorem 3, on the population,
has premises on epsilon that none of these sizes meets.
"""

_NORM: Powers = (-0.5, 0.25, -0.5)
_GRADIENTS: Powers = (2, -0.5, 1)
_RATES = Rates(
    (
        Row("DP-RMSProp", lambda problem, budget: DPRMSProp(release="random", clip=1.0), "norm", _NORM, _GRADIENTS),
        Row("DP-Adam", lambda problem, budget: DPAdam(release="random", clip=1.0), "norm", _NORM, _GRADIENTS),
    )
)
cells, values, tables, draw = _RATES.cells, _RATES.values, _RATES.tables, _RATES.draw
