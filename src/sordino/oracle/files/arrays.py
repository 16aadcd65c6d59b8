"""Matrices in .npy files, as a source of records."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array, Index
from sordino.oracle.files.source import AS_GIVEN, Coding, InUnits, Labels, record_units, with_coding
from sordino.oracle.units import RecordUnits
from sordino.tabular.stamp import Stamp, identity, require_different

_Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_GAP = 1 << 15
"""Bytes that are read along rather than skipped: a seek costs about as much."""


@dataclass(frozen=True)
class ArrayFile:
    """A matrix or vector in C order, of which the header has been read."""

    stamp: Stamp
    shape: tuple[int, ...]
    kind: np.dtype[Any]
    offset: int

    @staticmethod
    def open(path: Path) -> ArrayFile:
        stamp = Stamp.of(path)
        try:
            with path.open("rb") as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, fortran, kind = read(file)
                offset = file.tell()
        except ValueError:
            raise ValueError(f"{path} is damaged, or is not what its name says: it is not an array of NumPy.") from None
        if fortran and len(shape) > 1:
            raise ValueError(
                f"{path} holds its columns one after the other: records are read as rows, so save it again with "
                "np.save(path, np.ascontiguousarray(X))."
            )
        if kind.kind not in "fiubUS":
            raise ValueError(f"{path} holds {kind} values: numbers are needed.")
        if stamp.size < offset + math.prod(shape) * kind.itemsize:
            raise ValueError(f"{path} is damaged: it is shorter than its header says.")
        return ArrayFile(stamp, shape, kind, offset)

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.kind.itemsize


@dataclass(frozen=True, eq=False)
class Arrays:
    """Features in a .npy file of a matrix, targets in one of a vector; or in several such files, in their order.

    Larger than memory is fine. The files are read, not mapped: what is in use counts, and a file cut short while
    training is an error and not a crash.
    """

    features: _Paths
    target: _Paths
    coding: Coding = AS_GIVEN

    def __post_init__(self) -> None:
        self.matrices, self.vectors  # noqa: B018  whatever is wrong with the files is said here

    @cached_property
    def matrices(self) -> Stacked:
        matrices = Stacked.open(_paths(self.features), 2)
        require_different(_paths(self.features))
        return matrices

    @cached_property
    def vectors(self) -> Stacked:
        vectors = Stacked.open(_paths(self.target), 1)
        if vectors.records != self.matrices.records:
            raise ValueError(
                f"{self.target} holds {vectors.records} targets and {self.features} {self.matrices.records} rows: "
                "there must be one for each."
            )
        return vectors

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrices.records, self.matrices.files[0].shape[1]

    @property
    def sparse(self) -> bool:
        return False

    @property
    def units(self) -> RecordUnits:
        return record_units(*self.shape)

    @property
    def row_bytes(self) -> int:
        return self.matrices.files[0].row_bytes

    @property
    def identity(self) -> bytes:
        return identity([file.stamp for file in (*self.matrices.files, *self.vectors.files)])

    def coded(self, coding: Coding) -> Self:
        kind = self.vectors.files[0].kind
        if isinstance(coding, InUnits) and kind.kind in "US":
            raise ValueError(f"{self.target} holds texts: numbers are needed.")
        return with_coding(self, coding)

    def check(self) -> int:
        if not isinstance(self.coding, Labels):
            return 0
        step, strange = 1 << 18, 0
        with self.vectors.cursor() as vectors:
            for start in range(0, self.shape[0], step):
                labels = vectors.rows(start, min(start + step, self.shape[0]), None)
                strange += int(np.isnan(self.coding.numbers(labels)).sum())
        return strange

    @contextmanager
    def reader(self) -> Iterator[ArraysReader]:
        with self.matrices.cursor() as matrices, self.vectors.cursor() as vectors:
            yield ArraysReader(self, matrices, vectors)


class ArraysReader:
    ahead = 1

    def __init__(self, arrays: Arrays, matrices: ArrayCursor, vectors: ArrayCursor) -> None:
        self._coding, self._matrices, self._vectors = arrays.coding, matrices, vectors

    def rows(self, start: int, stop: int, which: Index | None) -> tuple[NDArray[Any], Array]:
        return self._matrices.rows(start, stop, which), self._coding.numbers(self._vectors.rows(start, stop, which))


@dataclass(frozen=True, eq=False)
class Stacked:
    """Arrays of one kind, the rows of one after those of another."""

    files: tuple[ArrayFile, ...]
    starts: NDArray[np.int64]

    @staticmethod
    def open(paths: Sequence[Path], dimensions: int) -> Stacked:
        files = tuple(ArrayFile.open(path) for path in paths)
        if not files:
            raise ValueError("there are no files: name one at least.")
        for file in files:
            if len(file.shape) != dimensions:
                wanted = "a matrix of records x features" if dimensions == 2 else "a vector with one target per record"
                raise ValueError(f"{file.stamp.path} has {len(file.shape)} dimensions: it must be {wanted}.")
            if dimensions == 2 and file.kind.kind in "US":
                raise ValueError(f"{file.stamp.path} holds texts: features must be numbers.")
            if (file.kind, file.shape[1:]) != (files[0].kind, files[0].shape[1:]):
                raise ValueError(
                    f"{file.stamp.path} holds {file.kind} rows of shape {file.shape[1:]} and {files[0].stamp.path} "
                    f"{files[0].kind} rows of shape {files[0].shape[1:]}: all files need the same."
                )
        starts = np.concatenate([[0], np.cumsum([file.shape[0] for file in files])])
        if not starts[-1]:
            raise ValueError(f"{files[0].stamp.path} has no records.")
        return Stacked(files, starts)

    @property
    def records(self) -> int:
        return int(self.starts[-1])

    @contextmanager
    def cursor(self) -> Iterator[ArrayCursor]:
        cursor = ArrayCursor(self)
        try:
            yield cursor
        finally:
            cursor.close()


class ArrayCursor:
    """Reads the rows that are wanted, and along with them those between two that are close."""

    def __init__(self, arrays: Stacked) -> None:
        self._arrays = arrays
        self._file = self._descriptor = -1
        # three: one in use, one that is ready, one that is being read
        self._buffers = deque([np.empty((0, *arrays.files[0].shape[1:]), dtype=arrays.files[0].kind)] * 3)

    def rows(self, start: int, stop: int, which: Index | None) -> NDArray[Any]:
        out = self._buffer(stop - start if which is None else len(which))
        done, starts = 0, self._arrays.starts
        first = int(np.searchsorted(starts, start, side="right")) - 1
        for file in range(first, int(np.searchsorted(starts, stop))):
            low, high = max(start, int(starts[file])), min(stop, int(starts[file + 1]))
            begin = int(starts[file])
            if which is None:
                self._read(file, low - begin, out[done : done + high - low])
                done += high - low
                continue
            wanted = which[slice(*np.searchsorted(which, [low - start, high - start]))] + (start - begin)
            for run in _runs(wanted, self._arrays.files[file].row_bytes):
                self._read_some(file, run, out[done : done + len(run)])
                done += len(run)
        return out

    def close(self) -> None:
        """Also a look whether the last file is still what it was."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._arrays.files[self._file].stamp.require_unchanged()

    def _buffer(self, count: int) -> NDArray[Any]:
        if len(self._buffers[0]) < count:
            self._buffers[0] = np.empty((count, *self._buffers[0].shape[1:]), dtype=self._buffers[0].dtype)
        self._buffers.rotate(-1)
        return self._buffers[-1][:count]

    def _read_some(self, file: int, run: Index, out: NDArray[Any]) -> None:
        low, high = int(run[0]), int(run[-1]) + 1
        if high - low == len(run):
            self._read(file, low, out)
            return
        between = np.empty((high - low, *out.shape[1:]), dtype=out.dtype)
        self._read(file, low, between)
        out[:] = between[run - low]

    def _read(self, file: int, row: int, out: NDArray[Any]) -> None:
        if file != self._file or self._descriptor < 0:
            self.close()
            self._arrays.files[file].stamp.require_unchanged()
            self._file, self._descriptor = file, os.open(self._arrays.files[file].stamp.path, os.O_RDONLY)
        array = self._arrays.files[file]
        place, rest = array.offset + row * array.row_bytes, out.reshape(-1).view(np.uint8).data
        while len(rest):
            count = os.preadv(self._descriptor, [rest], place)
            if not count:
                array.stamp.require_unchanged()
                raise ValueError(f"{array.stamp.path} is damaged: it is shorter than its header says.")
            place, rest = place + count, rest[count:]


def _runs(wanted: Index, row_bytes: int) -> list[Index]:
    """Cut where it is not worth reading what lies between."""
    if not len(wanted):
        return []
    return np.split(wanted, np.flatnonzero(np.diff(wanted) * row_bytes > _GAP) + 1)


def _paths(given: _Paths) -> list[Path]:
    return [Path(given)] if isinstance(given, str | os.PathLike) else [Path(path) for path in given]
