"""An uncompressed zip archive of named members, safe to read whoever wrote it; equal content makes equal bytes."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def pack(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            # a fixed date: the same model is the same file
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
    return buffer.getvalue()


def unpack(content: bytes, fits: Callable[[set[str]], bool]) -> dict[str, bytes]:
    """The members, or a sentence; `fits` tells whether they are those of a model file."""
    if not content.startswith(b"PK"):
        raise ValueError("this is not a Sordino model file, or its beginning is damaged.")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            names = {entry.filename for entry in entries}
            if len(names) < len(entries) or not fits(names):
                raise ValueError("this is not a Sordino model file: it is an archive of something else.")
            # nothing compressed, so that a small file cannot unfold into a large one
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise ValueError("this is not a Sordino model file: its members are compressed.")
            return {entry.filename: archive.read(entry) for entry in entries}
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError):
        raise ValueError("this model file is damaged or cut short: copy it again from where it came.") from None


def from_array(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array, dtype="<f8"), allow_pickle=False)
    return buffer.getvalue()


def to_array(content: bytes) -> Array:
    file = io.BytesIO(content)
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        # the size first: a header may promise more than there is
        if dtype != np.dtype("<f8") or fortran or 8 * math.prod(shape) != len(content) - file.tell():
            raise ValueError
        return np.frombuffer(content, dtype, offset=file.tell()).reshape(shape)
    except ValueError:
        raise ValueError("the weights of this model file are not plain arrays of double precision.") from None
