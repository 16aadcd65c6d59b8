"""Where a network's records lie: arrays, tensors, files mapped into memory, or a data set of PyTorch."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset

from sordino.oracle.torch.isolation import bits_of

Which = NDArray[np.intp] | slice
Seeds = NDArray[np.uint64]

_READS = 8
"""How often the first item is read to see whether it stays the same: a picture that is mirrored or not by somebody
else's coin does once in 128 times."""


class Records(Protocol):
    """Inputs and targets by number. Only those asked for are read."""

    def __len__(self) -> int: ...
    def read(self, which: Which, inputs: Tensor, targets: Tensor, seeds: Seeds) -> None:
        """Write records into these tensors, as many rows as there are records, in the tensors' dtype.

        What is drawn on the way, as to turn a picture at random, follows from the seeds, three of them, and from the
        place of the record among those: not from what others draw.
        """
        ...

    def sample(self, seeds: Seeds) -> tuple[Tensor, Tensor]:
        """The first record, as a batch of one: its shape and dtype are those of all others."""
        ...


class ArrayRecords:
    """Two arrays or tensors of equal length; an array may be a file mapped into memory."""

    def __init__(self, X: Any, y: Any) -> None:
        self._parts = [_Rows(part, name) for part, name in ((X, "X"), (y, "y"))]
        sizes = [len(part) for part in self._parts]
        if sizes[0] != sizes[1]:
            raise ValueError(f"X has {sizes[0]} records and y has {sizes[1]}: give one target per record.")

    def __len__(self) -> int:
        return len(self._parts[0])

    def read(self, which: Which, inputs: Tensor, targets: Tensor, seeds: Seeds) -> None:
        for part, out in zip(self._parts, (inputs, targets), strict=True):
            part.read(which, out)

    def sample(self, seeds: Seeds) -> tuple[Tensor, Tensor]:
        inputs, targets = (part.sample() for part in self._parts)
        return inputs, targets


class _Rows:
    def __init__(self, values: Any, name: str) -> None:
        self._values = values if isinstance(values, Tensor) else np.asanyarray(values)
        if self._values.ndim == 0:
            raise ValueError(f"{name} is a single number: give an array with one row per record.")
        if isinstance(self._values, np.ndarray):
            if self._values.dtype.kind not in "fiub":
                raise ValueError(
                    f"{name} has dtype {self._values.dtype}: records are numbers; encode other values first."
                )
        else:
            self._values = self._values.detach()

    def __len__(self) -> int:
        return len(self._values)

    def sample(self) -> Tensor:
        return self._tensor(slice(0, 1))

    def read(self, which: Which, out: Tensor) -> None:
        # always a copy: a layer that works in place must not reach the records
        if not isinstance(which, slice) and self._gathers(which, out):
            return
        out.copy_(self._tensor(which))

    def _gathers(self, which: NDArray[np.intp], out: Tensor) -> bool:
        """Copy rows where they are wanted, where neither their numbers nor their device must change."""
        if isinstance(self._values, Tensor):
            if alike := self._values.dtype == out.dtype and self._values.device == out.device:
                torch.index_select(self._values, 0, _index(which).to(out.device), out=out)
            return alike
        alike = out.device.type == "cpu" and out.dtype is not torch.bfloat16 and self._values.dtype == out.numpy().dtype
        if alike:
            # numbers were checked before: "clip" only spares a second buffer
            np.take(self._values, which, axis=0, out=out.numpy(), mode="clip")
        return alike

    def _tensor(self, which: Which) -> Tensor:
        if isinstance(self._values, Tensor):
            if isinstance(which, slice):
                return self._values[which]
            return self._values.index_select(0, _index(which).to(self._values.device))
        return torch.from_numpy(np.array(self._values[which], dtype=_native(self._values.dtype)))


def _index(which: NDArray[np.intp]) -> Tensor:
    return torch.from_numpy(which.astype(np.int64, copy=False))


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in this machine's byte order."""
    return dtype.newbyteorder("=")


