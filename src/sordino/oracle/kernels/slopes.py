r"""A record's slope and loss from its score, for every loss, and the clipping of what it adds to a gradient.

The gradient of one record is slope * row, of norm |slope| |row|. Clipping it to norm C is therefore clipping the
slope to [-C/|row|, C/|row|], which needs no pass over the features.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

from numba.extending import overload

from sordino.arrays import Array
from sordino.losses import LOSSES, Logistic, Loss, MoreauSmoothed, Softmax, elementary, unweighted
from sordino.losses.kinked import Kinked
from sordino.losses.moreau import envelope
from sordino.losses.scalar import Scalar
from sordino.oracle.kernels.native import bits_of, compiled, exact, from_bits, inlined
from sordino.oracle.kernels.vectors import widest

Parameters = tuple[float, ...]
"""What the formulas of a loss take beside score and target, filled up to the length that all losses have."""

Kernel = tuple[int, Parameters]
"""How the kernels know a loss: by a number, and its parameters."""

# exp(x) = 2^k exp(r), k = round(x / log 2), |r| <= log(2)/2: the series up to r^12/12! is exact to 2e-16
_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12 = (1 / math.factorial(k) for k in range(13))
# log 2 in two parts: k times the first, of 32 leading bits, is exact
_LOG2_HIGH = math.ldexp(math.floor(math.ldexp(math.log(2), 32)), -32)
_LOG2_LOW = 1.9082149292705877e-10  # log 2 - _LOG2_HIGH
_PER_LOG2 = 1 / math.log(2)
# adding it leaves a double's nearest integer in its lowest bits
_ROUND = 1.5 * 2.0**52


@exact
def exp(x: float) -> float:
    """e^x for x <= 0, without a branch or a call, so that a loop over it becomes vector instructions."""
    # from here on down k = -1023, and the bits below are those of 0
    x = -709.2 if x < -709.2 else x
    shifted = x * _PER_LOG2 + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LOG2_HIGH) - k * _LOG2_LOW
    # in pairs and pairs of pairs: fewer steps wait for each other than from one power to the next
    r2 = r * r
    r4 = r2 * r2
    low = (_C0 + _C1 * r) + r2 * (_C2 + _C3 * r)
    middle = (_C4 + _C5 * r) + r2 * (_C6 + _C7 * r)
    high = (_C8 + _C9 * r) + r2 * (_C10 + _C11 * r)
    series = (low + r4 * middle) + r4 * r4 * (high + r4 * _C12)
    power: float = from_bits((bits_of(shifted) << 52) + (1023 << 52))
    return series * power


@inlined
def _at_most(a: float, high: float) -> float:
    return high if high < a else a


@inlined
def _sigmoid(a: float) -> float:
    e = exp(-abs(a))
    return (1.0 if a > 0.0 else e) / (1.0 + e)


def _for_numbers(function: Callable[..., Any], version: Callable[..., Any]) -> None:
    """Inside a kernel, `version` takes the place of one of the functions that formulas are written with."""
    # Numba looks whether both have the same arguments
    overload(function)(wraps(version)(lambda *arguments: version))


_for_numbers(elementary.where, lambda condition, then, otherwise: then if condition else otherwise)
# Python's max and min, which take longer to compile by their names
_for_numbers(elementary.maximum, lambda a, b: b if b > a else a)
_for_numbers(elementary.clip, lambda a, low, high: _at_most(low if low > a else a, high))
_for_numbers(elementary.sign, lambda a: 1.0 if a > 0.0 else (-1.0 if a < 0.0 else 0.0))
_for_numbers(elementary.exp, lambda a: exp(a))
_for_numbers(elementary.sigmoid, lambda a: _sigmoid(a))
_for_numbers(elementary.log, lambda a: math.log(a))
_for_numbers(elementary.log1p, lambda a: math.log1p(a))


_QUADRATIC = "quadratic"


def _formulas() -> dict[Any, tuple[Callable[..., Any], Callable[..., Any], int]]:
    """phi, phi' and how many parameters they take, of every loss of one score and every envelope of one with a kink."""
    found: dict[Any, tuple[Callable[..., Any], Callable[..., Any], int]] = {
        _QUADRATIC: (inlined(lambda a, y: 0.5 * y * a * a), inlined(lambda a, y: y * a), 0)
    }
    for kind in LOSSES.values():
        if issubclass(kind, Scalar) and kind is not MoreauSmoothed:
            phi, count = inlined(kind.phi), len(kind.parameters)
            found[kind] = (phi, inlined(kind.phi1), count)
            if issubclass(kind, Kinked):
                value, slope = envelope(phi, inlined(kind.pull))
                found[MoreauSmoothed, kind] = (inlined(value), inlined(slope), 1 + count)
    return found


