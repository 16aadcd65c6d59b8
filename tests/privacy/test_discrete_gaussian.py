"""The sampler's law is exactly the discrete Gaussian: proved on its table, measured on its draws."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from sordino.privacy import discrete_gaussian as module
from sordino.privacy.discrete_gaussian import (
    FEW,
    decide,
    discrete_gaussian,
    discrete_gaussian_rows,
    draw,
    placed,
    rounding_distance,
)
from sordino.privacy.exact_comparison import exp_bounds, lies_below
from sordino.privacy.noise_kernels import ACCEPTED, AGAIN, REJECTED, UNDECIDED, attempt, place, settle
from sordino.privacy.randomness import Randomness
from sordino.privacy.strips import COLUMN_BITS, OTHER, Grain, cover, tail_bits
from sordino.privacy.team import ALONE

SCALES = [
    2.0**-10,
    0.3,
    0.5,
    1.0,
    3.0,
    20.0,
    63.9,
    64.0,
    127.99,
    128.0,
    157.3,
    157.4,
    1000.0,
    1.37 * 2**30,
    2.0**32 - 1,
]


def pmf(scale):
    k = np.arange(-int(12 * scale) - 2, int(12 * scale) + 3)
    p = np.exp(-((k / scale) ** 2) / 2)
    return k, p / p.sum()


def pvalue(x, scale):
    """Chi-squared of the counts: consecutive integers together where one alone expects less than twenty."""
    k, p = pmf(scale)
    cell = ((np.cumsum(p) - p / 2) * (x.size // 20)).astype(int)
    expected = np.bincount(cell, weights=p) * x.size
    counts = np.bincount(cell[x - k[0]], minlength=expected.size)
    rare = expected < 5
    assert counts[rare].sum() <= expected[rare].sum() + 5 * np.sqrt(expected[rare].sum()) + 1
    used = expected[~rare] * counts[~rare].sum() / expected[~rare].sum()
    return stats.chisquare(counts[~rare], used).pvalue


def moment_pvalues(x, variance, fourth):
    """Mean and variance; the second sees a scale that is off by one percent in a few ten thousand draws."""
    errors = [np.mean(x) / np.sqrt(variance), (np.mean(x**2.0) - variance) / np.sqrt(fourth - variance**2)]
    return (2 * stats.norm.sf(np.abs(errors) * np.sqrt(x.size))).tolist()


def pvalues(x, scale):
    k, p = pmf(scale)
    return [pvalue(x, scale), *moment_pvalues(x, np.sum(p * k**2.0), np.sum(p * k**4.0))]


def wide_pvalues(x, scale):
    """For large scales, where P(X <= k) is Phi((k + 1/2)/s) to 1/s^2: 1,000 cells of equal probability, KS, moments."""
    u = stats.norm.cdf((x + 0.5) / scale)
    cells = np.bincount(np.floor(u * 1000).astype(int), minlength=1000)
    return [
        stats.chisquare(cells).pvalue,
        stats.kstest(u[: 1 << 18], "uniform").pvalue,
        *moment_pvalues(x / scale, 1.0, 3.0),
    ]


# ---------------------------------------------------------------- the table, to the unit


@pytest.mark.parametrize("scale", SCALES)
def test_the_cover_lies_around_the_graph(scale):
    """m <= K exp(-k^2/2s^2) <= M at both ends of every strip, hence inside, with 50 digits; everything adds up."""
    strips = cover(scale)
    w, n = 1 << strips.width_bits, strips.certain.size
    certain, starts = strips.certain.tolist(), strips.starts.tolist()
    assert strips.first == -n // 2
    assert sum(certain) + starts[-1] == 1 << (COLUMN_BITS + strips.level_bits)
    assert starts == sorted(starts)
    with mpmath.workdps(50):
        K, s = mpmath.mpf(strips.height), mpmath.mpf(scale)
        graph = {}
        for j in range(n):
            for k in ((strips.first + j) * w, (strips.first + j) * w + w - 1):
                top = graph.setdefault(abs(k), K * mpmath.exp(-((abs(k) / s) ** 2) / 2))
                assert certain[j] <= top <= certain[j] + starts[j + 1] - starts[j]
        # every later block of the tail is owed less: test two
        area, W = starts[-2] - starts[-3], 1 << tail_bits(scale)
        assert scale <= W
        for block in range(2):
            k = n // 2 * w + block * W
            assert 2 ** (block + 2) * K * mpmath.exp(-((k / s) ** 2) / 2) * W / w <= area


@pytest.mark.parametrize("scale", SCALES)
def test_the_alias_table_gives_every_strip_exactly_its_area(scale):
    strips = cover(scale)
    capacity = 1 << strips.level_bits
    areas = dict.fromkeys([*range(strips.first, -strips.first), OTHER, 0], 0)
    for column in strips.table.tolist():
        first, second, threshold = column >> 48, (column << 16 & (1 << 64) - 1) >> 48, column & 0xFFFFFFFF
        second -= (second >> 15) << 16
        areas[first] += threshold
        areas[second] += capacity - threshold
    assert areas[OTHER] == strips.starts[-1]
    assert [areas[i] for i in range(strips.first, -strips.first)] == strips.certain.tolist()


def test_nearly_every_draw_is_certain():
    assert all(cover(scale).starts[-1] < 0.0103 * 2**39 for scale in SCALES)


@pytest.mark.parametrize("scale", [0.3, 20.0, 1000.0, 1.37 * 2**30])
def test_the_guide_never_starts_too_late(scale):
    strips = cover(scale)
    points = np.concatenate([strips.starts[:-1], strips.starts[1:] - 1])
    points = points[(points >= 0) & (points < strips.starts[-1])]
    begin = strips.guide[points >> strips.guide_bits]
    assert np.all(strips.starts[begin] <= points)


def test_place_reads_column_level_and_low_bits():
    strips = cover(1000.0)
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**64, size=5000, dtype=np.uint64)
    values, others = words.view(np.int64).copy(), np.empty(5000, dtype=np.int64)
    found = others[: place(values, 0, values.size, *strips[1:4], others, 0, ALONE)].tolist()
    for i, word in enumerate(words.tolist()):
        column = int(strips.table[word >> 53])
        level = word >> (53 - strips.level_bits) & (1 << strips.level_bits) - 1
        strip = column >> 48 if level < column & 0xFFFFFFFF else (column << 16 & (1 << 64) - 1) >> 48
        strip -= (strip >> 15) << 16 if strip >= 0 else 0
        if strip == OTHER:
            assert i in found
        else:
            assert values[i] == strip * 8 + word % 8
    assert 10 < len(found) < 100


# ---------------------------------------------------------------- exact comparisons


@pytest.mark.parametrize("bits", [8, 64, 300])
@pytest.mark.parametrize(
    "x", [Fraction(*pair) for pair in [(0, 1), (1, 3), (1, 1), (2, 1), (977, 31), (10**6, 7), (1, 2**90)]]
)
def test_the_exponential_is_enclosed(x, bits):
    low, high = exp_bounds(x, bits)
    with mpmath.workdps(400):
        value = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)
        assert mpmath.mpf(low.numerator) / low.denominator <= value <= mpmath.mpf(high.numerator) / high.denominator
    assert high - low < Fraction(1, 2**bits)


class Given:
    """A stream whose words are known."""

    def __init__(self, *words):
        self.left = list(words)

    def words(self, count):
        return np.array([self.left.pop(0) for _ in range(count)], dtype=np.uint64)


@pytest.mark.parametrize(("words", "answer"), [((0,), True), ((2**64 - 1,), False)])
def test_a_tie_in_64_bits_is_decided_by_the_next(words, answer):
    # U agrees with 5 exp(-1/3) - 3 in its first 64 bits
    with mpmath.workdps(60):
        tie = int(mpmath.floor((5 * mpmath.exp(-mpmath.mpf(1) / 3) - 3) * 2**64))
    stream = Given(*words)
    assert lies_below(3, tie, Fraction(5), Fraction(1, 3), stream) is answer
    assert not stream.left
    assert lies_below(3, tie - 1, Fraction(5), Fraction(1, 3), Given()) is True
    assert lies_below(3, tie + 1, Fraction(5), Fraction(1, 3), Given()) is False


@pytest.mark.parametrize("scale", [20.0, 1000.0, 1.37 * 2**30])
def test_double_precision_and_exact_arithmetic_agree_on_every_attempt(scale):
    strips = cover(scale, Grain(strips=26, level_bits=4))
    stream = Randomness.seeded(11).noise
    verdicts = {ACCEPTED: 0, REJECTED: 0, UNDECIDED: 0}
    for words in stream.words(9000).reshape(-1, 3):
        verdict, value = attempt(*words, strips)
        verdicts[verdict] += 1
        if verdict != UNDECIDED:
            assert decide(strips, words.tolist(), stream) == (value if verdict == ACCEPTED else None)
    assert 500 < verdicts[REJECTED] < 2500
    assert verdicts[UNDECIDED] < 500


@pytest.mark.parametrize("room", [4, 40, 10_000])
@pytest.mark.parametrize("scale", [20.0, 1000.0, 1.37 * 2**30])
def test_settling_is_attempt_after_attempt_until_the_words_end(scale, room):
    """Against exact arithmetic and `place`, one word after the other; the last position is due an attempt."""
    strips = cover(scale, Grain(strips=26, level_bits=4, slack=0.02))
    words = Randomness.seeded(11).noise.words(room)
    others = 3 * np.arange(1000)[::-1]
    values, doubts = np.full(3000, OTHER << 40), np.full((1000, 2), -1)
    settled, doubtful = settle(values, others, words, strips, doubts)

    used, expected, undecided = 0, {}, []
    for i in others.tolist():
        while used + 4 <= room:
            verdict, value = attempt(*words[used : used + 3], strips)
            used += 3
            if verdict == REJECTED:
                again = words[used : used + 1].view(np.int64).copy()
                used += 1
                if place(again, 0, 1, *strips[1:4], np.empty(1, dtype=np.int64), 0, ALONE):
                    continue
                value = again[0]
            elif verdict == UNDECIDED:
                undecided.append([i, used - 3])
            expected[i] = value
            break
        else:
            break
    assert settled == len(expected)
    assert doubts[:doubtful].tolist() == undecided
    assert {i: v for i, v in enumerate(values) if v != OTHER << 40} == expected
    assert room < 10_000 or (settled == 1000 and doubtful > 5)


@pytest.mark.parametrize(("relative", "verdict"), [(-(2.0**-40), ACCEPTED), (2.0**-40, REJECTED), (0.0, UNDECIDED)])
@pytest.mark.parametrize("scale", [20.0, 1000.0, 1.37 * 2**30])
def test_double_precision_decides_only_what_it_can(scale, relative, verdict):
    """Attempts a relative 2^-40 below or above the graph, or on it to 64 bits, at the outer end of every strip."""
    strips = cover(scale)
    chosen = [j for j in range(strips.certain.size) if strips.starts[j + 1] - strips.starts[j] > 1]
    words, outer = [], []
    with mpmath.workdps(50):
        for j in chosen:
            k = (strips.first + j) * 2**strips.width_bits
            k += 2**strips.width_bits - 1 if k >= 0 else 0
            top = mpmath.mpf(strips.height) * mpmath.exp(-((k / mpmath.mpf(scale)) ** 2) / 2) * (1 + relative)
            whole = int(mpmath.floor(top))
            words += [int(strips.starts[j]) + whole - int(strips.certain[j]), k % 2**strips.width_bits]
            words += [int(mpmath.floor((top - whole) * 2**64))]
            outer.append(k)
    found = [attempt(*(np.uint64(word) for word in words[at : at + 3]), strips) for at in range(0, len(words), 3)]
    assert {each for each, _ in found} == {verdict}
    assert [value for _, value in found] == outer


def test_words_above_the_limit_make_no_attempt():
    strips = cover(20.0)._replace(limit=np.uint64(2**63))
    assert attempt(np.uint64(2**63 + 1), np.uint64(0), np.uint64(0), strips)[0] == AGAIN


def test_the_law_does_not_depend_on_how_many_words_are_above_the_limit():
    """Half of them here, and few strips, so that uncertain parts drawn too rarely would show."""
    strips = cover(20.0, Grain(strips=16))
    rest = int(strips.starts[-1])
    half = strips._replace(limit=np.uint64(2**63 - 2**63 % rest - 1))
    assert rest / 2 ** (COLUMN_BITS + strips.level_bits) > 0.05
    assert pvalue(draw(half, 400_000, Randomness.seeded(12).noise), 20.0) > 1e-3


@pytest.mark.parametrize("scale", SCALES)
def test_few_words_are_placed_as_many_are(scale):
    strips = cover(scale)
    words = Randomness.seeded(17).noise.words(5000)
    values = words.view(np.int64).copy()
    place(values, 0, 5000, *strips[1:4], np.empty(5000, dtype=np.int64), 0, ALONE)
    assert np.array_equal(placed(strips, words), values)


@pytest.mark.parametrize("above", [0, 1])
@pytest.mark.parametrize("grain", [Grain(), Grain(strips=16), Grain(strips=26, level_bits=4, slack=0.02)], ids=str)
@pytest.mark.parametrize("scale", [0.3, 20.0, 1000.0, 1.37 * 2**30])
def test_few_draws_have_the_bits_of_many(monkeypatch, scale, grain, above):
    """With few strips most draws are attempts, with a large slack many are in doubt; half the words make no attempt."""
    strips = cover(scale, grain)
    if above:
        rest = int(strips.starts[-1])
        strips = strips._replace(limit=np.uint64(2**63 - 2**63 % rest - 1))
    few = draw(strips, FEW, Randomness.seeded(18).noise)
    monkeypatch.setattr(module, "FEW", 0)
    assert np.array_equal(draw(strips, FEW, Randomness.seeded(18).noise), few)


# ---------------------------------------------------------------- the law, measured


@pytest.mark.parametrize("scale", [0.3, 0.5, 1.0, 3.0, 20.0, 200.0, 1000.0])
def test_counts_follow_the_law_and_the_test_sees_one_percent(scale):
    stream = Randomness.seeded(12).noise
    assert min(pvalues(discrete_gaussian(scale, 1 << 20, stream), scale)) > 1e-3
    assert min(pvalues(discrete_gaussian(1.01 * scale, 1 << 20, stream), scale)) < 1e-6


@pytest.mark.parametrize("scale", [2.0**16 + 0.7, 2.0**30, 1.37 * 2**30, 2.0**31 - 0.25, 2.0**32 - 1])
def test_large_scales_follow_the_law_and_the_test_sees_one_percent(scale):
    stream = Randomness.seeded(13).noise
    x = discrete_gaussian(scale, 1 << 20, stream)
    assert min(wide_pvalues(x, scale)) > 1e-3
    assert min(wide_pvalues(discrete_gaussian(0.99 * scale, 1 << 20, stream), scale)) < 1e-6
    # low bits, and the place inside a strip, are all but uniform
    assert stats.chisquare(np.bincount(x & 255, minlength=256)).pvalue > 1e-3
    w = 1 << cover(scale).width_bits
    assert stats.chisquare(np.bincount((x & (w - 1)) * 256 // w, minlength=256)).pvalue > 1e-3


def test_tails_and_symmetry():
    scale, n = 1.1 * 2**30, 1 << 22
    x = discrete_gaussian(scale, n, Randomness.seeded(14).noise)
    for sigmas in (3, 4, 4.8):
        for side in (x > sigmas * scale, x < -sigmas * scale):
            assert stats.binomtest(int(side.sum()), n, stats.norm.sf(sigmas)).pvalue > 1e-3
    small = discrete_gaussian(5.0, n, Randomness.seeded(15).noise)
    for k in range(1, 15):
        up, down = int(np.sum(small == k)), int(np.sum(small == -k))
        assert stats.binomtest(up, up + down, 0.5).pvalue > 1e-3


GRAINS = {
    "coarse strips": Grain(strips=26),
    "one unit in a column": Grain(level_bits=0),
    "every comparison exact": Grain(strips=52, slack=1.0),
    "many comparisons exact": Grain(strips=26, slack=0.02),
    "short reach, long tail": Grain(strips=128, reach=1.0),
    "all of it": Grain(strips=4, level_bits=0, reach=1.0, slack=1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 20.0, 1000.0])
@pytest.mark.parametrize("name", GRAINS)
def test_every_grain_has_the_same_law(name, scale, monkeypatch):
    asked = []

    def counting(*arguments):
        asked.append(1)
        return decide(*arguments)

    monkeypatch.setattr(module, "decide", counting)
    grain = GRAINS[name]
    n = 10_000 if "exact" in name or "tail" in name or "all" in name else 300_000
    x = draw(cover(scale, grain), n, Randomness.seeded(16).noise)
    assert pvalue(x, scale) > 1e-3
    if grain.reach == 1.0 or (scale == 1000.0 and "exact" in name):
        assert len(asked) > 0.03 * n


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.5, 3.0, 20.0, 1000.0])
def test_exact_arithmetic_alone_has_the_law(scale):
    """No certain parts: every draw is an attempt decided in whole numbers, the tail beyond 1.5 s included."""
    strips = cover(scale, Grain(strips=6, reach=1.5))
    whole = np.concatenate([np.diff(strips.starts[:-2]) + strips.certain, np.diff(strips.starts[-3:])])
    starts = np.concatenate([[0], np.cumsum(whole)])
    exact = strips._replace(
        certain=np.zeros_like(strips.certain),
        starts=starts,
        limit=np.uint64((1 << 64) - (1 << 64) % int(starts[-1]) - 1),
    )
    stream = Randomness.seeded(17).noise
    attempts = stream.words(3 * 15_000).reshape(-1, 3).tolist()
    values = [value for words in attempts if (value := decide(exact, words, stream)) is not None]
    assert len(values) > 4_000
    assert pvalue(np.array(values), scale) > 1e-3


# ---------------------------------------------------------------- rows of different scales


def test_rows_follow_the_law_of_their_own_scale():
    scales = np.array([0.3, 1.0, 1.9, 20.0, 31.9, 1000.0, 1.37 * 2**30, 2.0**31 - 1])
    x = discrete_gaussian_rows(scales, 200_000, Randomness.seeded(19).noise)
    assert x.shape == (8, 200_000)
    for scale, row in zip(scales[:6], x[:6], strict=True):
        assert min(pvalues(row, scale)) > 1e-3
        assert min(pvalues(row, 1.02 * scale)) < 1e-6
    for scale, row in zip(scales[6:], x[6:], strict=True):
        assert min(wide_pvalues(row, scale)) > 1e-3
        assert min(wide_pvalues(row, 1.02 * scale)) < 1e-6
    assert np.abs(np.corrcoef(x) - np.eye(8)).max() < 4.5 / np.sqrt(200_000)


def test_thinning_in_double_precision_and_exactly_is_the_same():
    scales = np.array([0.7, 3.0, 1000.0, 1.37 * 2**30, 5.0])
    double, exact = (
        discrete_gaussian_rows(scales, 400, Randomness.seeded(20).noise, slack) for slack in (2.0**-42, 2.0)
    )
    assert np.array_equal(double, exact)


@pytest.mark.parametrize("scale", [2.0**-11, 2.0**31, float("nan")])
def test_rows_out_of_range_are_refused(scale):
    with pytest.raises(ValueError, match="between 2\\^-10 and 2\\^31"):
        discrete_gaussian_rows(np.array([1.0, scale]), 2, Randomness.seeded(1).noise)


# ---------------------------------------------------------------- the distance from a rounded Gaussian


def distance(scale):
    """Total variation distance between the discrete Gaussian and a rounded N(0, s^2), with 30 digits."""
    with mpmath.workdps(30):
        s = mpmath.mpf(scale)
        ks = range(int(15 * scale) + 3)
        weights = [mpmath.exp(-((k / s) ** 2) / 2) for k in ks]
        total = 2 * mpmath.fsum(weights) - 1
        # the upper tail is accurate far out, where the distribution function is not
        above = [mpmath.erfc((k - mpmath.mpf(1) / 2) / (s * mpmath.sqrt(2))) / 2 for k in [*ks, ks[-1] + 1]]
        gaps = [abs(w / total - (above[k] - above[k + 1])) for k, w in zip(ks, weights, strict=True)]
        return float(mpmath.fsum(gaps) - gaps[0] / 2)


@pytest.mark.parametrize("scale", [0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 5.0, 20.0, 60.0])
def test_rounding_distance_is_an_upper_bound_and_tight(scale):
    actual, bound = distance(scale), rounding_distance(scale)
    assert actual <= bound
    if scale >= 2:
        # leading term phi(1)/12 / s^2, relative excess 0.78/s
        assert bound < actual * (1 + 1 / scale)
        assert bound == pytest.approx(0.0201642 / scale**2, rel=0.8 / scale)


def test_rounding_distance_of_the_lattice_is_negligible():
    assert rounding_distance(2.0**30) < 2e-20
    assert rounding_distance(1e-3) == 1.0


@pytest.mark.parametrize(("scale", "shift"), [(2.0, 1), (3.0, 2), (10.0, 7)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
def test_the_discrete_gaussian_earns_what_the_rounded_one_does(scale, shift, epsilon):
    """delta of telling N_Z from N_Z + shift <= H(epsilon, shift/s) + (1 + e^epsilon) distance, exactly summed."""
    k, p = pmf(scale)
    other = np.exp(-(((k - shift) / scale) ** 2) / 2)
    other /= other.sum()
    delta = np.sum(np.maximum(p - np.exp(epsilon) * other, 0))
    m = shift / scale
    gaussian = stats.norm.cdf(-epsilon / m + m / 2) - np.exp(epsilon) * stats.norm.cdf(-epsilon / m - m / 2)
    assert delta <= gaussian + (1 + np.exp(epsilon)) * rounding_distance(scale)
    assert delta >= gaussian - (1 + np.exp(epsilon)) * rounding_distance(scale) - 0.02


# ---------------------------------------------------------------- requests


@pytest.mark.parametrize("scale", [0.0, -1.0, 2.0**32, float("nan"), float("inf")])
def test_scales_out_of_range_are_refused(scale):
    with pytest.raises(ValueError, match="from 2\\^-10 up to 2\\^32"):
        discrete_gaussian(scale, 3, Randomness.seeded(1).noise)


@pytest.mark.parametrize("shape", [5, (3, 4), (), (0,), (2, 0), 70_000])
def test_draws_have_the_shape_asked_for(shape):
    x = discrete_gaussian(1000.0, shape, Randomness.seeded(18).noise)
    assert x.shape == np.empty(shape).shape
    assert x.dtype == np.int64


def test_same_seed_same_draws():
    one, two, other = (discrete_gaussian(1e9, 50_000, Randomness.seeded(seed).noise) for seed in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)
