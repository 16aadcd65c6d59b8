"""No result ever takes the place of something that is not an earlier result of its kind, whoever writes it."""

from __future__ import annotations

import ast
import errno
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sordino
from sordino import outputs
from sordino.budget import Budget
from sordino.certificate import Certificate
from sordino.estimators.classifiers import PrivateLogisticRegression
from sordino.federation.unopened import Contribution, UnopenedContribution
from sordino.ledger.ledger import Ledger
from sordino.model_file import require_places, save_model
from sordino.outputs import Kind
from sordino.reporting import report

NOTES = Kind("a note", rb"note")
SECRET = Kind("a secret", rb"secret", secret=True)


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (200, 2))
    estimator = PrivateLogisticRegression(1.0, 1e-6, row_norm=2.0, classes=[0, 1])
    return estimator.fit(X, (X[:, 0] > 0).astype(int)).certificate_


def fitted(certificate: Certificate) -> Any:
    return SimpleNamespace(
        coef_=np.ones((1, 2)), intercept_=np.zeros(1), classes_=np.array([0, 1]), certificate_=certificate
    )


WRITERS: dict[str, Callable[[Certificate, Path], object]] = {
    "model": lambda certificate, path: save_model(fitted(certificate), path),
    "certificate": lambda certificate, path: certificate.save(path),
    "report": lambda certificate, path: report(certificate, path),
    "note": lambda _, path: outputs.write(path, b"note", NOTES),
}


def table(path: Path) -> None:
    path.write_text("age,y\n4711,a\n")


def hard_link(path: Path) -> None:
    table(path.with_name("other.csv"))
    os.link(path.with_name("other.csv"), path)


def link(path: Path) -> None:
    table(path.with_name("other.csv"))
    path.symlink_to(path.with_name("other.csv"))


def listening(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)
    os.fchdir(here)
    os.close(here)


OBSTACLES: dict[str, Callable[[Path], object]] = {
    "table": table,
    "schema": lambda path: path.write_text('[target]\ncolumn = "y"\n'),
    "ledger": lambda path: Ledger(path).open("survey", Budget(1.0, 1e-6)),
    "hard link": hard_link,
    "link": link,
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "folder": lambda path: path.mkdir(),
    "pipe": lambda path: os.mkfifo(path),
    "socket": listening,
}


def everything(folder: Path) -> dict[str, object]:
    """What is in a folder: kinds, link targets and contents."""
    found: dict[str, object] = {}
    for path in folder.iterdir():
        state = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(state.st_mode) else b""
        found[path.name] = (state.st_mode, state.st_ino, content, path.readlink() if path.is_symlink() else None)
    return found


@pytest.mark.parametrize("obstacle", OBSTACLES)
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_not_ours_stays(certificate: Certificate, tmp_path: Path, writer: str, obstacle: str) -> None:
    OBSTACLES[obstacle](tmp_path / "there")
    before = everything(tmp_path)
    with pytest.raises(OSError, match="there ") as refused:
        WRITERS[writer](certificate, tmp_path / "there")
    assert str(refused.value).endswith(".")
    assert everything(tmp_path) == before


@pytest.mark.parametrize("other", WRITERS)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_result_takes_the_place_of_its_own_kind_alone(
    certificate: Certificate, tmp_path: Path, writer: str, other: str
) -> None:
    WRITERS[other](certificate, tmp_path / "there")
    before = everything(tmp_path)
    if writer == other:
        WRITERS[writer](certificate, tmp_path / "there")
    else:
        with pytest.raises(FileExistsError, match="that Sordino wrote, so it is not replaced"):
            WRITERS[writer](certificate, tmp_path / "there")
        assert everything(tmp_path) == before


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
@pytest.mark.parametrize("writer", WRITERS)
def test_devices_stay(certificate: Certificate, writer: str, device: str) -> None:
    with pytest.raises(FileExistsError, match="is a device"):
        WRITERS[writer](certificate, Path(device))
    assert stat.S_ISCHR(os.stat(device).st_mode)


def test_an_empty_file_is_a_place(tmp_path: Path) -> None:
    (tmp_path / "note").touch()
    outputs.write(tmp_path / "note", b"note 1", NOTES)
    assert (tmp_path / "note").read_bytes() == b"note 1"


def test_a_ledger_is_no_device() -> None:
    with pytest.raises(FileExistsError, match="/dev/null is a folder, a device"):
        Ledger("/dev/null").open("survey", Budget(1.0, 1e-6))


def spellings(folder: Path) -> Iterator[Path]:
    """Ways to name folder / data.csv."""
    (folder / "inside").mkdir()
    (folder / "elsewhere").symlink_to(folder)
    os.link(folder / "data.csv", folder / "second.csv")
    yield from (
        folder / "data.csv",
        folder / "inside" / ".." / "data.csv",
        folder / "elsewhere" / "data.csv",
        folder / "second.csv",
        Path(os.path.relpath(folder / "data.csv")),
    )


def test_an_input_is_never_written_under_whatever_name(tmp_path: Path) -> None:
    # of the very kind that is written, so that only the name can tell
    (tmp_path / "data.csv").write_bytes(b"note")
    for path in spellings(tmp_path):
        with pytest.raises(FileExistsError, match="is read or kept by the same command"):
            outputs.require_writable([(path, NOTES)], inputs=(None, tmp_path / "data.csv"))
    outputs.require_writable([(tmp_path / "other", NOTES)], inputs=(None, tmp_path / "data.csv"))


