"""Threads: every task once, errors on the surface, nothing left behind."""

import multiprocessing
import threading

import numpy as np
import pytest

from sordino.oracle.kernels import pool


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_every_task_runs_once(monkeypatch, count, threads):
    monkeypatch.setenv("SORDINO_THREADS", threads)
    done = []
    pool.share(done.append, count)
    assert sorted(done) == list(range(count))


def test_tasks_run_on_more_than_one_thread(monkeypatch):
    monkeypatch.setenv("SORDINO_THREADS", "2")
    both = threading.Barrier(2, timeout=10)
    pool.share(lambda number: both.wait(), 2)  # would break if one thread had to do both


@pytest.mark.parametrize("bad", [0, 3, 9])
def test_an_error_in_a_task_is_raised_after_all_threads_stopped(monkeypatch, bad):
    monkeypatch.setenv("SORDINO_THREADS", "3")
    running = []

    def task(number):
        running.append(number)
        if number == bad:
            raise ArithmeticError("task failed")
        running.remove(number)

    with pytest.raises(ArithmeticError, match="task failed"):
        pool.share(task, 10)
    assert running == [bad]


@pytest.mark.parametrize("wish", ["0", "-2", "two", "1.5"])
def test_a_bad_number_of_threads_is_a_sentence(monkeypatch, wish):
    monkeypatch.setenv("SORDINO_THREADS", wish)
    with pytest.raises(ValueError, match=r"SORDINO_THREADS is .* whole number"):
        pool.threads()


def test_threads_default_to_the_processors(monkeypatch):
    monkeypatch.delenv("SORDINO_THREADS", raising=False)
    assert pool.threads() >= 1


def _child(queue):
    done = []
    pool.share(done.append, 10)
    with pool.one_blas_thread():
        pass
    queue.put(sorted(done))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_pool_works_in_a_forked_child(monkeypatch):
    monkeypatch.setenv("SORDINO_THREADS", "2")
    pool.share(lambda number: None, 4)  # the parent has its threads
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=30) == list(range(10))
    finally:
        child.join(timeout=30)
        child.kill()


def blas_threads():
    return [library["num_threads"] for library in pool._blas().info()]


def test_blas_is_kept_to_one_thread_until_the_last_user_leaves():
    np.ones((4, 4)) @ np.ones((4, 4))
    before = blas_threads()
    with pool.one_blas_thread():
        assert set(blas_threads()) <= {1}
        with pool.one_blas_thread():
            pass
        assert set(blas_threads()) <= {1}
    assert blas_threads() == before
