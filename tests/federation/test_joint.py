from __future__ import annotations

from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from scipy.stats import chisquare

from rehearsal import Rehearsal, together
from sordino.federation.broadcast import Broadcast
from sordino.federation.joint import COIN_BITS, GROUP, GROUPS, JOINT_BITS, SCALE, JointSampler, table
from sordino.federation.mpyc_engine import MpycAggregation
from sordino.federation.mpyc_joint import PRIME, WORDS, MpycArithmetic, _draw, _first_ones, linear, one_hot
from sordino.federation.sharing import Sharing
from sordino.privacy.randomness import Randomness

NUMBERS = np.arange(-20, 21)


def law():
    """The table's probabilities, exactly."""
    T = table()
    found: dict[int, Fraction] = {}
    for first, second, digits in zip(T.first.tolist(), T.second.tolist(), T.digits.tolist(), strict=True):
        heads = sum(Fraction(int(digit), 1 << (i + 1)) for i, digit in enumerate(digits))
        for number, chance in ((first, heads), (second, 1 - heads)):
            found[number] = found.get(number, Fraction(0)) + chance / (1 << JOINT_BITS)
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
    assert table().distance < 1e-21


def expected(count):
    weights = np.array([float(gaussian(int(k))) for k in NUMBERS])
    weights[[0, -1]] += (1 - weights.sum()) / 2
    return count * weights


def counted(drawn):
    return np.array([(np.clip(drawn, -20, 20) == k).sum() for k in NUMBERS])


def test_drawn_in_the_open_it_has_this_law():
    drawn = JointSampler(1).draw((200_000,), Randomness.seeded(3).noise)
    assert chisquare(counted(drawn), expected(200_000)).pvalue > 1e-6
    assert JointSampler(7).draw((50, 2), Randomness.seeded(3).noise).shape == (50, 2)
    assert not (JointSampler(7).draw((50,), Randomness.seeded(3).noise) % 7).any()


def run_all(members, degree, task):
    """What `task(arithmetic)` leaves as shares, opened."""
    meshes = Rehearsal(members).meshes()

    def member(mesh):
        sharing = Sharing(mesh, Broadcast(mesh), degree, WORDS)
        return sharing.heard(task(MpycArithmetic(sharing)) % PRIME)

    try:
        found = together([lambda mesh=mesh: member(mesh) for mesh in meshes])
    finally:
        for mesh in meshes:
            mesh.close()
    assert all(np.array_equal(one, found[0]) for one in found)
    return found[0]


@pytest.mark.parametrize(("members", "degree"), [(3, 1), (4, 1), (5, 2)])
def test_coins_are_fair_signs(members, degree):
    signs = run_all(members, degree, lambda arithmetic: arithmetic.roots([2, 2, 2], 500))
    assert set(signs.ravel().tolist()) == {1, PRIME - 1}
    heads = (signs == 1).astype(float)
    assert abs(heads.mean() - 0.5) < 5 * 0.5 / np.sqrt(1500)
    assert abs(np.corrcoef(heads[0], heads[1])[0, 1]) < 0.2