_FORMULAS = _formulas()
_NUMBERS: dict[Any, int] = {kind: number for number, kind in enumerate((*_FORMULAS, Softmax))}
_WIDTH = max(count for *_, count in _FORMULAS.values())

LOGISTIC, SOFTMAX = _NUMBERS[Logistic], _NUMBERS[Softmax]
WEIGHTED_SQUARE: Kernel = (_NUMBERS[_QUADRATIC], (0.0,) * _WIDTH)
"""phi(a, y) = y a^2 / 2: a quadratic form, whose weights stand where a loss has its targets."""


@lru_cache(maxsize=64)
def kernel_of(loss: Loss) -> Kernel:
    """The number under which the kernels know this loss, and its parameters. Weights are the records', not its."""
    loss = unweighted(loss)
    kind = (MoreauSmoothed, type(loss.base)) if isinstance(loss, MoreauSmoothed) else type(loss)
    if kind not in _NUMBERS:
        raise TypeError(
            f"{loss!r} is not compiled: register its class in sordino.losses.LOSSES, before an oracle is imported."
        )
    settings = loss.settings if isinstance(loss, Scalar) else ()
    return _NUMBERS[kind], (*settings, *(0.0 for _ in range(_WIDTH - len(settings))))


def _by_number(functions: list[tuple[Callable[..., Any], int]]) -> Callable[..., float]:
    """f(number, parameters, a, y): one flat chain of branches, which compiles faster than a function per branch."""
    lines = [
        f"    if number == {number}: return f{number}(a, y{''.join(f', p[{k}]' for k in range(count))})"
        for number, (_, count) in enumerate(functions)
    ]
    scope: dict[str, Any] = {f"f{number}": function for number, (function, _) in enumerate(functions)}
    exec("\n".join(["def chosen(number, p, a, y):", *lines, "    return float('nan')"]), scope)
    chosen: Callable[..., float] = inlined(scope["chosen"])
    return chosen


slope = _by_number([(slope, count) for _, slope, count in _FORMULAS.values()])
"""phi'(a, y) of a loss with one score, for a target within the loss's bound."""
value = _by_number([(value, count) for value, _, count in _FORMULAS.values()])
"""phi(a, y) of a loss with one score, for a target within the loss's bound."""
logistic_slope = _FORMULAS[Logistic][1]


@compiled
def score(dot: float, scale: float, offset: float) -> float:
    # not scale * dot alone: the dot product of a row without usable features may be NaN
    return (scale * dot if scale != 0.0 else 0.0) + offset


@compiled
def bounded(s: float, bound: float) -> float:
    s = s if abs(s) < math.inf else 0.0
    s = s if s < bound else bound
    return s if s > -bound else -bound


@compiled
def coefficients(
    code: int,
    parameters: Parameters,
    dots: Array,
    count: int,
    y: Array,
    scales: Array,
    inverses: Array,
    weights: Array,
    first: int,
    offset: float,
    clip: float,
) -> float:
    r"""In place of <x_i, w>: what raw row i is multiplied by in the clipped sum. Returns the sum of weighted slopes.

    For the `count` records from `first` on; `dots` begins with theirs.

    a_i = scale_i <x_i, w> + offset,    s_i = weight_i clip(phi'(a_i, y_i), C / |row_i|),    dots_i <- scale_i s_i

    0 <= weight_i <= 1. scale_i = 0 marks a row without usable features, 1/|row_i| = 0 a record that counts for nothing.
    """
    widest()
    # counted from 0, an index is not tested for being negative, and the loops below become vector instructions
    y = y[first : first + count]
    scales = scales[first : first + count]
    inverses = inverses[first : first + count]
    weights = weights[first : first + count]
    total = 0.0
    if code == LOGISTIC:
        # a loop of its own, without branches, which the compiler turns into vector instructions
        for i in range(count):
            s = logistic_slope(score(dots[i], scales[i], offset), y[i])
            s = weights[i] * bounded(s, clip * inverses[i])
            total += s
            dots[i] = s * scales[i]
    else:
        for i in range(count):
            a = score(dots[i], scales[i], offset)
            s = slope(code, parameters, a, y[i]) if a == a else 0.0
            s = weights[i] * bounded(s, clip * inverses[i])
            total += s
            dots[i] = s * scales[i]
    return total
