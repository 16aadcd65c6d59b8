"""`charged_to` holds wherever a release begins while it is open: threads, pools, workers and child processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import joblib
import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor

import one_release
from one_release import CAP, WHOLE, Records, Released, attempt
from sordino.ledger.ledger import Ledger, State
from sordino.privacy import open_blocks
from sordino.privacy.ledger_context import _MARK, account, charged_to
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.release import release

ENDED = "a charged_to block that has ended"


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    for dataset in ("survey", "other"):
        ledger.open(dataset, CAP)
    return ledger


def states(ledger, dataset="survey"):
    return [entry.state for entry in ledger.entries(dataset)]


# who starts what


@contextmanager
def in_threads():
    with ThreadPoolExecutor(2) as pool:
        # a pool starts a thread when there is work for it: both are there before anything else happens
        together = threading.Barrier(3)
        for _ in range(2):
            pool.submit(together.wait)
        together.wait()
        yield lambda count: list(pool.map(attempt, range(count)))


@contextmanager
def in_a_pool(context):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads that do nothing here
        with ProcessPoolExecutor(2, multiprocessing.get_context(context)) as pool:
            yield lambda count: list(pool.map(attempt, range(count)))


@contextmanager
def in_loky():
    try:
        yield lambda count: joblib.Parallel(2)(joblib.delayed(attempt)(k) for k in range(count))
    finally:
        get_reusable_executor().shutdown(kill_workers=True)


@contextmanager
def in_a_command(**settings):
    """One more process, that lives as long as the block and releases once for every line it is sent."""
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    settings.setdefault("env", {**os.environ, **environment})
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, one_release.__file__], **pipes, **settings) as child:

        def work(count):
            for number in range(count):
                child.stdin.write(f"{number}\n")
            child.stdin.flush()
            return [(child.stdout.readline().strip(), child.pid) for _ in range(count)]

        yield work


STARTERS = {
    "threads": in_threads,
    "fork": lambda: in_a_pool("fork"),
    "loky": in_loky,
    "a command": in_a_command,
}
SLOW = {"spawn": lambda: in_a_pool("spawn"), "forkserver": lambda: in_a_pool("forkserver")}
ALL = [*STARTERS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("started", ["before the block", "inside the block"])
def test_a_budget_is_spent_once_whoever_releases(ledger, name, started):
    start = (STARTERS | SLOW)[name]
    block = charged_to(ledger, "survey")
    with block if started == "inside the block" else start() as work:
        if started == "before the block":
            assert [outcome for outcome, _ in work(2)] == ["released"] * 2
            with block:
                done = work(3)
            # and outside of it nothing is charged, as before
            assert work(1)[0][0] == "released"
        else:
            with start() as work:
                done = work(3)
    assert sorted(outcome for outcome, _ in done) == ["refused", "refused", "released"]
    assert (os.getpid() in {process for _, process in done}) == (name == "threads")
    assert states(ledger) == [State.SPENT]


# the server of "forkserver" may be from before the block, and then nobody can tell that of its children
@pytest.mark.parametrize("name", ALL[:-1])
def test_what_was_started_inside_a_block_and_outlives_it_is_refused(ledger, name):
    block = charged_to(ledger, "survey")
    block.__enter__()
    with (STARTERS | SLOW)[name]() as work:
        work(2)
        block.__exit__(None, None, None)
        assert all(ENDED in outcome for outcome, _ in work(2))
        # until there is a block again, whoever opened it
        with charged_to(ledger, "other"):
            assert sorted(outcome for outcome, _ in work(2)) == ["refused", "released"]
    assert states(ledger, "survey") == states(ledger, "other") == [State.SPENT]
    assert attempt()[0] == "released"


@pytest.mark.parametrize("backend", ["threading", pytest.param("multiprocessing", marks=pytest.mark.slow)])
def test_the_other_backends_of_joblib(ledger, backend):
    with charged_to(ledger, "survey"), joblib.parallel_config(backend):
        done = joblib.Parallel(n_jobs=2)(joblib.delayed(attempt)(k) for k in range(4))
    assert sorted(outcome for outcome, _ in done) == ["refused"] * 3 + ["released"]
    assert states(ledger) == [State.SPENT]


def test_an_empty_environment_does_not_free_a_command(ledger):
    bare = {"PYTHONPATH": os.pathsep.join(sys.path), "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    with charged_to(ledger, "survey"), in_a_command(env=bare) as work:
        assert [outcome for outcome, _ in work(2)] == ["released", "refused"]


def detached(work):
    """Run `work` in a process that is not below this one any more; what it wrote."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        if os.fork() == 0:
            os.close(reader)
            while os.getppid() == child_of:
                pass
            os.write(writer, work().encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as file:
        return file.read()


child_of = os.getpid()


def test_a_process_that_left_its_parents_is_charged_while_the_block_is_open(ledger):
    with charged_to(ledger, "survey"):
        assert detached(lambda: attempt()[0]) == "released"
        assert detached(lambda: attempt()[0]) == "refused"
    assert states(ledger) == [State.SPENT]


def test_a_forked_process_that_leaves_the_block_does_not_end_it(ledger):
    block = charged_to(ledger, "survey")
    block.__enter__()

    def leave():
        with charged_to(ledger, "other"):
            attempt()
        block.__exit__(None, None, None)

    assert in_a_child(leave) == 0
    # others still find it
    assert in_a_child(lambda: open_blocks.of_ancestors().pop()) == 0
    assert attempt()[0] == "released"
    block.__exit__(None, None, None)
    assert states(ledger, "survey") == states(ledger, "other") == [State.SPENT]
    assert account() is None


def in_a_child(work):
    """Whether `work` ends normally in a forked process: 0 if it does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def test_a_parent_that_was_killed_has_no_block_any_more(ledger, tmp_path):
    go, ready = tmp_path / "go", tmp_path / "ready"
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        parent = os.fork()
    if parent == 0:
        with charged_to(ledger, "survey"):
            if os.fork() == 0:
                os.close(reader)
                ready.touch()
                while not go.exists():
                    pass
                os.write(writer, attempt()[0].encode())
                os._exit(0)
            signal.pause()
    os.close(writer)
    while not ready.exists():
        pass
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    go.touch()
    with os.fdopen(reader) as file:
        assert ENDED in file.read()
    assert states(ledger) == []
    # what the killed one left is swept away by the next
    left = set(os.listdir(open_blocks.FOLDER))
    with charged_to(ledger, "survey"):
        assert not {name for name in left if f"-{parent}-" in name} & set(os.listdir(open_blocks.FOLDER))


# blocks in blocks, and beside one another


def test_the_innermost_block_pays(ledger):
    with charged_to(ledger, "survey"):
        with charged_to(ledger, "other"):
            attempt()
        assert (states(ledger, "survey"), states(ledger, "other")) == ([], [State.SPENT])
        attempt()
    assert states(ledger, "survey") == [State.SPENT]


def test_threads_with_blocks_of_their_own_each_pay_their_own(ledger):
    both_open, done = threading.Barrier(2), []

    def work(dataset):
        with charged_to(ledger, dataset):
            both_open.wait()
            done.append(attempt()[0])
            both_open.wait()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("survey", "other")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == ["released"] * 2
    assert states(ledger, "survey") == states(ledger, "other") == [State.SPENT]


@contextmanager
def another_thread_in(ledger, dataset):
    opened, done = threading.Event(), threading.Event()

    def work():
        with charged_to(ledger, dataset):
            opened.set()
            done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    opened.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_a_forked_process_has_the_block_of_the_thread_that_forked(ledger):
    with another_thread_in(ledger, "other"), charged_to(ledger, "survey"), in_a_pool("fork") as work:
        assert sorted(outcome for outcome, _ in work(2)) == ["refused", "released"]
    assert (states(ledger, "survey"), states(ledger, "other")) == ([State.SPENT], [])


@pytest.mark.parametrize("start", [in_threads, in_a_command])
def test_what_could_belong_to_two_data_sets_is_refused(ledger, start):
    with start() as work, another_thread_in(ledger, "other"), charged_to(ledger, "survey"):
        assert all("'other' and 'survey' are open at the same time" in outcome for outcome, _ in work(2))
        assert attempt()[0] == "released"
    assert (states(ledger, "survey"), states(ledger, "other")) == ([State.SPENT], [])


def test_a_release_that_is_under_way_when_its_block_ends_goes_on_and_counts(ledger):
    begun, go = threading.Event(), threading.Event()
    noise = GaussianNoise(1.0, 9.0, 1)

    def slow(records):
        begun.set()
        go.wait()
        return Released(noise.perturb(np.array([records.total()]), Randomness.system())[0])

    with ThreadPoolExecutor(1) as pool:
        with charged_to(ledger, "survey"):
            under_way = pool.submit(release, WHOLE, CAP, "slow", Records(), slow)
            begun.wait()
        assert states(ledger) == [State.RESERVED]
        go.set()
        under_way.result()
    assert states(ledger) == [State.SPENT]


def test_the_same_account_twice_is_one(ledger):
    with charged_to(ledger, "survey"), charged_to(Ledger(ledger.address), "survey"), in_threads() as work:
        assert sorted(outcome for outcome, _ in work(2)) == ["refused", "released"]


def test_a_task_of_an_event_loop_keeps_its_block(ledger):
    async def main():
        with charged_to(ledger, "survey"):
            inside = asyncio.create_task(asyncio.to_thread(attempt))
            late = asyncio.create_task(later())
            assert (await inside)[0] == "released"
        return await late

    async def later():
        await asyncio.sleep(0.01)
        return attempt()[0]

    outcome = asyncio.run(main())
    assert ENDED in outcome or outcome == "refused"


# what is left behind


def test_a_block_leaves_nothing_behind(ledger):
    def found():
        return [name for name in os.listdir(open_blocks.FOLDER) if f"-{os.getpid()}-" in name]

    with suppress(KeyError), charged_to(ledger, "survey"):
        assert len(found()) == 1
        assert _MARK in os.environ
        raise KeyError
    assert found() == []
    assert _MARK not in os.environ
    assert account() is None


def test_a_folder_of_somebody_else_is_refused(ledger, monkeypatch, tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    monkeypatch.setattr(open_blocks, "FOLDER", folder)
    with pytest.raises(PermissionError, match="not a folder of this user alone"), charged_to(ledger, "survey"):
        pass
    monkeypatch.setattr(open_blocks, "FOLDER", Path("/nonexistent/folder"))
    assert account() is None


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_ancestors_are_found_without_a_list_of_processes_in_files(ledger, monkeypatch):
    before = list(open_blocks._ancestors())
    assert before[0] == os.getppid()
    monkeypatch.setattr(open_blocks, "_PROC", Path("/nonexistent"))
    assert list(open_blocks._ancestors()) == before
    with charged_to(ledger, "survey"):
        assert in_a_child(lambda: open_blocks.of_ancestors().pop()) == 0


def test_a_ledger_is_the_same_file_in_another_folder(ledger, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with charged_to(Ledger("ledger"), "survey"):
        monkeypatch.chdir("/")
        assert attempt()[0] == "released"
    assert states(ledger) == [State.SPENT]
