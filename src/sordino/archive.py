"""An uncompressed zip archive of named members, safe to read whoever wrote it; equal content makes equal bytes."""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
from collections.abc import Callable, Mapping

import numpy as np

from sordino.arrays import Array

_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '<f8', 'fortran_order': False, 'shape': \(([\d, ]{0,60})\), \} *\n", re.DOTALL
)
"""As `from_array` writes it."""


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
            ours = len(names) == len(entries) and fits(names)
            # nothing compressed and nothing twice, so that a small file cannot unfold into a large one
            plain = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
            plain = plain and sum(entry.file_size for entry in entries) <= len(content)
            members = {entry.filename: archive.read(entry) for entry in entries} if ours and plain else {}
    except (zipfile.BadZipFile, struct.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError):
        raise ValueError("this model file is damaged or cut short: copy it again from where it came.") from None
    if not ours:
        raise ValueError("this is not a Sordino model file: it is an archive of something else.")
    if not plain:
        raise ValueError("this is not a Sordino model file: its members are compressed, or lie on top of each other.")
    return members


def from_array(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array, dtype="<f8"), allow_pickle=False)
    return buffer.getvalue()


def to_array(content: bytes) -> Array:
    # NumPy would evaluate the header as an expression of Python
    header = _HEADER.match(content)
    shape = tuple(map(int, re.findall(rb"\d+", header[1]))) if header else ()
    if header is None or len(shape) > 2 or 8 * math.prod(shape) != len(content) - header.end():
        raise ValueError("the weights of this model file are not plain arrays of double precision.")
    return np.frombuffer(content, "<f8", offset=header.end()).reshape(shape)
