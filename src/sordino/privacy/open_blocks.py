"""Which `charged_to` blocks are open in which processes of this machine, for their descendants to find.

    /tmp/sordino-<user>/<process namespace>-<process>-<random>          ledger and data set of one block

The file is locked while its block is open. The lock belongs to one process, is not inherited, and ends with the process
however it ends; so a file without its lock is what a crash has left, and says nothing. The folder does not depend on
the environment, which a process may change for its children.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(f"/tmp/sordino-{os.getuid()}")
_PROC = Path("/proc")
_LARGEST = 1 << 16


@dataclass(frozen=True)
class Account:
    """A data set, the ledger that knows what it may spend, and the folder of whoever signs there."""

    ledger: str
    dataset: str
    identity: str = ""


@dataclass(frozen=True, eq=False)
class Announced:
    """A block of this process, found by others until it is withdrawn."""

    account: Account
    name: str
    owner: int
    _descriptor: int

    def withdraw(self) -> None:
        (FOLDER / self.name).unlink(missing_ok=True)
        os.close(self._descriptor)


def announce(account: Account) -> Announced:
    with suppress(FileExistsError):
        FOLDER.mkdir(mode=0o700)
    if not _is_ours():
        raise PermissionError(
            f"{FOLDER} is not a folder of this user alone, where child processes look up which budget they are charged "
            "to: remove it."
        )
    _sweep()
    name = f"{_prefix(os.getpid())}{secrets.token_hex(8)}"
    # locked before anybody can find it under its name
    descriptor = os.open(FOLDER / f".{name}", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, json.dumps([account.ledger, account.dataset, account.identity], allow_nan=False).encode())
        os.rename(FOLDER / f".{name}", FOLDER / name)
    except BaseException:
        os.close(descriptor)
        raise
    return Announced(account, name, os.getpid(), descriptor)


def find(name: str) -> Account | None:
    """The block of that name, if another process has it open."""
    # to close a file gives up all locks of this process on it, so its own are not opened
    if "/" in name or name.startswith((".", _prefix(os.getpid()))) or not _is_ours():
        return None
    try:
        descriptor = os.open(FOLDER / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return Account(*json.loads(os.pread(descriptor, _LARGEST, 0)))
    finally:
        os.close(descriptor)
    return None


def of_ancestors() -> set[Account]:
    """The blocks that are open in the closest process above this one that has any."""
    names = os.listdir(FOLDER) if _is_ours() else []
    if not names:
        return set()
    for process in _ancestors():
        found = {find(name) for name in names if name.startswith(_prefix(process))} - {None}
        if found:
            return {account for account in found if account is not None}
    return set()


def _ancestors() -> Iterator[int]:
    process = os.getppid()
    while process > 1:
        yield process
        process = _parent(process)
    if process == 1:
        yield 1


def _parent(process: int) -> int:
    """0 where there is none, or it has ended."""
    if (_PROC / "self" / "stat").exists():
        try:
            # behind the command's name, which may hold anything: state and parent
            return int((_PROC / str(process) / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return 0
    told = subprocess.run(["ps", "-o", "ppid=", "-p", str(process)], capture_output=True, text=True, check=False)
    return int(told.stdout.strip() or 0)


def _prefix(process: int) -> str:
    # containers may share the folder, and number their processes alike
    try:
        namespace = os.stat(_PROC / "self" / "ns" / "pid").st_ino
    except OSError:
        namespace = 0
    return f"{namespace}-{process}-"


def _is_ours() -> bool:
    try:
        state = os.lstat(FOLDER)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o077


def _sweep() -> None:
    """Remove what crashes have left."""
    for name in os.listdir(FOLDER):
        if not name.startswith((".", _prefix(os.getpid()))) and find(name) is None:
            (FOLDER / name).unlink(missing_ok=True)
