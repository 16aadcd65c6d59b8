"""Noise has the law its event states, on a lattice that does not depend on the value."""

import math
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from sordino.privacy.discrete_gaussian import FEW, rounding_distance
from sordino.privacy.events import Approximate, Gaussian, PureDP, compose
from sordino.privacy.noise import GaussianNoise, L2LaplaceNoise, Noise, NoisePerRow
from sordino.privacy.randomness import Randomness

ROWS, DIM = 40_000, 7


def drawn(noise: Noise, rows=ROWS, seed=1, value=None):
    """`rows` independent releases, minus the value."""
    value = np.zeros(noise.dim) if value is None else value
    return noise.perturb(np.broadcast_to(value, (rows, noise.dim)), Randomness.seeded(seed)) - value


def normal_pvalue(z):
    """KS of each coordinate and of the squared norm, the variance, and the correlations (Bonferroni)."""
    rows, dim = z.shape
    squares = np.sum(z**2, axis=1)
    r = np.corrcoef(z, rowvar=False)[np.triu_indices(dim, 1)]
    p = [
        *(stats.kstest(z[:, j], "norm").pvalue for j in range(dim)),
        stats.kstest(squares, stats.chi2(dim).cdf).pvalue,
        2 * stats.norm.sf(abs(squares.mean() - dim) / math.sqrt(2 * dim / rows)),
        *(2 * stats.norm.sf(np.abs(r) * math.sqrt(rows))),
    ]
    return len(p) * min(p)


# ---------------------------------------------------------------- Gaussian


@pytest.mark.parametrize("std", [1.0, 0.37, 1e-12, 2.0**40 * 1.999])
def test_gaussian_noise_is_gaussian_and_the_test_sees_one_percent(std):
    z = drawn(GaussianNoise(1e-3 * std, std, DIM), value=np.linspace(-3, 3, DIM) * std) / std
    assert normal_pvalue(z) > 1e-3
    assert normal_pvalue(1.01 * z) < 1e-6
    # rows are independent, and so are successive releases
    assert abs(np.corrcoef(z[:-1, 0], z[1:, 0])[0, 1]) < 4 / math.sqrt(ROWS)


def test_the_noise_is_as_large_as_the_event_says():
    noise = GaussianNoise.at(1.7, 0.3, DIM)
    measured = drawn(noise).std()
    claimed = noise.event.event.multiplier * (noise.sensitivity + 2 * noise.step * math.sqrt(DIM))
    assert measured == pytest.approx(claimed, rel=5 / math.sqrt(2 * ROWS * DIM))
    assert claimed == pytest.approx(0.51, rel=1e-8)


def test_the_gaussian_event_counts_the_lattice():
    noise = GaussianNoise(sensitivity=2.0, std=3.0, dim=16)
    assert noise.step == 2.0**-29
    # std / (sensitivity + 2 g sqrt(dim)) and dim times the distance of one coordinate, to the safe side
    match noise.event:
        case Approximate(Gaussian(multiplier), distance):
            exact = 3 / (2 + 8 * 2.0**-29)
            assert exact * (1 - 1e-14) < multiplier <= exact
            tau = rounding_distance(3 * 2.0**29)
            assert 16 * tau <= distance < 16 * tau * (1 + 1e-14)
            assert distance < 1.5e-19
        case other:
            pytest.fail(f"{other}")


@given(
    multiplier=st.floats(1e-6, 1e4),
    sensitivity=st.floats(1e-12, 1e12),
    dim=st.integers(1, 10**8),
)
def test_a_wanted_multiplier_is_reached_from_above(multiplier, sensitivity, dim):
    noise = GaussianNoise.at(multiplier, sensitivity, dim)
    assert multiplier <= noise.event.event.multiplier <= multiplier * (1 + 1e-13)
    assert noise.std >= multiplier * sensitivity
    assert noise.sensitivity == sensitivity


@pytest.mark.parametrize("ulps", range(-3, 4))
def test_a_wanted_multiplier_is_reached_next_to_a_power_of_two(ulps):
    """Where the inflated std falls into the next power of two and the step doubles."""
    for multiplier in (1 + ulps * 2.0**-52, 1 - 2.0**-20, 1 - 2.0**-27):
        noise = GaussianNoise.at(multiplier, 1.0, 10**6)
        assert multiplier <= noise.event.event.multiplier <= multiplier * (1 + 2e-6)


def test_a_lattice_too_coarse_for_the_multiplier_is_refused():
    assert GaussianNoise.at(2.0**17, 1.0, 2**20).multiplier >= 2.0**17
    with pytest.raises(ValueError, match="below 2\\^27 / sqrt"):
        GaussianNoise.at(2.0**22, 1.0, 2**20)


