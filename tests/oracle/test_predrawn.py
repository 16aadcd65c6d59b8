"""Batches that are drawn together: every coin of every step by itself, each batch handed out once and to one run."""

import itertools
import os
import threading

import numpy as np
import pytest
from scipy import stats

from sordino.oracle import predrawn, sampling
from sordino.oracle.predrawn import batch_of_coins
from sordino.oracle.sampling import Poisson
from sordino.privacy.randomness import Randomness

RECORDS, STEPS = 7, 60_000


@pytest.fixture
def stream():
    return Randomness.seeded(3).sampling


def rows(rate, stream):
    table = np.zeros((STEPS, RECORDS), dtype=bool)
    for row in table:
        batch = batch_of_coins(RECORDS, rate, stream)
        assert batch.dtype == np.intp
        assert (np.diff(batch) > 0).all()
        row[batch] = True
    return table


def least(table, rate):
    """The smallest p-value of how often a record is drawn, two are, and one is in two steps that follow each other."""
    pairs = [table[:, i] & table[:, j] for i, j in itertools.combinations(range(RECORDS), 2)]
    # the last record of a step and the first of the next one stand side by side
    again = [table[:-1, i] & table[1:, j] for i in range(RECORDS) for j in range(RECORDS)]
    counts = [(table.sum(axis=0), rate), (np.sum(pairs, axis=1), rate**2), (np.sum(again, axis=1), rate**2)]
    return min(stats.binomtest(int(k), STEPS, p).pvalue for ks, p in counts for k in ks)


@pytest.mark.parametrize("together", [1 << 16, 40])
@pytest.mark.parametrize("rate", [0.05, 0.3, 0.9])
def test_records_enter_by_coins_independent_of_each_other_and_of_other_steps(stream, monkeypatch, rate, together):
    monkeypatch.setattr(predrawn, "_TOGETHER", together)
    table = rows(rate, stream)
    assert least(table, rate) > 1e-7
    # a tenth more would have been noticed
    assert least(table, 1.1 * rate) < 1e-9
    sizes = np.bincount(table.sum(axis=1), minlength=RECORDS + 1)
    for size, count in enumerate(sizes):
        assert stats.binomtest(int(count), STEPS, stats.binom.pmf(size, RECORDS, rate)).pvalue > 1e-8


def test_who_asks_a_few_times_has_drawn_for_less_than_twice_as_many(stream):
    drawn_for = []
    for _ in range(9):
        Poisson(0.001).draw(1_000_000, stream)
        drawn_for.append(stream.predrawn[1_000_000, 0.001][0])
    # of so many steps together, when they were drawn last
    assert drawn_for == [1, 2, 2, 4, 4, 4, 4, 8, 8]


def test_no_more_are_drawn_together_than_are_worth_it(stream):
    for _ in range(300):
        Poisson(0.001).draw(1_000_000, stream)
    steps, batches = stream.predrawn[1_000_000, 0.001]
    assert steps * 1_000_000 * 0.001 < predrawn._TOGETHER
    assert len(batches) < steps
    # where hardly anybody is a member, draws are counted and not members
    for _ in range(100):
        Poisson(1e-12).draw(1_000_000, stream)
    assert stream.predrawn[1_000_000, 1e-12][0] <= predrawn._TOGETHER / (1_000_000 * 2**-13)


def test_large_batches_are_drawn_alone(stream):
    for _ in range(3):
        Poisson(0.3).draw(sampling.MANY + 1, stream)
    assert stream.predrawn[sampling.MANY + 1, 0.3] == (1, [])


def test_no_batch_is_handed_out_twice():
    """Nor changed by what is done to another one."""
    shared = Randomness.system().sampling
    taken = [[] for _ in range(4)]

    def take(mine):
        for _ in range(500):
            mine.append(batch_of_coins(200_000, 1e-4, shared))

    threads = [threading.Thread(target=take, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    batches = [batch for mine in taken for batch in mine]
    # twenty of 200,000 records: no two of 2,000 batches are the same by chance
    assert len({batch.tobytes() for batch in batches}) == len(batches) == 2000
    kept = [batch.copy() for batch in batches[1:]]
    batches[0][:] = -1
    for batch, before in zip(batches[1:], kept, strict=True):
        np.testing.assert_array_equal(batch, before)


def test_many_kinds_of_steps_are_forgotten(stream):
    for k in range(100):
        for _ in range(3):
            batch_of_coins(200_000 + k, 0.001, stream)
    assert len(stream.predrawn) <= predrawn._KINDS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_process_has_none_of_its_parents_batches():
    for randomness in (Randomness.system(), Randomness.seeded(1)):
        stream = randomness.sampling
        for _ in range(5):
            batch_of_coins(1_000_000, 1e-4, stream)
        waiting = [batch.tobytes() for batch in stream.predrawn[1_000_000, 1e-4][1]]
        assert len(waiting) == 2
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, batch_of_coins(1_000_000, 1e-4, stream).tobytes())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as told:
            theirs = told.read()
        os.waitpid(child, 0)
        assert len(theirs) > 0
        assert theirs not in waiting
        assert batch_of_coins(1_000_000, 1e-4, stream).tobytes() == waiting[-1]