def test_an_input_that_is_not_there_yet_keeps_its_name(tmp_path: Path) -> None:
    for name in ("ledger", "LEDGER"):
        with pytest.raises(FileExistsError, match="is read or kept by the same command"):
            outputs.require_writable([(tmp_path / name, NOTES)], inputs=(tmp_path / "ledger",))


def test_nothing_is_written_among_the_records(tmp_path: Path) -> None:
    (tmp_path / "records" / "2024").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "records")
    for folder in ("records", "records/2024", "link", "link/2024"):
        with pytest.raises(FileExistsError, match="that is read"):
            outputs.require_writable([(tmp_path / folder / "note", NOTES)], inputs=(tmp_path / "records",))
    outputs.require_writable([(tmp_path / "note", NOTES)], inputs=(tmp_path / "records",))


BOUND = """
import sys
from sordino import outputs
records, path = sys.argv[1:]
try:
    outputs.require_writable([(path, outputs.Kind("a note", rb"note"))], inputs=(records,))
except FileExistsError as error:
    print(error)
"""


def test_a_folder_or_file_that_is_mounted_twice_is_one(tmp_path: Path) -> None:
    for folder in ("records", "again"):
        (tmp_path / folder / "2024").mkdir(parents=True)
    for file in ("records.csv", "again.csv"):
        (tmp_path / file).write_bytes(b"note")
    python = f"{sys.executable} -c '{BOUND}'"
    for mount, records, path, sentence in (
        ("records again", "records", "again/2024/note", "in the folder"),
        ("records.csv again.csv", "records.csv", "again.csv", "is read or kept by the same command"),
    ):
        script = f"mount --bind {mount} && {python} {records} {path}"
        run = subprocess.run(["unshare", "-rm", "sh", "-c", script], cwd=tmp_path, capture_output=True, text=True)
        if "ermi" in run.stderr:
            pytest.skip("nothing can be mounted here")
        assert sentence in run.stdout, run.stderr


def test_a_new_ledger_is_for_its_owner_and_keeps_the_mode_it_is_given(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "ledger"
    Ledger(path).open("survey", Budget(1.0, 1e-6))
    assert mode(path) == 0o600
    path.chmod(0o660)
    Ledger(path).open("other", Budget(1.0, 1e-6))
    assert mode(path) == 0o660


def test_two_results_have_two_names(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    for other in ("m", "M", "inside/../m", "link/m"):
        with pytest.raises(FileExistsError, match="cannot be a note and a secret at once"):
            outputs.require_writable([(tmp_path / "m", NOTES), (tmp_path / other, SECRET)])


def test_a_certificate_is_replaced_beside_its_own_model_alone(certificate: Certificate, tmp_path: Path) -> None:
    model, beside = tmp_path / "m", tmp_path / "c"
    certificate.save(beside)
    with pytest.raises(FileExistsError, match="c is the certificate of another model than the one in"):
        require_places(model, beside)
    save_model(fitted(certificate), model)
    require_places(model, beside)
    beside.write_text(beside.read_text() + "\n")
    with pytest.raises(FileExistsError, match="the certificate of another model"):
        require_places(model, beside)


def test_a_place_that_cannot_be_written_is_found_out_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="absent is not a folder: create it, or write note somewhere else"):
        outputs.require_writable([(tmp_path / "absent" / "note", NOTES)])

    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match=r"note cannot be written \(Read-only file system\): name another place"):
        outputs.require_writable([(tmp_path / "note", NOTES)])


def test_a_look_leaves_nothing_behind(tmp_path: Path) -> None:
    outputs.require_writable([(tmp_path / "note", NOTES)])
    assert not list(tmp_path.iterdir())


def test_half_a_file_is_never_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs.write(tmp_path / "note", b"note 1", NOTES)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="what was there before is untouched"):
        outputs.write(tmp_path / "note", b"note 2", NOTES)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"note": b"note 1"}


@pytest.fixture
def umask() -> Iterator[int]:
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_public_files_have_the_mode_of_the_umask_and_keep_what_they_were_given(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "note"
    outputs.write(path, b"note 1", NOTES)
    assert mode(path) == 0o666 & ~umask
    path.chmod(0o604)
    outputs.write(path, b"note 2", NOTES)
    assert mode(path) == 0o604


def test_secrets_are_for_their_owner_alone(tmp_path: Path, umask: int) -> None:
    outputs.write(tmp_path / "secret", b"secret 1", SECRET)
    (tmp_path / "secret").chmod(0o644)
    outputs.write(tmp_path / "secret", b"secret 2", SECRET)
    UnopenedContribution(tmp_path).keep(Contribution(0, np.zeros(3, dtype=np.int64)))
    assert mode(tmp_path / "secret") == mode(tmp_path / "pending") == 0o600


def test_every_file_is_written_by_the_one_function() -> None:
    """What replaces or creates files is called in `outputs`, and elsewhere for marks of a session with random names."""
    others = {"write_text", "write_bytes", "rename", "mkstemp", "NamedTemporaryFile", "write_atomically"}
    found = set()
    for path in Path(sordino.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of_os = isinstance(node.func.value, ast.Name) and node.func.value.id == "os"
                if node.func.attr in others or (of_os and node.func.attr in ("replace", "link", "symlink")):
                    found.add(path.name)
    assert found - {"open_blocks.py", "releases.py"} == {"outputs.py"}
