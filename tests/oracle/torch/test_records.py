"""Where records may lie: arrays, tensors, mapped files and data sets give the same answers."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset

import torch_networks as nets
from sordino.oracle.persons import Persons
from sordino.oracle.query import Gradient
from sordino.oracle.torch import TorchOracle, network_problem, parameter_vector
from sordino.oracle.torch.records import records_of
from sordino.privacy.randomness import Randomness
from sordino.problem import PersonUnit

RECORDS = 23
X = np.random.default_rng(0).normal(size=(RECORDS, 6)).astype(np.float32)
Y = np.arange(RECORDS) % 3
BATCHES = [
    pytest.param(None, id="all"),
    pytest.param(np.array([0, 3, 4, 21]), id="some"),
    pytest.param(np.arange(RECORDS), id="each", marks=pytest.mark.slow),
    pytest.param(np.array([], dtype=np.intp), id="none", marks=pytest.mark.slow),
]


class Growing(Dataset):
    """A list to which somebody appends."""

    def __init__(self):
        self.items = [(torch.from_numpy(x), int(y)) for x, y in zip(X, Y, strict=True)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, number):
        return self.items[number]


def read_only(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def mapped(folder):
    path = folder / "records.dat"
    np.memmap(path, dtype=np.float32, mode="w+", shape=X.shape)[:] = X
    return np.memmap(path, dtype=np.float32, mode="r", shape=X.shape)


SOURCES = {
    "arrays": lambda folder: (X, Y),
    "a list": lambda folder: [X.tolist(), Y.tolist()],
    "read-only arrays": lambda folder: (read_only(X), read_only(Y)),
    "double precision": lambda folder: (X.astype(np.float64), Y),
    "other byte order": lambda folder: (X.astype(">f4"), Y.astype(">i8")),
    "small integers as classes": lambda folder: (X, Y.astype(np.int64)),
    "strided": lambda folder: (np.repeat(X, 2, axis=1)[:, ::2], Y),
    "tensors": lambda folder: (torch.from_numpy(X), torch.from_numpy(Y)),
    "tensors with a history": lambda folder: (torch.from_numpy(X).requires_grad_(), torch.from_numpy(Y)),
    "array and tensor": lambda folder: (X, torch.from_numpy(Y)),
    "a mapped file": lambda folder: (mapped(folder), Y),
    "a data set of tensors": lambda folder: TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)),
    "a data set of numbers": lambda folder: Growing(),
}


def model_of():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("batch", BATCHES)
def test_every_source_gives_the_same_answer(source, batch, tmp_path):
    model = model_of()
    at = parameter_vector(model)
    rows = nets.gradients(model, (torch.from_numpy(X), torch.from_numpy(Y)), at)
    data = SOURCES[source](tmp_path)
    for chunk in (5, 32):
        oracle = TorchOracle(model, nets.CROSS_ENTROPY, data, network_problem(model, RECORDS), chunk=chunk)
        query = Gradient(at, 0.7, batch)
        expected = nets.clipped(rows if batch is None else rows[batch], 0.7 / oracle._room(query)).sum(0)
        answer = oracle._answer(query)
        assert np.linalg.norm(answer - expected) <= 1e-5 * max(np.linalg.norm(expected), 1e-9)


@pytest.mark.filterwarnings("error")
def test_only_the_rows_of_the_batch_are_read():
    class Watched(np.ndarray):
        seen: list

        def __getitem__(self, which):
            self.seen.append(which)
            return super().__getitem__(which)

        def take(self, which, axis=None, out=None, mode="raise"):
            self.seen.append(which)
            return super().take(which, axis, out, mode)

    watched = X.view(Watched)
    watched.seen = []
    model = model_of()
    oracle = TorchOracle(model, nets.CROSS_ENTROPY, (watched, Y), network_problem(model, RECORDS))
    watched.seen.clear()
    oracle._answer(Gradient(parameter_vector(model), 1.0, np.array([2, 5])))
    assert [list(which) for which in watched.seen] == [[2, 5]]


def test_images_of_bytes_must_be_converted_first():
    """Whole numbers are words; a picture must be scaled by whoever knows how."""
    model = model_of()
    with pytest.raises(ValueError, match=r"dtype torch\.uint8"):
        TorchOracle(model, nets.CROSS_ENTROPY, (X.astype(np.uint8), Y), network_problem(model, RECORDS))


def test_a_data_set_that_grows_during_the_run_is_refused():
    data = Growing()
    model = model_of()
    oracle = TorchOracle(model, nets.CROSS_ENTROPY, data, network_problem(model, RECORDS))
    data.items.append(data.items[0])
    with pytest.raises(ValueError, match="had 23 records and now has 24"):
        oracle._answer(Gradient(parameter_vector(model), 1.0))


@pytest.mark.parametrize("targets", [[1, 0.5, 0.5], [1.0, 0.5, 2]])
def test_no_record_decides_the_dtype_of_others(targets):
    """As whole numbers, targets of 0.5 would be 0 wherever the first record's is 1, and not 1.0."""
    model, data = nn.Linear(6, 1), [(torch.from_numpy(x), y) for x, y in zip(X, targets, strict=False)]

    class Mixed(Dataset):
        def __len__(self):
            return len(data)

        def __getitem__(self, number):
            return data[number]

    oracle = TorchOracle(model, lambda out, y: (out[:, 0] - y) ** 2, Mixed(), network_problem(model, 3))
    with pytest.raises(ValueError, match="one dtype"):
        oracle._answer(Gradient(parameter_vector(model), 1.0))


class Numbered(Dataset):
    """Items that somebody makes of their numbers."""

    def __init__(self, item):
        self.item = item

    def __len__(self):
        return RECORDS

    def __getitem__(self, number):
        return self.item(number)


