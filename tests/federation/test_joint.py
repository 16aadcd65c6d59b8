from __future__ import annotations

from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from scipy.stats import chisquare

from sordino.federation.field import P, reconstruct
from sordino.federation.joint import COIN_BITS, COLUMN_BITS, SCALE, JointSampler, _one_hot, _prefix, table
from sordino.federation.mesh import Rehearsal, together
from sordino.federation.shamir import ShamirAggregation, ShamirArithmetic
from sordino.privacy.randomness import Randomness

NUMBERS = np.arange(-20, 21)


def law():
    """The table's probabilities, exactly."""
    T = table()
    found: dict[int, Fraction] = {}
    for first, second, digits in zip(T.first.tolist(), T.second.tolist(), T.digits.tolist(), strict=True):
        heads = sum(Fraction(int(digit), 1 << (i + 1)) for i, digit in enumerate(digits))
        for number, chance in ((first, heads), (second, 1 - heads)):
            found[number] = found.get(number, Fraction(0)) + chance / (1 << COLUMN_BITS)
    return found


@cache
def gaussians():
    with mpmath.workdps(60):
        weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(SCALE) ** 2)) for k in range(-200, 201)]
        total = mpmath.fsum(weights)
        return [weight / total for weight in weights]


def gaussian(number):
    return gaussians()[number + 200]


def test_the_tables_law_is_as_close_to_the_discrete_gaussian_as_it_says():
    found = law()
    assert sum(found.values()) == 1
    with mpmath.workdps(60):
        gaps = []
        for number in range(-200, 201):
            chance = found.get(number, Fraction(0))
            gaps.append(abs(mpmath.mpf(chance.numerator) / chance.denominator - gaussian(number)))
        exact = mpmath.fsum(gaps) / 2
    assert exact <= table().distance <= exact * 1.001
    assert table().distance < 1e-22


def expected(count):
    weights = np.array([float(gaussian(int(k))) for k in NUMBERS])
    weights[[0, -1]] += (1 - weights.sum()) / 2
    return count * weights


def counted(drawn):
    return np.array([(np.clip(drawn, -20, 20) == k).sum() for k in NUMBERS])


def test_drawn_in_the_open_it_has_this_law():
    drawn = JointSampler(1).draw((200_000,), Randomness.seeded(3).noise)
    assert chisquare(counted(drawn), expected(200_000)).pvalue > 1e-4
    assert JointSampler(7).draw((50, 2), Randomness.seeded(3).noise).shape == (50, 2)
    assert not (JointSampler(7).draw((50,), Randomness.seeded(3).noise) % 7).any()


def run_all(members, degree, task, seed=5):
    """`task(arithmetic)` by every member, and the opened shares."""
    meshes = Rehearsal(members).meshes()
    streams = [Randomness.seeded(seed + i).noise for i in range(members)]
    shares = together(
        [
            lambda mesh=mesh, stream=stream: task(ShamirArithmetic(mesh, degree, stream))
            for mesh, stream in zip(meshes, streams, strict=True)
        ]
    )
    return reconstruct(np.stack(shares), range(members), degree)


@pytest.mark.parametrize(("members", "degree"), [(3, 1), (4, 1), (5, 2)])
def test_coins_are_fair_bits(members, degree):
    bits = run_all(members, degree, lambda arithmetic: arithmetic.coins(3, 2000))
    assert set(np.unique(bits).tolist()) == {0, 1}
    assert abs(bits.mean() - 0.5) < 4 * 0.5 / np.sqrt(6000)
    assert abs(np.corrcoef(bits[0], bits[1])[0, 1]) < 0.1


def test_products_of_shares_are_shares_of_products():
    def task(arithmetic):
        a, b = arithmetic.constant(12, (1, 4)), arithmetic.constant(P - 3, (1, 4))
        return arithmetic.products(a, b)

    assert run_all(5, 2, task).tolist() == [P - 36] * 4


@pytest.mark.parametrize("bits", [1, 2, 3, COLUMN_BITS])
def test_one_hot_vectors_point_where_the_bits_say(bits):
    numbers = np.arange(1 << bits)
    digits = np.array([[number >> (bits - 1 - i) & 1 for number in numbers] for i in range(bits)], dtype=np.uint64)
    found = run_all(3, 1, lambda arithmetic: _one_hot(digits, arithmetic))
    assert np.array_equal(found, np.eye(1 << bits, dtype=np.uint64))


def test_prefix_products():
    values = np.arange(1, 9, dtype=np.uint64).reshape(1, 8, 1)
    found = run_all(3, 1, lambda arithmetic: _prefix(values, arithmetic))
    assert found.ravel().tolist() == np.cumprod(np.arange(1, 9)).tolist()


def test_drawn_together_it_has_this_law():
    size = 3000
    meshes = Rehearsal(3).meshes()
    sums = together(
        [
            lambda mesh=mesh: ShamirAggregation(mesh, 1, stream=Randomness.seeded(20 + mesh.me).noise).open_sum(
                np.zeros((1, size), dtype=np.int64), JointSampler(1)
            )
            for mesh in meshes
        ]
    )
    assert all(np.array_equal(total, sums[0]) for total in sums)
    counts, weights = counted(sums[0]), expected(size)
    tails = weights < 5
    pooled = [np.append(x[~tails], x[tails].sum()) for x in (counts, weights)]
    assert chisquare(*pooled).pvalue > 1e-4


def test_products_need_an_honest_majority():
    mesh = Rehearsal(4).meshes()[0]
    with pytest.raises(ValueError, match="need at least 5 members"):
        ShamirArithmetic(mesh, 2, Randomness.seeded(1).noise)


def test_the_coins_are_as_many_as_the_table_has_digits():
    assert table().digits.shape == (1 << COLUMN_BITS, COIN_BITS)
