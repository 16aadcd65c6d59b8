"""Correlations against the definition of their sensitivity, their error, and values that were computed elsewhere."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sordino.privacy.correlation import MOST_STEPS, BandedToeplitz, BufferedToeplitz
from sordino.privacy.correlation_choice import best_banded, best_in_order, prefix_error


def square_root(count):
    """1, 1/2, 3/8, ..: the coefficients of (1 - x)^(-1/2)."""
    return np.cumprod(np.concatenate([[1.0], 1 - 0.5 / np.arange(1, count)]))


def matrix(correlation, steps):
    """C, by inverting C^-1, whose columns are what one fresh number adds to all steps."""
    r = correlation.inverse(steps)
    inverse = np.array([[r[t - s] if t >= s else 0.0 for s in range(steps)] for t in range(steps)])
    return np.linalg.inv(inverse)


def schedules(steps, apart):
    """All sets of steps of which any two are at least `apart` apart."""
    for count in range(1, steps + 1):
        for chosen in itertools.combinations(range(steps), count):
            if all(b - a >= apart for a, b in itertools.pairwise(chosen)):
                yield chosen


def brute_force(C, apart):
    X = np.abs(C.T @ C)
    return math.sqrt(max(X[np.ix_(pi, pi)].sum() for pi in schedules(len(C), apart)))


@pytest.mark.parametrize(("steps", "apart"), [(1, 1), (3, 5), (7, 3), (8, 4), (9, 2), (10, 3), (6, 1)])
def test_the_sensitivity_is_that_of_the_worst_schedule(steps, apart):
    rng = np.random.default_rng(steps)
    cases = [BufferedToeplitz(s * q, q) for s, q in rng.uniform(0.05, 0.95, size=(4, 2))]
    for _ in range(4):
        ratios = rng.uniform(0.05, 0.99, size=min(apart, steps) - 1)
        cases.append(BandedToeplitz(tuple(np.cumprod(ratios))))
    for correlation in cases:
        worst = brute_force(matrix(correlation, steps), apart)
        found = correlation.sensitivity(steps, apart)
        assert worst * (1 - 1e-12) <= found <= worst * (1 + 1e-9)


def test_no_direction_of_contributions_moves_further():
    """Signed contributions of norm 1 in several dimensions, chosen at random, over every schedule."""
    rng, steps, apart = np.random.default_rng(0), 8, 3
    for correlation in (BandedToeplitz((0.8, 0.5)), BufferedToeplitz(0.4, 0.9)):
        C, S = matrix(correlation, steps), correlation.sensitivity(steps, apart)
        for pi in schedules(steps, apart):
            delta = np.zeros((steps, 3))
            delta[list(pi)] = rng.normal(size=(len(pi), 3))
            delta[list(pi)] /= np.linalg.norm(delta[list(pi)], axis=1, keepdims=True)
            assert np.linalg.norm(C @ delta) <= S


def test_published_sensitivities():
    """jax-privacy 2.0 gives the same: the full square root once, and banded ones by their norm."""
    c = square_root(1000)
    assert np.linalg.norm(c) == pytest.approx(1.806931952419, rel=1e-12)
    bands = BandedToeplitz(tuple(square_root(100)[1:]))
    # the last participation reaches step 900 + 99, the last of the run
    assert bands.sensitivity(1000, 100) == pytest.approx(math.sqrt(10) * bands.norm, rel=1e-9)
    assert bands.sensitivity(950, 100) < math.sqrt(10) * bands.norm
    assert BandedToeplitz().sensitivity(400, 100) == pytest.approx(2.0, rel=1e-9)


def test_a_noise_that_reaches_back_beyond_a_participation_costs_more_than_its_norm():
    """sqrt(k) |c| is too small there: 5.474922 for 5.886418."""
    best = best_in_order(1000, 100)
    c = np.concatenate([[1.0], best.scale * best.decay ** np.arange(999)])
    assert math.sqrt(10) * np.linalg.norm(c) == pytest.approx(5.474922, rel=1e-6)
    assert best.sensitivity(1000, 100) == pytest.approx(5.886418, rel=1e-6)


@pytest.mark.parametrize("kind", [BandedToeplitz((0.7, 0.4, 0.1)), BufferedToeplitz(0.3, 0.9)])
def test_the_inverse_is_one(kind):
    r = kind.inverse(12)
    c = np.linalg.inv(np.array([[r[t - s] if t >= s else 0.0 for s in range(12)] for t in range(12)]))[:, 0]
    expected = (1.0, 0.7, 0.4, 0.1) if isinstance(kind, BandedToeplitz) else (1.0, 0.3, 0.27, 0.243)
    np.testing.assert_allclose(c[:4], expected, rtol=1e-12)


@pytest.mark.parametrize("kind", [BandedToeplitz(), BandedToeplitz((0.5,)), BandedToeplitz((0.7, 0.4, 0.1, 0.05))])
def test_memory_is_the_filter(kind):
    memory, w = kind.memory((1,)), []
    for t in range(12):
        w.append(float(t == 0) - memory.feedback()[0])
        memory.add(np.array([w[-1]]))
    np.testing.assert_allclose(w, kind.inverse(12), rtol=1e-12, atol=1e-15)


def test_the_streaming_filter_of_four_bands():
    memory, w = BandedToeplitz((0.5, 0.375, 0.3125)).memory((1,)), []
    for t in range(8):
        w.append(float(t == 0) - memory.feedback()[0])
        memory.add(np.array([w[-1]]))
    assert w == [1, -0.5, -0.125, -0.0625, 0.234375, -0.0546875, -0.041015625, -0.0322265625]


def test_the_buffer_is_the_filter():
    kind = BufferedToeplitz(0.3, 0.9)
    memory, w = kind.memory((2, 3)), []
    for t in range(10):
        w.append(np.full((2, 3), float(t == 0)) - memory.feedback())
        memory.add(w[-1])
    np.testing.assert_allclose([one[1, 2] for one in w], kind.inverse(10), rtol=1e-12, atol=1e-15)


# jax-privacy's optimiser agrees with the first four to ten digits where compared
BANDED = {
    (100, 2): (5.18151605, (0.76147478,)),
    (100, 4): (3.91614328, (0.70690267, 0.60683474, 0.52518838)),
    (1000, 8): (8.35164233, (0.772806, 0.711942, 0.675422)),
    (1000, 32): (4.91072165, (0.583889, 0.484560, 0.436072)),
    (1000, 100): (3.65960, (0.5202, 0.4022, 0.3438)),
    (400, 8): (5.512853266, ()),
}


@pytest.mark.parametrize(("steps", "bands"), BANDED)
def test_the_best_bands(steps, bands):
    error, first = BANDED[steps, bands]
    best = best_banded(steps, bands)
    assert best.bands == bands
    assert best.norm * prefix_error(best, steps) == pytest.approx(error, rel=1e-6)
    for found, expected in zip(best.coefficients, first, strict=False):
        assert found == pytest.approx(expected, abs=5e-5 if bands == 100 else 1e-6)


def test_bands_of_the_square_root():
    for (steps, bands), mean in {(100, 2): 5.34899321, (100, 4): 4.10221180, (1000, 32): 5.48049117}.items():
        root = BandedToeplitz(tuple(square_root(bands)[1:]))
        assert root.norm * prefix_error(root, steps) == pytest.approx(mean, rel=1e-8)


# (T, b): q, s and S sqrt(mean q_t)
BUFFERED = {
    (1000, 100): (0.9775357, 0.2978856, 12.4494),
    (400, 100): (0.97093725, 0.30388947, 6.226099),
    (2000, 100): (0.98132614, 0.29561457, 21.745613),
    (1000, 1000): (0.98965797, 0.18163883, 3.443695),
    (10000, 10000): (0.99781197, 0.08904837, 4.992116),
}


@pytest.mark.parametrize(("steps", "apart"), BUFFERED)
def test_the_best_of_one_vector(steps, apart):
    decay, scale, error = BUFFERED[steps, apart]
    best = best_in_order(steps, apart)
    assert (best.decay, best.scale) == (pytest.approx(decay, rel=1e-5), pytest.approx(scale, rel=1e-5))
    assert best.sensitivity(steps, apart) * prefix_error(best, steps) == pytest.approx(error, rel=1e-5)


def test_errors_by_their_definition():
    for correlation in (BandedToeplitz(), BandedToeplitz((0.6, 0.3)), BufferedToeplitz(0.3, 0.9)):
        h = np.cumsum(correlation.inverse(50))
        assert prefix_error(correlation, 50) == pytest.approx(math.sqrt(np.mean(np.cumsum(h**2))), rel=1e-12)
    # independent noise: sqrt((T + 1)/2), and banded noise of a hundred against it in a run of ten epochs
    assert 10**0.5 * prefix_error(BandedToeplitz(), 1000) == pytest.approx(70.7460, rel=1e-6)
    best = best_banded(1000, 100)
    assert best.sensitivity(1000, 100) * prefix_error(best, 1000) == pytest.approx(11.5727, rel=1e-5)


def test_whoever_plans_again_finds_the_same_numbers():
    """From other starts: the minimum is found to more digits than a certificate is compared by."""
    from sordino.privacy import correlation_choice as choice

    best = np.array(best_banded(300, 24).coefficients)
    nearby = np.cumprod((best / np.concatenate([[1.0], best[:-1]])) * 0.99)
    np.testing.assert_allclose(choice._polished(nearby, 300), best, rtol=1e-8)


def test_where_nothing_is_gained_noise_is_independent():
    for steps, apart in ((1, 1), (2, 2), (50, 1)):
        assert best_in_order(steps, apart) == BandedToeplitz()
    assert best_banded(50, 1) == BandedToeplitz()


GROW = "must be positive and must not grow"
REFUSED = {
    "not below 1": (lambda: BandedToeplitz((1.0,)), "must be below 1"),
    "grows": (lambda: BandedToeplitz((0.3, 0.4)), GROW),
    "negative": (lambda: BandedToeplitz((0.3, -0.1)), GROW),
    "zero": (lambda: BandedToeplitz((0.3, 0.0)), GROW),
    "no number": (lambda: BandedToeplitz((math.nan,)), GROW),
    "too many bands": (lambda: BandedToeplitz((0.5,) * 128), "at most 128"),
    "scale above decay": (lambda: BufferedToeplitz(0.9, 0.5), "0 < scale < decay < 1"),
    "no scale": (lambda: BufferedToeplitz(0.0, 0.5), "0 < scale < decay < 1"),
    "rounded faster than forgotten": (lambda: BufferedToeplitz(0.1, 1 - 1e-9), "faster than it forgets"),
    "decay of one": (lambda: BufferedToeplitz(0.5, 1.0), "0 < scale < decay < 1"),
    "bands beyond a participation": (lambda: BandedToeplitz((0.5, 0.5, 0.5)).sensitivity(10, 3), "take at most 3"),
    "no steps": (lambda: BandedToeplitz().sensitivity(0, 1), "correlated noise is for"),
    "not apart": (lambda: BufferedToeplitz(0.1, 0.5).sensitivity(10, 0), "correlated noise is for"),
    "too long": (lambda: BufferedToeplitz(0.1, 0.5).sensitivity(MOST_STEPS + 1, 10), "correlated noise is for"),
    "too often": (lambda: BufferedToeplitz(0.1, 0.5).sensitivity(200_000, 1), "at most 100000 of them"),
    "more bands than steps": (lambda: best_banded(3, 4), "not more than steps"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what):
    made, words = REFUSED[what]
    with pytest.raises(ValueError, match=words):
        made()


@pytest.mark.parametrize("decay", [0.5, 1 - 2.0**-11])
def test_the_memory_of_the_largest_noise_is_exact_to_less_than_half_a_step(decay):
    """Noise that stays the same, which lets rounding add up; beside it fractions."""
    scale, largest, steps = 0.9 * decay, 2.0**36, 10_000
    correlation = BufferedToeplitz(scale, decay)
    assert correlation.remembers(largest)
    assert not correlation.remembers(2 * largest)
    noise = np.rint(16 * largest * (1 - decay) / scale * np.linspace(0.5, 1, 32))
    memory = correlation.memory(noise.shape)
    for _ in range(steps):
        memory.add(noise)
    told = Fraction(scale) * (1 - Fraction(decay) ** steps) / (1 - Fraction(decay))
    assert max(abs(Fraction(float(x)) - told * int(w)) for x, w in zip(memory.feedback(), noise, strict=True)) < 0.5
