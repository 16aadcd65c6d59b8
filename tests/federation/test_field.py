from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from sordino.federation import field_kernels
from sordino.federation.field import LIMIT, P, combine, reconstruct, share, to_field, to_whole, uniform, weights_at
from sordino.privacy.randomness import Randomness

EDGES = [0, 1, 2, P - 1, P - 2, P // 2, P // 2 + 1, (1 << 32) - 1, 1 << 32, (1 << 60) - 1, 1 << 60]


@pytest.fixture
def mpyc(monkeypatch):
    """MPyC's own sharing; importing it reads the command line."""
    monkeypatch.setattr("sys.argv", ["test", "--no-log"])
    from mpyc import finfields, thresha

    return thresha, finfields.GF(P)


def stream(seed=1):
    return Randomness.seeded(seed).noise


def elements(count=200):
    return np.concatenate([np.array(EDGES, dtype=np.uint64), uniform(stream(), (count,))])


def test_products_are_those_of_whole_numbers():
    a = elements()
    pairs = [(int(x), int(y)) for x in a for y in a[:15]]
    left, right = (np.array(side, dtype=np.uint64) for side in zip(*pairs, strict=True))
    out = np.empty_like(left)
    field_kernels.products(left[None], right[None], out)
    assert [int(x) for x in out] == [x * y % P for x, y in pairs]


def test_sums_of_products_are_those_of_whole_numbers():
    a, b = uniform(stream(2), (9, 50)), uniform(stream(3), (9, 50))
    out = np.empty(50, dtype=np.uint64)
    field_kernels.products(a, b, out)
    assert [int(x) for x in out] == [
        sum(int(u) * int(v) for u, v in zip(a[:, k], b[:, k], strict=True)) % P for k in range(50)
    ]


def test_inverse_roots_square_to_the_inverse():
    squares = np.array([int(x) ** 2 % P for x in elements() if x], dtype=np.uint64)
    roots = np.empty_like(squares)
    field_kernels.inverse_roots(squares, roots)
    assert all(int(r) ** 2 * int(s) % P == 1 for r, s in zip(roots, squares, strict=True))


def test_whole_numbers_come_back():
    values = np.array([0, 1, -1, LIMIT, -LIMIT, 12345, -(1 << 59)])
    assert np.array_equal(to_whole(to_field(values)), values)


def test_beyond_the_limit_numbers_wrap_around():
    assert to_whole(to_field(np.array([LIMIT + 1])))[0] == -LIMIT


@pytest.mark.parametrize(("degree", "members"), [(0, 3), (1, 2), (1, 3), (2, 5), (4, 5), (4, 10)])
def test_our_shares_are_mpycs_shares(degree, members, mpyc):
    thresha, field = mpyc
    secret = elements(20)
    shares = share(secret, degree, members, stream())
    points = [(i + 1, [int(x) for x in shares[i]]) for i in range(members - degree - 1, members)]
    assert [int(x) % P for x in thresha.recombine(field, points)] == [int(x) for x in secret]
    theirs = np.array(thresha.random_split(field, [field(int(x)) for x in secret], degree, members), dtype=np.uint64)
    assert np.array_equal(reconstruct(theirs, range(members), degree), secret)


def test_any_large_enough_set_of_shares_gives_the_secret():
    secret = elements(5)
    shares = share(secret, 2, 6, stream())
    for holders in ([0, 1, 2], [3, 4, 5], [5, 0, 3], [1, 2, 3, 4, 5]):
        assert np.array_equal(reconstruct(shares[holders], holders, 2), secret)


def test_an_altered_share_is_noticed():
    shares = share(elements(5), 2, 5, stream())
    shares[4, 3] ^= np.uint64(1)
    with pytest.raises(ValueError, match="do not fit together, nothing was opened"):
        reconstruct(shares, range(5), 2)


def test_too_few_shares_are_refused():
    shares = share(elements(5), 2, 5, stream())
    with pytest.raises(ValueError, match="2 shares of a polynomial of degree 2: 3 are needed"):
        reconstruct(shares[:2], [0, 1], 2)


@pytest.mark.parametrize("secret", [0, 1, P - 1])
def test_as_many_shares_as_the_degree_are_uniform_whatever_the_secret(secret):
    shares = share(np.full(4000, secret, dtype=np.uint64), 2, 5, stream(9))
    for one, other in ((0, 1), (2, 4)):
        assert kstest(shares[one] / P, "uniform").pvalue > 1e-4
        # uniform as a pair: so is any combination of the two
        mixed = combine(shares[[one, other]], np.array([3, 5], dtype=np.uint64))
        assert kstest(mixed / P, "uniform").pvalue > 1e-4


def test_sums_of_shares_are_shares_of_the_sum():
    one, other = np.array([5, P - 1], dtype=np.uint64), np.array([7, 2], dtype=np.uint64)
    total = combine(np.stack([share(one, 2, 5, stream(1)), share(other, 2, 5, stream(2))]), np.ones(2, dtype=np.uint64))
    assert reconstruct(total, range(5), 2).tolist() == [12, 1]


def test_weights_reproduce_polynomials():
    # 3 + 2x + x^2 at 1, 4, 5 gives 3 at 0 and 11 at 2
    values = np.array([[6], [27], [38]], dtype=np.uint64)
    assert combine(values, weights_at((0, 3, 4), 0)).tolist() == [3]
    assert combine(values, weights_at((0, 3, 4), 2)).tolist() == [11]
