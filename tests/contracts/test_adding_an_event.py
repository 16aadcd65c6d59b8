"""CONTRIBUTING's way to a new event: a kind, and an accountant that knows it. Nobody else has to be told."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from sordino import wire
from sordino.budget import Budget, Relation
from sordino.ledger.ledger import Ledger
from sordino.privacy import accountants, events
from sordino.privacy.accountants.event_leaves import leaves_of
from sordino.privacy.events import Composed
from sordino.privacy.filter import BudgetExceeded, PrivacyFilter

DELTA, RELATION = 1e-6, Relation.REPLACE_ONE


@dataclass(frozen=True)
class Lottery:
    """Gives everything away with probability `chance`, and nothing otherwise."""

    chance: float


class LotteryAccountant:
    name = "lottery"

    def supports(self, event, relation):
        leaves = leaves_of(event, relation)
        special = all(isinstance(one, Lottery) for one, _ in leaves.special)
        return special and bool(leaves.special) and not (leaves.pure or leaves.sampled or leaves.mu)

    def delta(self, event, epsilon, relation):
        leaves = leaves_of(event, relation)
        return min(1.0, math.fsum(count * one.chance for one, count in leaves.special))

    def epsilon(self, event, delta, relation):
        return 0.0 if self.delta(event, 0.0, relation) <= delta else math.inf

    def error(self, event, delta, relation, epsilon):
        return 0.0


@pytest.fixture(autouse=True)
def known(monkeypatch):
    # what writing it into the union does
    monkeypatch.setattr(events, "Event", events.Event | Lottery)
    monkeypatch.setitem(events.KINDS, "Lottery", Lottery)
    monkeypatch.setattr(accountants, "ACCOUNTANTS", (*accountants.ACCOUNTANTS, LotteryAccountant()))
    wire._types.cache_clear()
    yield
    wire._types.cache_clear()


def test_it_is_priced():
    assert accountants.guarantee(Lottery(1e-7), DELTA, RELATION).epsilon == 0
    assert accountants.guarantee(Composed(((Lottery(1e-7), 11),)), DELTA, RELATION).epsilon == math.inf


def test_without_its_accountant_nobody_prices_it(monkeypatch):
    monkeypatch.setattr(accountants, "ACCOUNTANTS", accountants.ACCOUNTANTS[:-1])
    with pytest.raises(ValueError, match="no accountant supports this event"):
        accountants.guarantee(Lottery(1e-7), DELTA, RELATION)


def test_a_filter_and_a_ledger_charge_it(tmp_path):
    within = PrivacyFilter(Budget(1.0, DELTA, RELATION))
    within.spend(Lottery(1e-9))
    with pytest.raises(BudgetExceeded):
        within.spend(Lottery(1e-5))
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("survey", Budget(1.0, DELTA, RELATION))
    with ledger.reserve("survey", Lottery(1e-9), RELATION, "a lottery"):
        pass
    with pytest.raises(BudgetExceeded):
        ledger.reserve("survey", Lottery(1e-5), RELATION, "another")


def test_it_is_written_and_read():
    event = Composed(((Lottery(1e-7), 3),))
    assert events.from_json(events.to_json(event)) == event