def read(data, which):
    """The inputs, with the same seeds every time."""
    records, seeds = records_of(data), np.arange(3, dtype=np.uint64)
    records.sample(seeds)
    inputs, targets = torch.empty(len(which), 6), torch.empty(len(which), dtype=torch.int64)
    records.read(np.array(which), inputs, targets, seeds)
    return inputs


def test_a_data_set_may_use_the_same_memory_for_all_items():
    """Else the last one of a batch would stand in all its rows, and count as often."""
    buffer = torch.empty(6)
    reused = Numbered(lambda number: (buffer.copy_(torch.from_numpy(X[number])), int(Y[number])))
    assert torch.equal(read(reused, [4, 0, 7]), torch.from_numpy(X[[4, 0, 7]]))


def drawn_by(number):
    # every third record draws more than the others
    more = 3 if number % 3 == 0 else 1
    by_numpy = np.random.rand(more)[-1]  # noqa: NPY002
    return torch.rand(more)[-1] + by_numpy + [random.random() for _ in range(more)][-1]


def test_what_a_record_draws_is_not_moved_by_what_others_draw():
    data = Numbered(lambda number: (torch.full((6,), float(drawn_by(number))), 0))
    one, other = read(data, [0, 1, 2]), read(data, [1, 1, 2])
    assert torch.equal(one[1:], other[1:])
    assert not torch.equal(one[1], one[2])
    assert len(set(read(data, [1] * 20)[:, 0].tolist())) == 20


class Counting(Numbered):
    def __init__(self):
        super().__init__(lambda number: (torch.full((6,), float(self.seen)), 0))
        self.seen = 0

    def __getitem__(self, number):
        self.seen += 1
        return super().__getitem__(number)


def mirrored():
    own = np.random.default_rng(0)
    return Numbered(lambda number: (X[number] if own.random() < 0.5 else -X[number], 0))


def blurred():
    own = torch.Generator().manual_seed(0)
    return Numbered(lambda number: (torch.rand(6, generator=own), 0))


OWN = {"a generator of its own": mirrored, "one of torch": blurred, "a count": Counting}


@pytest.mark.parametrize("case", OWN)
def test_a_data_set_that_draws_elsewhere_or_remembers_is_refused(case):
    """Which of its numbers a record gets would go by how many records were read before it."""
    with pytest.raises(ValueError, match="another one when it is read again"):
        records_of(OWN[case]()).sample(np.zeros(3, dtype=np.uint64))


def test_an_item_that_is_not_a_number_stays_the_same():
    data = Numbered(lambda number: (np.full(6, np.nan), 0))
    assert records_of(data).sample(np.zeros(3, dtype=np.uint64))[0].isnan().all()


@pytest.mark.parametrize("number", [0, 3], ids=["the first", "another"])
def test_what_a_data_set_says_of_a_record_is_not_passed_on(number):
    def item(asked):
        if asked == number:
            raise KeyError("patient 4711 has HIV")
        return X[asked], int(Y[asked])

    with pytest.raises(ValueError, match="at least one of its records") as told:
        read(Numbered(item), [1, 3])
    assert "4711" not in str(told.value)
    assert told.value.__cause__ is None
    assert told.value.__context__ is None


def pairs(first, last):
    return TensorDataset(torch.from_numpy(X[first:last]), torch.from_numpy(Y[first:last]))


ONE = pairs(0, 9)
TWICE = {
    "an index": Subset(ONE, [0, 3, 3, 5]),
    "an index from behind": Subset(ONE, [8, -1, 2]),
    "a data set": ConcatDataset([ONE, ONE]),
    "parts that overlap": ConcatDataset([Subset(ONE, range(5)), Subset(ONE, [4, 6])]),
    "an index of a part": Subset(Subset(ONE, [2, 4, 2]), [0, 2]),
}


@pytest.mark.parametrize("case", TWICE)
def test_a_record_that_is_there_twice_is_refused(case):
    """Each would be one record of the guarantee, and what they are copies of half as well protected."""
    model, data = model_of(), TWICE[case]
    with pytest.raises(ValueError, match="a record more than once"):
        TorchOracle(model, nets.CROSS_ENTROPY, data, network_problem(model, len(data)))


def test_parts_of_data_sets_are_read_as_they_are():
    two = ConcatDataset([Subset(Subset(ONE, [7, 2, 4]), [2, 0]), pairs(9, 12), Subset(ONE, [0])])
    model = model_of()
    TorchOracle(model, nets.CROSS_ENTROPY, two, network_problem(model, 6))
    assert torch.equal(read(two, range(6)), torch.from_numpy(X[[4, 7, 9, 10, 11, 0]]))


def test_copies_of_a_record_may_be_one_person():
    data, unit = TWICE["an index"], PersonUnit(2)
    persons = Persons.of([0, 3, 3, 5], unit, Randomness.seeded(0))
    model = model_of()
    TorchOracle(model, nets.CROSS_ENTROPY, data, network_problem(model, 3, person=unit), persons=persons)


def test_a_stream_is_refused():
    class Stream(IterableDataset):
        def __iter__(self):
            yield X[0], Y[0]

    with pytest.raises(ValueError, match="map-style"):
        records_of(Stream())


def test_items_must_be_pairs():
    model = model_of()
    with pytest.raises(ValueError, match="pairs"):
        TorchOracle(model, nets.CROSS_ENTROPY, TensorDataset(torch.from_numpy(X)), network_problem(model, RECORDS))


def test_single_numbers_are_not_records():
    with pytest.raises(ValueError, match="one row per record"):
        records_of((3.0, 4.0))
