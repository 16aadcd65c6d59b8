r"""Losses of a linear model: l(w; x, y) = phi(<w, x>, y), and the softmax loss with one score per class.

Every class states its formula and the constants that decide the noise, for rows with |x| <= R:

    lipschitz(R, D)    bound on |grad l| over all records (and over |w| <= D where that is needed)
    smoothness(R)      bound on |Hessian l|, infinite for a loss with a kink
    trace(R)           bound on the Hessian's trace: what isotropic noise in w costs, twice over
    at_zero            bound on l(0; x, y), the value at w = 0
    admit(y)           which targets they hold for: labels -1 and +1, a class's number, a finite number (clipped where
                       there is a bound); not a number for any other, and then the record counts for nothing

The bounds hold for every possible record, so they may be printed. None of them is ever measured.
"""

from __future__ import annotations

from typing import Any

from sordino.arrays import Array
from sordino.losses.kinked import Absolute, EpsilonInsensitive, Hinge, Pinball
from sordino.losses.log_link import Gamma, Poisson
from sordino.losses.moreau import MoreauSmoothed
from sordino.losses.protocol import Loss, Step
from sordino.losses.smooth import LARGE_RESIDUAL, TYPICAL_RESIDUAL, Huber, HuberisedHinge, Logistic, Squared
from sordino.losses.softmax import Softmax
from sordino.losses.weighted import Weighted, unweighted

LOSSES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Logistic,
        Softmax,
        Squared,
        Huber,
        HuberisedHinge,
        Hinge,
        Absolute,
        Pinball,
        EpsilonInsensitive,
        Poisson,
        Gamma,
        MoreauSmoothed,
        Weighted,
    )
}

__all__ = [
    "LARGE_RESIDUAL",
    "LOSSES",
    "TYPICAL_RESIDUAL",
    "Absolute",
    "Array",
    "EpsilonInsensitive",
    "Gamma",
    "Hinge",
    "Huber",
    "HuberisedHinge",
    "Logistic",
    "Loss",
    "MoreauSmoothed",
    "Pinball",
    "Poisson",
    "Softmax",
    "Squared",
    "Step",
    "Weighted",
    "unweighted",
]
