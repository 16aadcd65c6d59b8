"""The parts of a streamed answer: sums in a fixed order, selections, draws, reading ahead."""

from __future__ import annotations

import threading
import time
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import few_steps
import stored
from sordino.methods import NoisyGradientDescent
from sordino.oracle import linear_oracle, sampling as sampling_module
from sordino.oracle.files import source as source_module
from sordino.oracle.files.partition import Partition
from sordino.oracle.files.prefetch import prefetched
from sordino.oracle.files.row_major import Columns, Decoded, Piece, RowMajor
from sordino.oracle.files.selection import Selection
from sordino.oracle.files.source import record_units
from sordino.oracle.sampling import FixedSize, FullBatch, Poisson, drawn
from sordino.oracle.tree_sum import Term, TreeSum
from sordino.privacy.randomness import Randomness


def tree(values, low, high):
    """The definition: a node is the sum of its children, or the one child that is there."""
    if high - low == 1:
        return values.get(low)
    middle = (low + high) // 2
    left, right = tree(values, low, middle), tree(values, middle, high)
    return right if left is None else left if right is None else left + right


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 63), st.floats(-1e9, 1e9), min_size=1), st.sets(st.integers(1, 63), max_size=5))
def test_sums_do_not_depend_on_who_holds_which_blocks(values, cuts):
    edges = [0, *sorted(cuts), 64]
    whole = TreeSum()
    for first, last in pairwise(edges):
        part = TreeSum(first)
        for number in range(first, last):
            if number in values:
                part.add(Term(number, number, np.array([values[number]])))
        assert len(part.terms) <= 12
        for term in part.terms:
            whole.add(term)
    assert whole.total((1,)).tolist() == [tree(values, 0, 64)]


def test_the_sum_of_nothing():
    assert TreeSum().total((2, 3)).tolist() == np.zeros((2, 3)).tolist()


