"""Many processes at once, killed at any instant: nothing is lost, nothing overspent, nobody waits for ever."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from children import ended, in_a_child
from sordino.budget import Budget, Relation
from sordino.ledger.ledger import Ledger
from sordino.privacy.charges import BudgetExceeded
from sordino.privacy.events import GaussianDP
from sordino.privacy.gaussian_profile import gdp_mu

CAP = Budget(1.0, 1e-6)
REPLACE = Relation.REPLACE_ONE


def share(count):
    """As many fill the cap, and one more does not fit."""
    return GaussianDP(gdp_mu(CAP.epsilon, 0.99 * CAP.delta) / count**0.5 * (1 - 1e-6))


def crowd(address, folder, processes, attempts):
    """So many processes try for half of what they could have together; how many releases there were."""
    event = share(processes * attempts // 2)
    Ledger(address).open("survey", CAP)

    def work(name):
        while not (folder / "go").exists():
            time.sleep(0.01)
        ledger = Ledger(address)
        for attempt in range(attempts):
            try:
                with ledger.reserve("survey", event, REPLACE):
                    (folder / f"ran-{name}-{attempt}").touch()
            except BudgetExceeded:
                pass

    children = [in_a_child(lambda name=name: work(name)) for name in range(processes)]
    (folder / "go").touch()
    assert ended(children) == [0] * processes
    ran = len(list(folder.glob("ran-*")))
    statement = Ledger(address).statement("survey")
    assert statement.open == ()
    assert statement.spent <= CAP.epsilon
    assert statement.releases == ran
    assert Ledger(address).check().reservations == ran
    return ran


def test_a_few_processes_spend_what_there_is_and_no_more(address, tmp_path):
    assert crowd(address, tmp_path, 6, 2) == 6


@pytest.mark.slow
def test_a_hundred_processes_spend_what_there_is_and_no_more(address, tmp_path):
    assert crowd(address, tmp_path, 100, 4) == 200


def killed(address, folder, kills, seed):
    """A process that reserves, runs and ends is killed again and again; every run that began must be in the ledger."""
    Ledger(address).open("survey", CAP)
    event, chance = GaussianDP(1e-5), random.Random(seed)
    touched = os.open(folder / "touched", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def work():
        ledger = Ledger(address)
        while True:
            with ledger.reserve("survey", event, REPLACE) as reservation:
                os.write(touched, f"{reservation.number}\n".encode())

    for _ in range(kills):
        before = os.fstat(touched).st_size
        child = in_a_child(work)
        # from the first run on, at any instant of the next few
        while os.fstat(touched).st_size == before:
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.04))
        os.kill(child, signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        # the next one goes on at once, whatever was left
        Ledger(address).statement("survey")
    os.close(touched)
    ran = [int(line) for line in (folder / "touched").read_text().split()]
    entries = {entry.number: entry for entry in Ledger(address).entries("survey")}
    assert len(ran) == len(set(ran))
    assert set(ran) <= set(entries)
    assert all(entries[number].counts for number in ran)
    assert Ledger(address).check().reservations == len(entries)
    return len(ran)


def test_killed_at_a_few_instants(address, tmp_path):
    killed(address, tmp_path, 12, "few")


@pytest.mark.slow
def test_killed_at_five_hundred_instants(address, tmp_path):
    assert killed(address, tmp_path, 500, "many") >= 500
