"""Subsets and orders are uniform, whatever the sizes and however the words come."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from sordino.oracle.kernels import subsets
from sordino.oracle.kernels.subsets import permutation, subset
from sordino.privacy.randomness import Randomness


@pytest.fixture
def stream():
    return Randomness.seeded(3).sampling


def uniform(found, outcomes):
    counts = [found.count(outcome) for outcome in outcomes]
    assert sum(counts) == len(found)
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("size", range(1, 5))
def test_every_subset_is_as_likely(stream, size):
    found = [tuple(subset(5, size, stream).tolist()) for _ in range(3000)]
    uniform(found, list(itertools.combinations(range(5), size)))


def test_every_order_is_as_likely(stream):
    uniform([tuple(permutation(4, stream).tolist()) for _ in range(6000)], list(itertools.permutations(range(4))))


@pytest.mark.parametrize("records", [1, 2, 63, 64, 65, 128, 1000, 70_000])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.501, 0.99, 1.0])
def test_members_are_in_order_and_below_the_number_of_records(stream, records, share):
    size = math.ceil(share * records)
    members = subset(records, size, stream)
    assert members.dtype == np.intp
    assert len(members) == size
    assert (np.diff(members) > 0).all()
    assert size == 0 or (members[0] >= 0 and members[-1] < records)


def floyd(records, few, words):
    """As it is written down, one number after the other."""
    members, words = set(), iter(words.tolist())
    for j in range(records - few, records):
        product = next(words) * (j + 1)
        while product % 2**32 < 2**32 % (j + 1):
            product = next(words) * (j + 1)
        t = product >> 32
        members.add(j if t in members else t)
    return members


@pytest.mark.parametrize("records", [64, 1000, 600_000])
@pytest.mark.parametrize("share", [0.0003, 0.0019, 0.002, 0.01, 0.1, 0.7, 0.999])
def test_members_are_those_of_floyds_algorithm(records, share):
    """However many of them a word has, and whether a second table says which words have any."""
    size = math.ceil(share * records)
    few = min(size, records - size)
    members = floyd(records, few, Randomness.seeded(9).sampling.words(few + 100).view(np.uint32))
    expected = members if few == size else set(range(records)) - members
    np.testing.assert_array_equal(subset(records, size, Randomness.seeded(9).sampling), sorted(expected))


def test_members_that_crowd_into_few_words_are_all_read():
    """Many more in a word than there are on average."""
    table = np.zeros(1000, dtype=np.uint64)
    table[[0, 17, 18, 999]] = ~np.uint64(0), 2**63 + 1, ~np.uint64(0) >> np.uint64(3), 7
    expected = [64 * k + bit for k in range(1000) for bit in range(64) if int(table[k]) >> bit & 1]
    for places in (np.arange(0), np.flatnonzero(table)):
        assert subsets._read(table, places, len(expected)).tolist() == expected
        assert subsets._read(table, places, 10 * len(expected)).tolist() == expected


def test_a_few_among_very_many(stream):
    members = subset(10**11, 5, stream)
    assert len(set(members.tolist())) == 5
    assert members.max() > 2**32


def test_words_that_do_not_suffice_are_followed_by_others(stream, monkeypatch):
    """A word at a time, so that every draw is a new call."""
    monkeypatch.setattr(subsets, "_words", lambda count, stream: stream.words(1).view(np.uint32)[:1])
    uniform([tuple(subset(5, 2, stream).tolist()) for _ in range(2000)], list(itertools.combinations(range(5), 2)))
    uniform([tuple(permutation(3, stream).tolist()) for _ in range(2000)], list(itertools.permutations(range(3))))


def test_no_number_comes_up_more_often_than_another(stream):
    """Of 2^32 words times 3 x 2^29, three numbers in eight would be multiples of three if no word was drawn again."""
    words, used, found = stream.words(8000).view(np.uint32), 0, []
    while len(found) < 10_000:
        number, used = subsets._below(3 << 29, words, used)
        found.append(number % 3)
    uniform(found, [0, 1, 2])