class DatasetRecords:
    """A map-style data set whose items are (input, target).

    Every item has seeds of its own for the generators of PyTorch, NumPy and Python: with one stream for all of them a
    record would decide which part of it the next ones draw, and torch takes no more than 32 bits of a seed, few enough
    to try them all. A data set that draws from elsewhere is refused, as far as its first item shows it.
    """

    def __init__(self, dataset: Dataset[Any]) -> None:
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
            raise ValueError(
                f"{type(dataset).__name__} has no length: records are drawn by their number, so give a map-style "
                "data set with __len__ and __getitem__."
            )
        self._dataset = dataset
        # those of the first record, which is the sample
        self._dtypes: list[torch.dtype] = []
        self._size = len(dataset)

    def __len__(self) -> int:
        size = len(self._dataset)
        if size != self._size:
            raise ValueError(
                f"the data set had {self._size} records and now has {size}: a run is accounted for one set of records; "
                "keep it unchanged until the run has ended."
            )
        return size

    def read(self, which: Which, inputs: Tensor, targets: Tensor, seeds: Seeds) -> None:
        numbers = range(*which.indices(self._size)) if isinstance(which, slice) else which.tolist()
        with _generators_put_back():
            for place, number in enumerate(numbers):
                # written before the next one is read, for which a data set may use the same memory
                self._write(self._item(number, seeds, place), inputs[place], targets[place])

    def _write(self, item: list[Tensor], *places: Tensor) -> None:
        for out, part, dtype in zip(places, item, self._dtypes, strict=True):
            if part.shape != out.shape:
                raise ValueError("the items of a data set must have one shape: cut or pad them.")
            # not converted: a whole number as the first record's target would cut off everybody's fractions
            if part.dtype != dtype:
                raise ValueError(
                    "the items of a data set must have one dtype for all inputs and one for all targets, because "
                    "the first record's is taken for that of all: convert them, as by float(target)."
                )
            out.copy_(part)

    def sample(self, seeds: Seeds) -> tuple[Tensor, Tensor]:
        with _generators_put_back():
            first, *again = ([part.clone() for part in self._item(0, seeds, 0)] for _ in range(_READS))
        if not all(_is_same(one, other) for item in again for one, other in zip(first, item, strict=True)):
            raise ValueError(
                "the first item of the data set is another one when it is read again, although torch, numpy.random and "
                "random were seeded alike: it draws from a generator of its own, or remembers what was read, so that "
                "one record could decide what becomes of others. Draw from torch.rand, numpy.random or random, or seed "
                "that generator by one of them in __getitem__."
            )
        input, target = first
        self._dtypes = [input.dtype, target.dtype]
        return input.unsqueeze(0), target.unsqueeze(0)

    def _item(self, number: int, seeds: Seeds, place: int) -> list[Tensor]:
        _seed(seeds, place)
        failed, parts = "", []
        try:
            item = self._dataset[number]
            if isinstance(item, tuple | list) and len(item) == 2:
                parts = [_tensor(part) for part in item]
        except Exception as error:
            # no more than that: what it says may name a value, or the file of a record
            failed = type(error).__name__
        if failed:
            raise ValueError(
                f"the data set fails on at least one of its records ({failed}; reading them one by one will show why): "
                "give one whose items can all be read, and are numbers."
            )
        if not parts:
            raise ValueError("the items of a data set must be pairs (input, target).")
        return parts


def _tensor(part: Any) -> Tensor:
    # by way of NumPy, in which a number is a double
    return part.detach() if isinstance(part, Tensor) else torch.from_numpy(np.asarray(part))


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(bits_of(one), bits_of(other))


@contextmanager
def _generators_put_back() -> Iterator[None]:
    """Whatever a data set draws, the generators' own state afterwards."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng([]):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002


def _seed(seeds: Seeds, place: int) -> None:
    """Seeds that nobody knows, for the item at this place alone."""
    mixed = hashlib.blake2b(place.to_bytes(8, "little"), key=seeds.tobytes(), digest_size=24).digest()
    own = np.frombuffer(mixed, dtype=np.uint64)
    # not torch.manual_seed, which looks for every kind of device, and takes longer than most items
    torch.default_generator.manual_seed(int(own[0]))
    random.seed(int(own[1]))
    np.random.seed(own[2:].view(np.uint32))  # noqa: NPY002


def require_each_once(data: Any) -> None:
    """Raise a sentence where a data set of PyTorch has a record twice, as far as PyTorch's own wrappers say so."""
    if isinstance(data, Subset | ConcatDataset):
        origins = _origins(data, {})
        if len(np.unique(origins)) < len(origins):
            raise ValueError(
                "the data set has a record more than once (an index twice in a Subset, or a data set twice in a "
                "ConcatDataset), and each of them would be protected as if it were there once: give every record once. "
                "A rare class is made to count for more by the loss; or say by `person` which items are of one record."
            )


def _origins(dataset: Dataset[Any], known: dict[int, int]) -> NDArray[np.int64]:
    """A number for every item, the same for the same item of the same data set."""
    if isinstance(dataset, Subset):
        return _origins(dataset.dataset, known)[np.asarray(dataset.indices, dtype=np.intp)]
    if isinstance(dataset, ConcatDataset):
        return np.concatenate([_origins(part, known) for part in dataset.datasets])
    first = known.setdefault(id(dataset), len(known)) << 40
    return first + np.arange(len(dataset), dtype=np.int64)  # type: ignore[arg-type]


def records_of(data: Any) -> Records:
    """The records behind `data`: a pair (X, y) of arrays or tensors, or a data set of PyTorch."""
    if type(data) is TensorDataset and len(data.tensors) == 2:
        data = data.tensors
    if isinstance(data, Dataset):
        records: Records = DatasetRecords(data)
    elif isinstance(data, tuple | list) and len(data) == 2:
        records = ArrayRecords(*data)
    else:
        raise ValueError(
            f"data is {type(data).__name__}: give a pair (X, y) of arrays or tensors, or a torch.utils.data.Dataset "
            "of (input, target)."
        )
    if len(records) == 0:
        raise ValueError("there are no records: a network cannot be trained on an empty data set.")
    return records
