"""Which files may be written, and how: one rule for every result of this library.

A result goes where nothing is yet, into an empty file, or in place of an earlier result of its own kind. Whatever else
has that name stays: a table, a schema, a ledger, a folder, a link, a device, somebody's notes. What a command reads it
never writes, under whatever name.

The rule guards against mistakes, not against somebody who may write to the same folder at the same time.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_EDGE = 4096
"""Bytes at each end of a file by which its kind is told."""
_ROOM = 1 << 16
"""Bytes that a folder must have room for before anything is computed."""


@dataclass(frozen=True)
class Kind:
    """A kind of result: its name with an article, and a pattern for how its files begin (or end).

    A secret one is for its owner's eyes: mode 600. Others have the mode that the umask gives, or keep the one they had.
    """

    name: str
    pattern: bytes
    secret: bool = False

    def is_kind_of(self, path: Path) -> bool:
        with path.open("rb") as file:
            edges = file.read(_EDGE)
            file.seek(max(len(edges), os.fstat(file.fileno()).st_size - _EDGE))
            edges += file.read(_EDGE)
        return not edges or re.match(self.pattern, edges, re.DOTALL) is not None


Output = tuple[str | os.PathLike[str], Kind]
Paths = Iterable[str | os.PathLike[str] | None]


def require_writable(outputs: Sequence[Output], inputs: Paths = ()) -> None:
    """Before anything is computed, and above all before a budget is spent: a sentence on what could not be written.

    `inputs` are the files and folders that are read, or written to by other means; None stands for none.
    """
    read = [Path(path) for path in inputs if path is not None]
    for number, (path, kind) in enumerate(outputs):
        target = Path(path)
        _require_place(target, kind)
        for other in read:
            if _is_same(target, other):
                raise FileExistsError(f"{target} is read or kept by the same command: write {kind.name} elsewhere.")
            if other.is_dir() and _is_inside(target, other):
                raise FileExistsError(f"{target} is in the folder {other} that is read: write {kind.name} elsewhere.")
        for earlier, of in outputs[:number]:
            if _is_same(target, Path(earlier)):
                raise FileExistsError(f"{target} cannot be {of.name} and {kind.name} at once: give each its own name.")
        _try_folder(target)


def require_ordinary(path: Path) -> None:
    """For a file that grows in its place: a device would take every line and keep none."""
    if path.exists() and not path.is_file():
        raise FileExistsError(f"{path} is a folder, a device, a pipe or a socket: name an ordinary file.")


def write(path: str | os.PathLike[str], content: bytes, kind: Kind) -> None:
    """The whole new file, or the old one untouched: a full disk or a crash never leaves half of it."""
    target = Path(path)
    _require_place(target, kind)
    temporary = target.parent / _temporary_name()
    try:
        _write_new(temporary, content, _mode(target, kind))
        os.replace(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(
            error.errno, f"could not write {target} ({error.strerror}); what was there before is untouched"
        ) from error


def sync_folder(folder: Path) -> None:
    """What is new in a folder survives a power cut only once the folder has reached the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _require_place(target: Path, kind: Kind) -> None:
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent} is not a folder: create it, or write {target.name} somewhere else.")
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{target} is a folder: name a file to write.")
    if stat.S_ISLNK(mode):
        raise FileExistsError(f"{target} is a link: name the file itself, or remove the link first.")
    if not stat.S_ISREG(mode):
        raise FileExistsError(f"{target} is a device, a pipe or a socket: name a file to write.")
    if not kind.is_kind_of(target):
        raise FileExistsError(
            f"{target} exists and is not {kind.name} that Sordino wrote, so it is not replaced: name another file, or "
            "remove it first."
        )


def _is_same(one: Path, other: Path) -> bool:
    """The same file under any name, or the same name for a file that is not there yet."""
    if one.exists() and other.exists():
        return one.samefile(other)
    # some file systems take upper and lower case, or two spellings of an accent, for the same name
    names = [unicodedata.normalize("NFC", path.name).casefold() for path in (one, other)]
    return names[0] == names[1] and other.parent.is_dir() and one.parent.samefile(other.parent)


def _is_inside(target: Path, folder: Path) -> bool:
    """By what the folders are and not by their names, of which a folder that is mounted twice has two."""
    parent = target.parent.resolve()
    return any(above.samefile(folder) for above in (parent, *parent.parents))


def _try_folder(target: Path) -> None:
    """Write a little next to it: permissions alone do not tell of a full or read-only disk."""
    temporary = target.parent / _temporary_name()
    try:
        _write_new(temporary, bytes(_ROOM), 0o600)
    except OSError as error:
        raise OSError(error.errno, f"{target} cannot be written ({error.strerror}): name another place") from None
    finally:
        temporary.unlink(missing_ok=True)


def _temporary_name() -> str:
    return f".sordino-{secrets.token_hex(8)}"


def _mode(target: Path, kind: Kind) -> int | None:
    """The mode to force; None leaves it to the umask."""
    if kind.secret:
        return 0o600
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return None


def _write_new(path: Path, content: bytes, mode: int | None) -> None:
    # the mode from the beginning: a secret is not readable by others for a moment either
    created = 0o666 if mode is None else mode & 0o600
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, created)
    with os.fdopen(descriptor, "wb") as file:
        if mode is not None:
            os.fchmod(descriptor, mode)
        file.write(content)
        file.flush()
        os.fsync(descriptor)
