"""The compiled slopes and values are those of the losses."""

import math
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from numba import njit

from plain_gradients import LOSSES, label
from sordino.losses import LOSSES as KINDS, Logistic, Softmax
from sordino.losses.scalar import Scalar
from sordino.oracle.kernels import native, slopes
from sordino.oracle.kernels.stack import softmax_coefficients, stack_coefficients, stack_values

# around every kink: margins 1 and 1 -+ width, residuals 0, -+ threshold and -+ tolerance; and far away from them
SCORES = np.unique(np.concatenate([np.linspace(-3, 3, 241), [-800.0, -40.0, -1e-9, 1e-9, 40.0, 800.0]]))
TARGETS = (-1.0, -0.8, 0.0, 0.25, 0.8, 1.0)


@njit
def exponentials(x):
    return np.array([slopes.exp(v) for v in x])


@njit
def slopes_of(code, parameters, a, y):
    return np.array([slopes.slope(code, parameters, v, y) for v in a])


@njit
def values_of(code, parameters, a, y):
    return np.array([slopes.value(code, parameters, v, y) for v in a])


def test_exp_is_exact_to_rounding():
    x = -np.concatenate([np.linspace(0, 1, 10_001), np.geomspace(1e-12, 708, 10_001)])
    want = np.exp(x)
    assert np.max(np.abs(exponentials(x) / want - 1)) < 5e-16


def test_exp_of_what_is_not_a_number_and_of_minus_infinity():
    assert np.isnan(exponentials(np.array([np.nan]))[0])
    assert exponentials(np.array([-np.inf]))[0] == 0


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_every_loss_has_a_kernel_and_an_example_here(kind):
    examples = [loss for loss in LOSSES if type(loss) is kind]
    assert examples
    for loss in examples:
        slopes.kernel_of(loss)


def test_a_loss_without_a_kernel_is_a_sentence():
    @dataclass(frozen=True)
    class Cauchy(Logistic):
        pass

    with pytest.raises(TypeError, match=r"Cauchy\(\) is not compiled: register its class in sordino\.losses\.LOSSES"):
        slopes.kernel_of(Cauchy())


ADDED = """
import math
import numpy as np
from dataclasses import dataclass
from sordino import losses
from sordino.losses.elementary import exp, log1p, sign
from sordino.losses.scalar import Scalar, numbers

# step 1: the formulas, written once
@dataclass(frozen=True)
class LogCosh(Scalar):
    width: float = 1.0
    target_bound: float = 1.0
    parameters = ("width",)

    @property
    def slope_bound(self):
        return self.width

    @property
    def curvature_bound(self):
        return 1.0

    @property
    def at_zero(self):
        return float(self.phi(0.0, self.target_bound, self.width))

    def admit(self, y):
        return self.within(numbers(y))

    @staticmethod
    def phi(a, y, h):
        r = abs(a - y) / h
        return h * h * (r + log1p(exp(-2.0 * r)) - math.log(2.0))

    @staticmethod
    def phi1(a, y, h):
        e = exp(-2.0 * abs(a - y) / h)
        return h * sign(a - y) * (1.0 - e) / (1.0 + e)

    @staticmethod
    def phi2(a, y, h):
        e = exp(-2.0 * abs(a - y) / h)
        return 4.0 * e / ((1.0 + e) * (1.0 + e))

# step 2
losses.LOSSES["LogCosh"] = LogCosh

from sordino import Budget, NoisyGradientDescent, Problem
from sordino.train import train
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.privacy.randomness import Randomness

rng = np.random.default_rng(0)
X, w = rng.normal(size=(500, 3)) / 2, np.array([0.4, -0.3, 0.2])
y = X @ w + rng.normal(size=500) / 4
loss, rows = LogCosh(0.7), Rows(4.0, norm=4.0)
problem = Problem(500, 3, loss, row_norm=4.0)
oracle = linear_oracle(X, y, problem, rows)
np.testing.assert_allclose(oracle.gradient(w), X.T @ loss.slope(X @ w, y) / 500, rtol=1e-12)
np.testing.assert_allclose(oracle.value(w), loss.value(X @ w, y).mean(), rtol=1e-12)
product = X.T @ (loss.curvature(X @ w, y) * (X @ w)) / 500
np.testing.assert_allclose(oracle.curvature_product(w)(w), product, rtol=1e-12)
found = train(problem, Budget(50.0, 1e-5), NoisyGradientDescent(200), oracle, Randomness.seeded(0)).weights
assert np.linalg.norm(found - w) < 0.1, found
"""


