"""The law of the noisy minimum, its privacy by exact computation, and what a wrong sign would do."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from sordino.budget import Relation
from sordino.privacy.events import PureDP
from sordino.privacy.randomness import Randomness
from sordino.privacy.selection import NoisyMinimum


def law(scores, scale):
    """P(j = argmin score - E), E ~ Exp(scale): the chance that j's coin comes up before any other, over all orders.

    Visiting in random order, j is taken at place p when its p predecessors, a random subset, all failed:
    P(j) = exp(-gap_j) sum_S |S|! (k - 1 - |S|)! / k! prod_{i in S} (1 - exp(-gap_i)), S without j.
    """
    gaps = (np.asarray(scores, dtype=float) - min(scores)) / scale
    k = len(gaps)
    out = []
    for j in range(k):
        # elementary symmetric polynomials of the others' failures
        e = np.zeros(k)
        e[0] = 1.0
        for i in range(k):
            if i != j:
                e[1:] = e[1:] + e[:-1] * -math.expm1(-gaps[i])
        weights = [math.factorial(s) * math.factorial(k - 1 - s) / math.factorial(k) for s in range(k)]
        out.append(math.exp(-gaps[j]) * float(e @ weights))
    return np.array(out)


def by_quadrature(scores, scale, sign):
    """P(j = argmin score + sign E), straight from the exponential noise."""
    x = np.arange(0.5, 120000) * (60 * scale / 120000)
    density = np.exp(-x / scale) / scale * (x[1] - x[0])
    out = []
    for j, own in enumerate(scores):
        others = np.ones_like(x)
        for i, other in enumerate(scores):
            if i != j:
                # score_i + sign E_i > score_j + sign x
                t = x + sign * (own - other)
                tail = np.exp(-np.maximum(t, 0) / scale)
                others *= tail if sign > 0 else 1 - tail
        out.append(float(density @ others))
    return np.array(out)


@pytest.mark.parametrize("scores", [[0, 0], [0, 1, 2], [3, -1, 0.5, 0.5], list(np.linspace(0, 4, 9))])
def test_two_ways_to_the_same_law(scores):
    np.testing.assert_allclose(law(scores, 1.3), by_quadrature(scores, 1.3, -1), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(Relation))
def test_choices_follow_the_law(relation):
    selection = NoisyMinimum(sensitivity=0.8, epsilon=1.7, relation=relation)
    scores = np.array([12.0, 11.2, 13.5, 11.9, 40.0])
    randomness = Randomness.seeded(11)
    runs = 20_000
    counts = np.bincount([selection.choose(scores, randomness) for _ in range(runs)], minlength=5)
    expected = runs * law(scores, relation.distance * 0.8 / 1.7)
    assert expected[-1] < 1e-3
    assert counts[-1] == 0
    # chi-square with three degrees of freedom: 21.1 is passed once in ten thousand
    assert ((counts - expected)[:4] ** 2 / expected[:4]).sum() < 21.1


def test_the_scale_covers_the_sensitivity_and_the_lattice():
    for relation in Relation:
        for sensitivity, epsilon in ((1.0, 0.01), (3.7, 1.0), (1e-9, 0.3), (2.0, 25.0)):
            selection = NoisyMinimum(sensitivity, epsilon, relation)
            scale = selection.scale * selection.step
            assert scale * epsilon >= relation.distance * (sensitivity + selection.step)
            assert scale * epsilon <= relation.distance * sensitivity * (1 + 1e-7)
            assert selection.event == PureDP(epsilon)


def losses(one, other):
    return np.log(law(one, 1.0) / law(other, 1.0))


def test_neighbouring_scores_are_hard_to_tell_apart():
    """Scores that move by Delta either way cost 2 Delta/scale at most, and Delta/scale where all move the same way."""
    rng = np.random.default_rng(4)
    Delta, worst, worst_one_way = 0.3, 0.0, 0.0
    for _ in range(400):
        k = rng.integers(2, 8)
        scores = rng.exponential(size=k) * rng.choice([0.01, 1.0, 5.0])
        worst = max(worst, np.abs(losses(scores, scores + Delta * rng.choice([-1.0, 1.0], k))).max())
        worst_one_way = max(worst_one_way, np.abs(losses(scores, scores + Delta * rng.choice([0.0, 1.0], k))).max())
    assert 0.9 * 2 * Delta < worst <= 2 * Delta * (1 + 1e-9)
    assert 0.9 * Delta < worst_one_way <= Delta * (1 + 1e-9)


def test_the_wrong_sign_multiplies_the_loss_by_the_candidates():
    """21 candidates, one score moved by a fifth of the scale: log-ratio 0.20, and 4.0 if the noise is added."""
    equal, moved = [0.0] * 21, [0.2] + [0.0] * 20
    assert np.abs(losses(equal, moved)).max() == pytest.approx(0.201, abs=0.005)
    wrong = np.log(by_quadrature(equal, 1.0, +1) / by_quadrature(moved, 1.0, +1))
    assert np.abs(wrong).max() == pytest.approx(4.01, abs=0.02)


def test_exponential_noise_is_not_of_bounded_range():
    """Two candidates come close to randomised response: half of epsilon^2 in KL divergence, not an eighth."""
    for epsilon in (0.05, 0.2, 1.0):
        Delta = epsilon / 2
        P, Q = law([0.0, Delta], 1.0), law([Delta, 0.0], 1.0)
        divergence = float(P @ np.log(P / Q))
        assert 2 * epsilon**2 / 8 < divergence <= epsilon**2 / 2


def test_every_order_of_equal_scores_is_fair():
    randomness = Randomness.seeded(2)
    counts = np.bincount([NoisyMinimum(1.0, 0.1).choose(np.zeros(6), randomness) for _ in range(6000)], minlength=6)
    for one, other in combinations(counts, 2):
        assert abs(int(one) - int(other)) < 5 * math.sqrt(2000)


def test_what_is_refused():
    with pytest.raises(ValueError, match="sensitivity is 0"):
        NoisyMinimum(0.0, 1.0)
    with pytest.raises(ValueError, match="epsilon is inf"):
        NoisyMinimum(1.0, math.inf)
    with pytest.raises(ValueError, match="not finite"):
        NoisyMinimum(1.0, 1.0).choose(np.array([0.0, np.nan]), Randomness.seeded(0))