@settings(deadline=None)
@given(st.integers(1, 60), st.data())
def test_selections(records, data):
    block = 16
    everybody = Selection.everything(records, block)
    blocks = -(-records // block)
    numbers = np.concatenate([everybody.within(k) + k * block for k in range(blocks)])
    assert numbers.tolist() == list(range(records))
    batch = np.array(sorted(data.draw(st.sets(st.integers(0, records - 1)))), dtype=np.intp)
    outside, inside = everybody.divide(batch)
    assert np.concatenate([inside.within(k) + k * block for k in range(blocks)]).tolist() == batch.tolist()
    rest = np.delete(np.arange(records), batch)
    assert np.concatenate([outside.within(k) + k * block for k in range(blocks)]).tolist() == rest.tolist()
    assert outside.starts()[-1] == len(rest)
    # and once more, by the numbers that the records have among the rest
    third = np.arange(0, len(rest), 3)
    _, again = outside.divide(third)
    assert np.concatenate([again.within(k) + k * block for k in range(blocks)]).tolist() == rest[third].tolist()


def test_blocks_have_whole_bytes_and_bounded_size():
    for width in (1, 3, 10, 100, 1000, 10**6):
        rows = record_units(10, width).block
        assert rows % 8 == 0
        assert 256 <= rows <= 65536
        assert rows == 256 or rows * width <= 1 << 21


def test_only_what_a_batch_needs_is_wanted(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "_NUMBERS", 1)
    X, y = few_steps.data(1000, 3)
    partition = Partition.whole(stored.npy(tmp_path, X, y))
    assert [number for number, _ in partition.wanted(None)] == [0, 1, 2, 3]
    wanted = {number: which.tolist() for number, which in partition.wanted(np.array([0, 3, 512, 999]))}
    assert wanted == {0: [0, 3], 2: [0], 3: [231]}


def test_only_the_groups_of_a_batch_are_read(tmp_path, monkeypatch):
    from sordino.tabular import formats as arrow

    X, y = few_steps.data(1000, 3)
    source = stored.parquet_folder(tmp_path, X, y)
    read = []
    batches = arrow.ParquetTable.batches

    def watched(self, group, columns, rows):
        read.append(group)
        return batches(self, group, columns, rows)

    monkeypatch.setattr(arrow.ParquetTable, "batches", watched)
    problem = few_steps.problem(NoisyGradientDescent(1), 1000, 3)
    oracle = linear_oracle(source, None, problem, few_steps.ROWS)
    oracle.gradient(problem.start())
    # 111, 333 and 556 records in groups of 97
    assert read == [0, 1, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5]
    read.clear()
    oracle.gradient(problem.start(), np.array([5, 111, 112, 999]))
    assert read == [0, 0, 5]


@pytest.mark.parametrize("sampling", [Poisson(0.3), FixedSize(30), Poisson(0.001), FullBatch()])
def test_few_records_are_drawn_as_in_memory(sampling):
    here, there = (Randomness.seeded(4).sampling for _ in range(2))
    np.testing.assert_array_equal(drawn(sampling, 100, here), sampling.draw(100, there))


@pytest.mark.slow
def test_many_records_are_drawn_with_the_same_law(monkeypatch):
    """Spans of four records: every subset of the right size is equally likely."""
    monkeypatch.setattr(sampling_module, "SPAN", 4)
    rng, sampling = Randomness.seeded(5).sampling, FixedSize(6)
    records, runs = 11, 20_000
    found = [drawn(sampling, records, rng) for _ in range(runs)]
    for batch in found[:100]:
        assert (np.diff(batch) > 0).all()
    share = np.bincount(np.concatenate(found), minlength=records) / runs
    rate = sampling.expected_size(records) / records
    # five standard deviations
    assert np.abs(share - rate).max() < 5 * np.sqrt(rate * (1 - rate) / runs)
    pairs = Counter((0 in batch, 10 in batch) for batch in map(set, found))
    size = sampling.expected_size(records)
    both = size * (size - 1) / (records * (records - 1))
    assert abs(pairs[True, True] / runs - both) < 5 * np.sqrt(both / runs)
    assert {len(batch) for batch in found} == {6}
    assert drawn(FullBatch(), records, rng) is None


def test_items_are_made_ahead_and_at_most_three_are_alive():
    made = []

    def items():
        for number in range(10):
            made.append(number)
            yield number

    with prefetched(items()) as ready:
        for number in ready:
            for _ in range(200):
                if len(made) == min(number + 3, 10):
                    break
                time.sleep(0.005)
            assert made == list(range(min(number + 3, 10)))


def test_an_error_of_the_reading_thread_arrives():
    def items():
        yield 1
        raise ValueError("as it should be")

    with prefetched(items()) as ready:
        assert next(ready) == 1
        with pytest.raises(ValueError, match="as it should be"):
            next(ready)


def test_no_thread_outlives_an_answer():
    def interrupted():
        with prefetched(iter(range(1000))) as ready:
            next(ready)
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert not [thread for thread in threading.enumerate() if thread.name == "sordino-read"]


def test_answers_from_several_threads_at_once(tmp_path):
    X, y = few_steps.data(5000, 3)
    source = stored.parquet_folder(tmp_path, X, y)
    problem = few_steps.problem(NoisyGradientDescent(1), 5000, 3)
    oracle = linear_oracle(source, None, problem, few_steps.ROWS)
    want, got = oracle.gradient(problem.start()), [None] * 4

    def work(number):
        got[number] = oracle.gradient(problem.start())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answer in got:
        np.testing.assert_array_equal(answer, want)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 5, 8, 16, 17, 31, 40])
def test_columns_become_rows(kind, width):
    rng = np.random.default_rng(0)
    row_major = RowMajor()
    for ranges in ([(0, 1)], [(3, 73), (9, 10), (1, 201)], [(5, 40_005)], [(2, 5)], [(0, 8), (7, 16), (1, 64)]):
        pieces, want = [], []
        for start, stop in ranges:
            columns = [rng.normal(size=stop + 3).astype(kind) for _ in range(width)]
            for column in columns:
                column.flags.writeable = False
            pieces.append(Piece(Decoded(columns), start, stop))
            want.append(np.stack(columns, axis=1)[start:stop])
        rows = row_major(Columns(pieces, np.dtype(kind)))
        np.testing.assert_array_equal(rows, np.concatenate(want))
        assert rows.dtype == kind
        assert rows.flags.c_contiguous


def test_what_has_rows_already_is_left_alone():
    X = np.ones((3, 2))
    assert RowMajor()(X) is X