def test_the_lattice_moves_each_of_two_sampled_contributions():
    """Under Poisson sampling with replacement of a record, shifts are measured from a batch without it.

    A contribution c of norm C on top of a rest r moves the rounded value by more than C: here by g sqrt(dim) nearly. A
    record may have such a c and another one -c, and half of the accounted distance must cover each.
    """
    g = GaussianNoise(1.0, 1.0, 64).step
    c, rest = np.full(64, 1000.02 * g), np.full(64, 0.49 * g)
    C = float(np.linalg.norm(c))
    noise = GaussianNoise(2 * C, 1.0, 64)
    assert noise.step == g
    for sign in (1, -1):
        moved = float(np.linalg.norm(np.rint(sign * (rest + c) / g) * g - np.rint(sign * rest / g) * g))
        assert C + 0.97 * g * 8 < moved <= noise.std / noise.multiplier / 2
    # the worst that rounding can do to one contribution, and twice that to both
    assert noise.std / noise.multiplier >= 2 * (C + g * math.sqrt(64))


# ---------------------------------------------------------------- l2-Laplace


def radius_pvalue(r, dim):
    """KS against Gamma(d), and the mean, which sees one percent (Bonferroni)."""
    mean = 2 * stats.norm.sf(abs(r.mean() - dim) * math.sqrt(r.size / dim))
    return 2 * min(stats.kstest(r[:ROWS], stats.gamma(dim).cdf).pvalue, mean)


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_l2_laplace_has_a_gamma_radius_and_a_uniform_direction(dim):
    noise = L2LaplaceNoise(sensitivity=0.4, epsilon=0.8, dim=dim)
    z = drawn(noise, rows=10 * ROWS) / noise.scale
    r = np.linalg.norm(z, axis=1)
    assert radius_pvalue(r, dim) > 1e-3
    assert radius_pvalue(1.01 * r, dim) < 1e-6
    z, r = z[:ROWS], r[:ROWS]
    u = z / r[:, None]
    for j in range(dim):
        assert stats.binomtest(int(np.sum(z[:, j] > 0)), r.size).pvalue > 1e-3
        if dim > 1:
            # the square of a coordinate of a uniform direction is Beta(1/2, (d-1)/2)
            assert stats.kstest(u[:, j] ** 2, stats.beta(0.5, (dim - 1) / 2).cdf).pvalue > 1e-3
            assert abs(np.corrcoef(u[:, j], r)[0, 1]) < 4 / math.sqrt(r.size)


@pytest.mark.parametrize(
    ("dim", "scale", "mean_norm", "mean_square", "variance"),
    # moments of Gamma(d): E|z| = d theta, E|z|^2 = d (d+1) theta^2, covariance (d+1) theta^2 I
    [(10, 0.5, 5.0, 27.5, 2.75), (1, 1.0, 1.0, 2.0, 2.0), (110, 0.02, 2.2, 4.884, 0.0444)],
)
def test_l2_laplace_moments(dim, scale, mean_norm, mean_square, variance):
    noise = L2LaplaceNoise(scale, 1.0, dim)
    assert noise.scale == pytest.approx(scale, rel=1e-5)
    rows = 1_000_000 // dim
    z = drawn(noise, rows)
    r = np.linalg.norm(z, axis=1)
    assert r.mean() == pytest.approx(mean_norm, rel=4 / math.sqrt(dim * rows))
    # Var r^2 = (d(d+1)(d+2)(d+3) - d^2 (d+1)^2) theta^4
    spread = math.sqrt((dim + 2) * (dim + 3) / (dim * (dim + 1)) - 1)
    assert np.mean(r**2) == pytest.approx(mean_square, rel=4 * spread / math.sqrt(rows))
    assert z.var() == pytest.approx(variance, rel=4 * spread / math.sqrt(rows))


def test_the_l2_laplace_scale_counts_the_lattice():
    noise = L2LaplaceNoise(sensitivity=3.0, epsilon=2.0, dim=16)
    assert noise.event == PureDP(2.0)
    # a coordinate's standard deviation is sqrt(17) 3/2, between 4 and 8
    assert noise.step == 2.0**-24
    # the rounding of probabilities, to a part in 1e-11 + 16e-15 for each of two neighbours, is taken off epsilon
    exact = (3 + 4 * 2.0**-24) / (2 - 2 * (1e-11 + 16e-15))
    assert exact <= noise.scale < exact * (1 + 1e-14)


# ---------------------------------------------------------------- the lattice