def test_powers_of_a_root_are_uniform_and_nobody_chooses_them():
    powers = run_all(3, 1, lambda arithmetic: arithmetic.roots([8], 1600)).ravel().tolist()
    counts = [powers.count(pow(7, (PRIME - 1) // 8 * k, PRIME)) for k in range(8)]
    assert sum(counts) == 1600
    assert chisquare(counts).pvalue > 1e-6


def test_seven_generates_the_units():
    # p - 1 = 2^32 3 5 17 257 65537
    order = PRIME - 1
    assert order == (1 << 32) * 3 * 5 * 17 * 257 * 65537
    assert all(pow(7, order // factor, PRIME) != 1 for factor in (2, 3, 5, 17, 257, 65537))


def test_products_of_shares_are_shares_of_products():
    def task(arithmetic):
        return arithmetic.products(np.array([12] * 4, dtype=object), np.array([PRIME - 3] * 4, dtype=object))

    assert run_all(5, 2, task).tolist() == [PRIME - 36] * 4


@pytest.mark.parametrize("bits", [1, 2, 3, 5])
def test_one_hot_vectors_point_where_the_bits_say(bits):
    numbers = np.arange(1 << bits)
    digits = np.array([[number >> (bits - 1 - i) & 1 for number in numbers] for i in range(bits)]).astype(object)
    found = run_all(3, 1, lambda arithmetic: one_hot(digits, arithmetic))
    assert np.array_equal(found, np.eye(1 << bits, dtype=int))


def test_the_first_one_among_the_digits_is_found_in_every_group():
    exponents = np.array([1, 2, 3, 4, 12, 1 << 16, 5 << 14, 0], dtype=object)
    root = pow(7, (PRIME - 1) >> GROUP, PRIME)
    x = np.array([pow(root, c, PRIME) for c in exponents], dtype=object)
    # the second group sees the same powers in another order
    groups = np.stack([x, x[::-1], x, x])

    def task(arithmetic):
        q, reached = _first_ones(groups, arithmetic)
        return np.concatenate([q.reshape(-1, x.size), reached]) % PRIME

    found = run_all(3, 1, task)
    q, reached = found[: GROUPS * GROUP].reshape(GROUPS, GROUP, x.size), found[GROUPS * GROUP :]
    positions = [0, 1, 0, 2, 2, 16, 14, None]
    for number, position in enumerate(positions):
        assert q[0, :, number].tolist() == [int(i == position) for i in range(GROUP)]
        assert q[1, :, -1 - number].tolist() == [int(i == position) for i in range(GROUP)]
    assert reached[:2].tolist() == [[1] * 8, [0] * 7 + [1]]
    assert not reached[2:].any()


def test_small_weights_times_shares_are_exact():
    generator = np.random.default_rng(3)
    weights = generator.integers(-126, 127, size=(9, 32))
    shares = np.array(
        [[int(generator.integers(0, PRIME, dtype=np.uint64)) for _ in range(6)] for _ in range(32)], object
    )
    shares[0, 0], shares[1, 1] = PRIME - 1, 0
    assert np.array_equal(linear(weights.astype(float), shares), weights.astype(object) @ shares % PRIME)


@pytest.mark.slow
def test_drawn_together_it_has_this_law():
    size = 1500
    meshes = Rehearsal(3).meshes()
    try:
        sums = together(
            [
                lambda mesh=mesh: MpycAggregation(mesh, 1).open_sum(
                    np.zeros((1, size), dtype=np.int64), JointSampler(1)
                )
                for mesh in meshes
            ]
        )
    finally:
        for mesh in meshes:
            mesh.close()
    assert all(np.array_equal(total, sums[0]) for total in sums)
    counts, weights = counted(sums[0]), expected(size)
    tails = weights < 5
    pooled = [np.append(x[~tails], x[tails].sum()) for x in (counts, weights)]
    assert chisquare(*pooled).pvalue > 1e-6


def test_every_way_through_the_table_gives_its_number(monkeypatch):
    """Dealers' exponents that are known: the number drawn is the one the table has there."""
    generator = np.random.default_rng(5)
    size = 400
    T = table()
    columns = generator.integers(0, 1 << JOINT_BITS, size)
    # first ones as deep as no run of this length would find them, and none at all
    depth = np.resize(np.arange(COIN_BITS + 1), size)
    exponents = np.zeros((GROUPS, size), dtype=object)
    for group in range(GROUPS):
        inside = depth - GROUP * group
        exponents[group] = [1 << int(i) if 0 <= i < GROUP else (0 if i >= GROUP else 1) for i in inside]

    def known(self, orders, size):
        roots = [[pow(7, (PRIME - 1) // (1 << GROUP) * int(c), PRIME) for c in row] for row in exponents]
        bits = [[PRIME - 1 if c >> (JOINT_BITS - 1 - i) & 1 else 1 for c in columns] for i in range(JOINT_BITS)]
        return np.array([*roots, *bits], dtype=object)

    monkeypatch.setattr(MpycArithmetic, "roots", known)
    found = run_all(3, 1, lambda arithmetic: _draw(size, arithmetic))
    digit = [depth[k] < COIN_BITS and T.digits[columns[k], depth[k]] == 1 for k in range(size)]
    assert np.array_equal(found, np.where(digit, T.first[columns], T.second[columns]).astype(object) % PRIME)


def test_products_need_an_honest_majority():
    with pytest.raises(ValueError, match="need at least 5 members"):
        MpycArithmetic(Sharing(Rehearsal(4).meshes()[0], None, 2, WORDS))


def test_the_coins_are_as_many_as_the_table_has_digits():
    assert table().digits.shape == (1 << JOINT_BITS, COIN_BITS)