@pytest.mark.slow
def test_adding_a_loss_as_the_guide_for_contributors_says(tmp_path, monkeypatch):
    """Written and registered, it is compiled, answered for and trained: no kernel is touched."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    run = subprocess.run([sys.executable, "-c", ADDED], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if isinstance(loss, Scalar)], ids=label)
@pytest.mark.parametrize("y", TARGETS)
def test_slope_and_value_of_one_score(loss, y):
    code, parameters = slopes.kernel_of(loss)
    y = float(loss.within(np.float64(y)))
    target = np.full(len(SCORES), y)
    slope, value = slopes_of(code, parameters, SCORES, y), values_of(code, parameters, SCORES, y)
    np.testing.assert_allclose(slope, loss.slope(SCORES, target), rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(value, loss.value(SCORES, target), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("classes", [2, 3, 11])
def test_slope_and_value_of_softmax(classes):
    rng = np.random.default_rng(0)
    loss = Softmax(classes)
    scores = rng.normal(size=(50, classes)) * rng.choice([0.1, 3.0, 300.0], (50, 1))
    y = rng.integers(0, classes, 50).astype(float)
    code, parameters = slopes.kernel_of(loss)
    ones, offsets = np.ones(50), np.zeros(classes)

    computed, totals = scores.T.copy(), np.zeros(classes)
    softmax_coefficients(classes, computed, y, ones, ones, ones, offsets, np.array([1e9]), totals)
    want = loss.slope(scores, y)
    np.testing.assert_allclose(computed.T, want, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(totals, want.sum(axis=0), rtol=1e-12, atol=1e-13)

    total = np.zeros(1)
    stack_values(code, parameters, classes, scores.T.copy(), y, ones, ones, ones, offsets, math.inf, total)
    assert math.isclose(total[0], loss.value(scores, y).sum(), rel_tol=1e-13)


@pytest.mark.parametrize("loss", LOSSES, ids=label)
def test_a_score_that_is_not_a_number_counts_for_nothing(loss):
    code, parameters = slopes.kernel_of(loss)
    ones, offsets, totals = np.ones(3), np.zeros(loss.outputs), np.zeros(loss.outputs)
    scores = np.full((loss.outputs, 3), 0.25)
    scores[0, 1] = np.nan
    values, alone = np.zeros(1), np.zeros(1)
    stack_values(code, parameters, loss.outputs, scores.copy(), ones, ones, ones, ones, offsets, math.inf, values)
    one = (ones[:1],) * 4
    stack_values(code, parameters, loss.outputs, scores[:, :1].copy(), *one, offsets, math.inf, alone)
    assert values[0] == 2 * alone[0]
    if loss.outputs > 1:
        softmax_coefficients(loss.outputs, scores, ones, ones, ones, ones, offsets, ones[:1], totals)
    else:
        stack_coefficients(code, parameters, scores, ones, ones, ones, ones, offsets, ones[:1], totals)
    assert not scores[:, 1].any()
    assert scores[:, 0].any()
    np.testing.assert_allclose(totals, 2 * scores[:, 0], rtol=1e-15)


def test_a_record_that_counts_for_nothing_leaves_not_even_an_underflow():
    """p = 1e-200 squares to zero: a norm of 0 must not be taken for a gradient within the bound."""
    scores, totals = np.array([[0.0], [-460.0]]), np.zeros(2)
    softmax_coefficients(2, scores, np.zeros(1), np.ones(1), np.zeros(1), np.ones(1), np.zeros(2), np.ones(1), totals)
    assert not scores.any()
    assert not totals.any()


def test_kept_kernels_carry_the_stamp_of_all_kernel_sources():
    """Otherwise an edit of one file would leave old machine code in another (see privacy/kept.py)."""
    stamp = slopes.coefficients._cache._cache_file._source_stamp
    assert stamp[1] == native._STAMP
