"""Where records may lie: arrays, tensors, mapped files and data sets give the same answers."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import torch_networks as nets
from sordino.oracle.query import Gradient
from sordino.oracle.torch import TorchOracle, network_problem, parameter_vector
from sordino.oracle.torch.records import records_of

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