NOISES = [GaussianNoise(1.0, 0.7, 3), L2LaplaceNoise(1.0, 1.5, 3)]


def finest(releases):
    """The largest power of two of which all releases are multiples."""
    return 1 / max(Fraction(float(x)).denominator for x in releases.ravel())


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
@pytest.mark.parametrize("value", [0.0, math.pi, math.pi * (1 + 2.0**-52), -1e-9, 1e-300, 1234.5678])
def test_releases_are_multiples_of_one_step_whatever_the_value(noise, value):
    released = noise.perturb(np.full((1000, 3), value), Randomness.seeded(2))
    assert finest(released) == noise.step
    assert np.unique(released / noise.step % 8).size == 8


def test_adding_doubles_shows_the_value():
    """What the lattice prevents, and that the test above would see it: the low bits tell 0 from 1 from pi."""
    z = np.abs(Randomness.seeded(3).noise.normals(1000))
    assert finest(0.0 + z) < finest(1.0 + z) == 2.0**-52
    assert finest(math.pi + z) not in (finest(0.0 + z), finest(1.0 + z))


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_close_values_release_the_same_bits(noise):
    """Values that round to one lattice point are one value: same random bits, same release, to the last bit."""
    x = 5 * noise.step
    values = [np.full(3, v) for v in (x, x + 0.49 * noise.step, x - 0.49 * noise.step, np.nextafter(x, 1))]
    releases = [noise.perturb(value, Randomness.seeded(4)).tobytes() for value in values]
    assert len(set(releases)) == 1
    assert noise.perturb(np.full(3, x + 0.51 * noise.step), Randomness.seeded(4)).tobytes() != releases[0]


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_a_shift_by_whole_steps_shifts_the_release(noise):
    """The noise does not see the value."""
    base = noise.perturb(np.zeros(3), Randomness.seeded(5))
    shift = np.array([1, -(2**40), 12345]) * noise.step
    assert np.array_equal(noise.perturb(shift, Randomness.seeded(5)) - shift, base)


def test_rounding_moves_a_coordinate_by_half_a_step_at_most():
    noise = GaussianNoise(1.0, 1.0, 5)
    value = np.random.default_rng(6).standard_normal((1000, 5)) * 1e-3
    moved = noise.perturb(value, Randomness.seeded(7)) - noise.perturb(np.zeros_like(value), Randomness.seeded(7))
    assert np.abs(moved - value).max() <= noise.step / 2
    assert np.linalg.norm(moved - value, axis=1).max() <= noise.step / 2 * math.sqrt(5)


def test_values_beyond_a_double_of_steps_stay_on_the_lattice():
    noise = GaussianNoise(1.0, 1.0, 2)
    value = np.array([2.0**31, -(2.0**31) * 0.75])
    released = noise.perturb(value, Randomness.seeded(8))
    assert np.all(np.abs(released - value) < 10)
    assert np.all(released % noise.step == 0)


@pytest.mark.parametrize("steps", [0.4, 2.0**20, 2.0**49, 2.0**50, 2.0**51, 2.0**53, 2.0**58])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [FEW, 5000])
def test_values_of_every_size_are_rounded_and_added_in_whole_numbers(dim, dtype, steps):
    noise = GaussianNoise(1.0, 1.0, dim)
    value = (np.random.default_rng(1).uniform(-1, 1, dim) * steps * noise.step).astype(dtype)
    drawn = noise.draw(value.shape, Randomness.seeded(9))
    # halves go to the even neighbour; a sum of more than 53 bits is rounded once
    whole = [round(Fraction(float(v)) / Fraction(noise.step)) + int(z) for v, z in zip(value, drawn, strict=True)]
    expected = [units * noise.step for units in whole]
    assert np.array_equal(noise.perturb(value, Randomness.seeded(9)), expected)


# ---------------------------------------------------------------- stacks, streams, values


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
@pytest.mark.parametrize("shape", [(3,), (1, 3), (4, 5, 3), (0, 3)])
def test_every_row_of_a_stack_has_noise_of_its_own(noise, shape):
    released = noise.perturb(np.zeros(shape), Randomness.seeded(9))
    assert released.shape == shape
    assert released.dtype == np.float64
    assert np.unique(released).size == released.size


