"""The file below the ledger: chained, locked, and indifferent to where a crash cuts it."""

import fcntl
import json
import os
import signal
import time
import warnings

import pytest

from sordino.ledger.journal import Journal

HEADER = {"format": "test", "version": 1}


def journal(folder, *entries):
    j = Journal(folder / "file", HEADER)
    for entry in entries:
        with j.writing() as writer:
            writer.append(entry)
    return j


def numbered(count):
    return tuple({"n": n} for n in range(count))


def test_entries_come_back_in_order(tmp_path):
    j = journal(tmp_path, *numbered(3))
    assert j.entries() == numbered(3)


def test_no_file_has_no_entries_and_reading_creates_none(tmp_path):
    j = Journal(tmp_path / "file", HEADER)
    assert j.entries() == ()
    assert not j.path.exists()


def test_a_cut_at_any_byte_of_the_last_line_loses_that_line_alone(tmp_path):
    j = journal(tmp_path, *numbered(2))
    before = j.path.read_bytes()
    with j.writing() as writer:
        writer.append({"n": 2})
    after = j.path.read_bytes()
    for length in range(len(before), len(after)):
        j.path.write_bytes(after[:length])
        # with everything but the line end there, the line is whole
        kept = 3 if length == len(after) - 1 else 2
        assert j.entries() == numbered(kept)
        with j.writing() as writer:
            writer.append({"n": kept})
        assert j.entries() == numbered(kept + 1)
        assert len(j.path.read_bytes().splitlines()) == kept + 2


def test_a_cut_at_any_byte_of_the_first_line_is_a_file_not_yet_begun(tmp_path):
    j = journal(tmp_path, {"n": 0})
    header = j.path.read_bytes().splitlines(keepends=True)[0]
    for length in range(len(header)):
        j.path.write_bytes(header[:length])
        assert j.entries() == ()
        with j.writing() as writer:
            writer.append({"n": 0})
        assert j.entries() == numbered(1)


def test_a_changed_byte_anywhere_in_a_finished_line_is_a_sentence(tmp_path):
    j = journal(tmp_path, *numbered(3))
    intact = j.path.read_bytes()
    for place in range(0, len(intact), 7):
        changed = bytearray(intact)
        changed[place] = ord("7") if changed[place] != ord("7") else ord("8")
        if intact[place : place + 1] == b"\n":
            continue
        j.path.write_bytes(changed)
        with pytest.raises(ValueError, match="altered"):
            j.entries()


def test_a_removed_repeated_or_moved_line_is_a_sentence(tmp_path):
    j = journal(tmp_path, *numbered(4))
    header, a, b, c, d = j.path.read_bytes().splitlines(keepends=True)
    for lines in ([header, a, c, d], [header, a, b, b, c, d], [header, b, a, c, d], [a, b, c, d]):
        j.path.write_bytes(b"".join(lines))
        with pytest.raises(ValueError, match="altered"):
            j.entries()


def test_a_line_with_its_own_checksum_renewed_breaks_the_next(tmp_path):
    j = journal(tmp_path, *numbered(1))
    forged = journal(tmp_path, {"n": 1}).path.read_bytes().splitlines(keepends=True)
    (tmp_path / "other").mkdir()
    other = journal(tmp_path / "other", {"n": 5}).path.read_bytes().splitlines(keepends=True)
    j.path.write_bytes(forged[0] + other[1] + forged[2])
    with pytest.raises(ValueError, match="line 3"):
        j.entries()


@pytest.mark.parametrize("content", [b"age,income\n41,52000\n", b"age,income", b'{"entry": {"n": 1}}', b"\n"])
def test_another_file_is_refused_and_left_alone(tmp_path, content):
    j = Journal(tmp_path / "file", HEADER)
    j.path.write_bytes(content)
    with pytest.raises(ValueError, match="another file"), j.writing() as writer:
        writer.append({"n": 0})
    assert j.path.read_bytes() == content


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    j = journal(tmp_path, *numbered(2))
    intact = j.path.read_bytes()
    write = os.pwrite

    def half_then_full(descriptor, line, at):
        if at == len(intact):
            return write(descriptor, line[:10], at)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", half_then_full)
    with pytest.raises(OSError, match="No space"), j.writing() as writer:
        writer.append({"n": 2})
    assert j.path.read_bytes() == intact


def test_every_append_reaches_the_disk_before_it_returns(tmp_path, monkeypatch):
    order = []
    write, sync = os.pwrite, os.fsync
    monkeypatch.setattr(os, "pwrite", lambda *a: order.append("write") or write(*a))
    monkeypatch.setattr(os, "fsync", lambda d: order.append("sync") or sync(d))
    j = journal(tmp_path, {"n": 0})
    # header, its folder, entry
    assert order == ["write", "sync", "sync", "write", "sync"]
    with j.writing() as writer:
        writer.append({"n": 1})
        assert order[-2:] == ["write", "sync"]


def test_a_process_forked_while_the_file_was_open_does_not_keep_its_lock(tmp_path):
    j = journal(tmp_path, {"n": 0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads that do nothing here
        with j.writing():
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
    try:
        with j.path.open() as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_missing_folder_is_a_sentence(tmp_path):
    j = Journal(tmp_path / "nowhere" / "file", HEADER)
    with pytest.raises(FileNotFoundError, match="folder does not exist"), j.writing():
        pass


def test_lines_are_json_that_other_programs_read(tmp_path):
    j = journal(tmp_path, *numbered(2))
    lines = [json.loads(line) for line in j.path.read_text().splitlines()]
    assert [line["entry"] for line in lines] == [HEADER, {"n": 0}, {"n": 1}]
