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