def test_rows_of_one_question_have_each_their_own_noise():
    """As large as their own plan asks for, and independent of the other rows."""
    small, large = GaussianNoise(1.0, 0.5, 200), GaussianNoise(2.0, 8.0, 200)
    rows = NoisePerRow((small, small, large, small))
    value = np.arange(4.0)[:, None] * np.ones(200)
    added = np.array([rows.perturb(value, Randomness.seeded(seed)) - value for seed in range(200)])
    np.testing.assert_allclose(added.std(axis=(0, 2)), [0.5, 0.5, 8.0, 0.5], rtol=0.02)
    correlations = np.corrcoef(added.transpose(1, 0, 2).reshape(4, -1))
    assert np.abs(correlations - np.eye(4)).max() < 0.03
    # made for no more than the weakest of them, and refused where a row has none
    assert rows.sensitivity == 1.0
    assert rows.event == compose(small.event, small.event, large.event, small.event)
    with pytest.raises(ValueError, match="3 values and noise for 4"):
        rows.perturb(value[:3], Randomness.seeded(0))


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_noise_takes_nothing_from_the_sampling_stream(noise):
    used, fresh = Randomness.seeded(10), Randomness.seeded(10)
    first, second = (noise.perturb(np.zeros(3), used) for _ in range(2))
    assert not np.any(first == second)
    assert used.sampling.words(5).tolist() == fresh.sampling.words(5).tolist()
    assert used.sampling.generator.random() == fresh.sampling.generator.random()
    assert used.noise.words(5).tolist() != fresh.noise.words(5).tolist()


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_runs_without_a_seed_differ(noise):
    first, second = (noise.perturb(np.zeros(3), Randomness.system()) for _ in range(2))
    assert not np.any(first == second)


def test_the_value_is_left_alone():
    value = np.ones(3)
    NOISES[0].perturb(value, Randomness.seeded(1))
    assert np.array_equal(value, np.ones(3))


def test_noises_are_values():
    assert GaussianNoise(1.0, 2.0, 3) == GaussianNoise(1.0, 2.0, 3)
    assert hash(L2LaplaceNoise(1.0, 2.0, 3)) == hash(L2LaplaceNoise(1.0, 2.0, 3))
    with pytest.raises(FrozenInstanceError):
        GaussianNoise(1.0, 2.0, 3).std = 0.0


# ---------------------------------------------------------------- sentences


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (np.nan, "not finite, nothing was released"),
        (np.inf, "not finite, nothing was released"),
        (-np.inf, "not finite, nothing was released"),
        (-1.2345e12, "more than 2\\^31 times larger than the noise, nothing was released"),
        (1.2345e300, "more than 2\\^31 times larger than the noise, nothing was released"),
    ],
)
def test_a_value_that_cannot_be_protected_is_refused(noise, bad, sentence):
    with pytest.raises(ValueError, match=sentence) as raised:
        noise.perturb(np.array([[0.0, 0.0, 0.0], [0.0, bad, 0.0]]), Randomness.seeded(11))
    assert "1.2345" not in str(raised.value)


@pytest.mark.parametrize("shape", [(), (2,), (3, 2)])
def test_a_value_of_another_dimension_is_refused(shape):
    with pytest.raises(ValueError, match="needs \\(\\.\\.\\., 3\\)"):
        NOISES[0].perturb(np.zeros(shape), Randomness.seeded(1))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: GaussianNoise(0.0, 1.0, 3), "sensitivity is 0.0"),
        (lambda: GaussianNoise(math.inf, 1.0, 3), "sensitivity is inf"),
        (lambda: GaussianNoise(1.0, 0.0, 3), "std is 0.0"),
        (lambda: GaussianNoise(1.0, -1.0, 3), "std is -1.0"),
        (lambda: GaussianNoise(1.0, math.nan, 3), "std is nan"),
        (lambda: GaussianNoise(1.0, 1e300, 3), "std is 1e\\+300"),
        (lambda: GaussianNoise(1.0, 1.0, 0), "dim is 0"),
        (lambda: GaussianNoise(1.0, 1.0, 2.5), "dim is 2.5"),
        (lambda: GaussianNoise.at(0.0, 1.0, 3), "multiplier is 0.0"),
        (lambda: GaussianNoise.at(math.inf, 1.0, 3), "multiplier is inf"),
        (lambda: GaussianNoise.at(1e-200, 1e-100, 3), "multiplier times sensitivity is 1e-300"),
        (lambda: L2LaplaceNoise(-1.0, 1.0, 3), "sensitivity is -1.0"),
        (lambda: L2LaplaceNoise(1.0, 0.0, 3), "epsilon is 0.0"),
        (lambda: L2LaplaceNoise(1.0, math.nan, 3), "epsilon is nan"),
        (lambda: L2LaplaceNoise(1e-200, 1e100, 3), "sensitivity / epsilon is 1e-300"),
    ],
)
def test_impossible_noise_is_refused_with_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
