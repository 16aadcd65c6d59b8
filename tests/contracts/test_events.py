"""Every kind of event x everybody who is handed one: it is priced, never below what it truly costs, or it raises.

The rows are made from the registry of kinds, so a new kind fails here until somebody has written down what it costs at
least. References are computed here, from definitions: sums and integrals over the pair that a release is told apart by.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize
from scipy.stats import norm

import few_steps
from sordino import wire
from sordino.budget import Budget, Relation
from sordino.certificate import Certificate, verify
from sordino.ledger.ledger import Ledger
from sordino.methods import NoisyGradientDescent
from sordino.oracle import linear_oracle
from sordino.privacy import accountants, events
from sordino.privacy.accountants import ACCOUNTANTS, OPINIONS, guarantee, second_opinion
from sordino.privacy.charges import BudgetExceeded, epsilon_of
from sordino.privacy.events import (
    Approximate,
    Composed,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    Leak,
    ObjectivePerturbed,
    PoissonSampled,
    PureDP,
    Selected,
)
from sordino.privacy.filter import PrivacyFilter, charge
from sordino.privacy.randomness import Randomness
from sordino.words import described

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
DELTA = 1e-5
PLACES = (0.02, 0.3, 1.0, 2.5)

Profile = Callable[[float, Relation], float]


def shift(x: float, mu: float) -> float:
    """delta at epsilon x of telling N(0, 1) from N(mu, 1)."""
    return float(norm.cdf(-x / mu + mu / 2) - math.exp(x) * norm.cdf(-x / mu - mu / 2))


def poisson(x: float, relation: Relation, z: float, q: float) -> float:
    """The larger of both orders of P - e^x Q where that is positive: on one side of a point, for the ratio is monotone.

    A contribution is 1 / z away from none, or 1 / 2z either way.
    """
    one, other = (1 / z, 0.0) if relation is ADD else (0.5 / z, -0.5 / z)
    found = 0.0
    for a, b in ((one, other), (other, one)):

        def excess(t: float, a: float = a, b: float = b) -> float:
            mixed = [math.log1p(q * math.expm1(at * t - at * at / 2)) for at in (a, b)]
            return mixed[0] - mixed[1] - x

        far = 40.0 if a > b else -40.0
        if excess(far) <= 0:
            continue
        point = -far if excess(-far) > 0 else optimize.brentq(excess, -40, 40, xtol=1e-13)
        P, Q = (
            (1 - q) * norm.sf(s * point) + q * norm.sf(s * (point - at)) for s, at in ((far / 40, a), (far / 40, b))
        )
        found = max(found, float(P - math.exp(x) * Q))
    return found


def fixed_size(x: float, relation: Relation, z: float, q: float) -> float:
    return q * shift(math.log1p(math.expm1(x) / q), 1 / z)


def response(x: float, epsilon: float) -> float:
    """Randomised response: (e^epsilon - e^x)+ / (1 + e^epsilon)."""
    return max(0.0, math.exp(epsilon) - math.exp(x)) / (1 + math.exp(epsilon))


def both(x: float, mu: float, epsilon: float) -> float:
    """A Gaussian release and randomised response beside it."""
    p = 1 / (1 + math.exp(-epsilon))

    def at(y: float) -> float:
        return shift(y, mu) if y >= 0 else 1 - math.exp(y) + math.exp(y) * shift(-y, mu)

    return p * at(x - epsilon) + (1 - p) * at(x + epsilon)


def beside_leaks(delta: float, leak: float, count: int) -> float:
    return 1 - (1 - leak) ** count * (1 - delta)


@dataclass(frozen=True)
class Row:
    event: Any
    least: Profile
    relations: tuple[Relation, ...] = (ADD, REPLACE)


ROWS: dict[type, list[Row]] = {
    Gaussian: [Row(Gaussian(2.0), lambda x, _: shift(x, 0.5)), Row(Gaussian(40.0), lambda x, _: shift(x, 1 / 40))],
    GaussianDP: [Row(GaussianDP(0.3), lambda x, _: shift(x, 0.3))],
    PureDP: [Row(PureDP(0.2), lambda x, _: response(x, 0.2)), Row(PureDP(1.5), lambda x, _: response(x, 1.5))],
    PoissonSampled: [Row(PoissonSampled(Gaussian(0.8), 0.2), lambda x, r: poisson(x, r, 0.8, 0.2))],
    FixedSizeSampled: [Row(FixedSizeSampled(Gaussian(1.2), 0.2), lambda x, r: fixed_size(x, r, 1.2, 0.2), (REPLACE,))],
    # a slope that never changes leaves only the Gaussian term of the objective
    ObjectivePerturbed: [Row(ObjectivePerturbed(0.01, 3.0, 300.0), lambda x, _: shift(x, 1 / 3))],
    Leak: [Row(Leak(1e-7), lambda *_: 1e-7)],
    Approximate: [Row(Approximate(Gaussian(2.0), 1e-12), lambda x, _: shift(x, 0.5) + 1e-12)],
    Composed: [
        Row(Composed(((Gaussian(3.0), 4), (PureDP(0.5), 1))), lambda x, _: both(x, 2 / 3, 0.5)),
        Row(
            Composed(((ObjectivePerturbed(0.01, 4.0, 400.0), 1), (Gaussian(4.0), 1))),
            lambda x, _: shift(x, math.sqrt(2) / 4),
        ),
        *(
            Row(
                Composed(((released, 1), (Leak(1e-9), 3))), lambda x, r, least=least: beside_leaks(least(x, r), 1e-9, 3)
            )
            for released, least in (
                (Gaussian(2.0), lambda x, _: shift(x, 0.5)),
                (PureDP(0.5), lambda x, _: response(x, 0.5)),
                (PoissonSampled(Gaussian(0.8), 0.2), lambda x, r: poisson(x, r, 0.8, 0.2)),
                (ObjectivePerturbed(0.01, 3.0, 300.0), lambda x, _: shift(x, 1 / 3)),
            )
        ),
    ],
    # one run at least, if there is any: its output alone tells so much
    Selected: [
        Row(Selected((GaussianDP(0.05),), 2.0, "geometric"), lambda x, _: shift(x, 0.05)),
        Row(Selected((GaussianDP(0.05),), 2.0, "poisson"), lambda x, _: (1 - math.exp(-2)) * shift(x, 0.05)),
        Row(Selected((GaussianDP(0.05),), 2.0, "logarithmic"), lambda x, _: shift(x, 0.05)),
    ],
}


@dataclass(frozen=True)
class Unheard:
    """A kind that nobody has been told of."""

    epsilon: float = 0.1


UNPRICED: list[tuple[Any, Relation]] = [
    (FixedSizeSampled(Gaussian(1.0), 0.1), ADD),
    (Composed(((FixedSizeSampled(Gaussian(50.0), 0.1), 1), (PureDP(0.1), 1))), ADD),
    (Composed(((ObjectivePerturbed(0.01, 9.0, 900.0), 2),)), REPLACE),
    (Composed(((ObjectivePerturbed(0.01, 9.0, 900.0), 1), (PureDP(0.1), 1))), REPLACE),
    (Selected((ObjectivePerturbed(0.01, 9.0, 900.0),), 2.0, "poisson"), REPLACE),
    (Selected((Selected((GaussianDP(0.1),), 2.0, "poisson"),), 2.0, "poisson"), REPLACE),
    (Selected((Composed(((GaussianDP(0.1), 1), (Leak(1e-9), 1))),), 2.0, "poisson"), REPLACE),
    (Composed(((Selected((GaussianDP(0.1),), 2.0, "poisson"), 1), (Leak(1e-9), 1))), REPLACE),
    (Unheard(), REPLACE),
    (Composed(((Unheard(), 3), (Gaussian(9.0), 1))), ADD),
    (Approximate(Unheard(), 1e-9), ADD),  # type: ignore[arg-type]
]

CASES = [
    pytest.param(row, relation, id=f"{kind.__name__}{number}-{relation}")
    for kind, rows in ROWS.items()
    for number, row in enumerate(rows)
    for relation in row.relations
]
every_case = pytest.mark.parametrize(("row", "relation"), CASES)
every_unpriced = pytest.mark.parametrize(("event", "relation"), UNPRICED)
EVERYBODY = {accountant.name: accountant for accountant in (*ACCOUNTANTS, *OPINIONS)}


def test_the_table_has_every_kind() -> None:
    assert set(ROWS) == set(events.KINDS.values())
    for kind, rows in ROWS.items():
        assert rows
        assert all(type(row.event) is kind for row in rows)


@every_case
def test_accountants_price_it_or_raise(row: Row, relation: Relation) -> None:
    """Each of them: never below the reference, or an error."""
    for accountant in EVERYBODY.values():
        # one answer of the library that is not ours takes a second
        places = PLACES[1:2] if accountant.name == "dp_accounting" else PLACES
        try:
            epsilon = accountant.epsilon(row.event, DELTA, relation)
            deltas = [accountant.delta(row.event, x, relation) for x in places]
        except ValueError:
            assert not accountant.supports(row.event, relation), accountant.name
            continue
        assert row.least(epsilon, relation) <= DELTA * (1 + 1e-6), accountant.name
        for x, delta in zip(places, deltas, strict=True):
            assert delta >= row.least(x, relation) * (1 - 1e-6), (accountant.name, x)
    assert any(accountant.supports(row.event, relation) for accountant in ACCOUNTANTS)


@every_case
def test_the_guarantee_is_the_smallest_of_all(row: Row, relation: Relation) -> None:
    supporting = [a for a in ACCOUNTANTS if a.supports(row.event, relation)]
    for delta in (1e-7, DELTA, 1e-2):
        epsilons = [a.epsilon(row.event, delta, relation) for a in supporting]
        first = guarantee(row.event, delta, relation)
        assert first.epsilon == accountants.epsilon(row.event, delta, relation)
        assert first.epsilon <= min(epsilons) * (1 + 1e-4)
        assert row.least(first.epsilon, relation) <= delta * (1 + 1e-6)
    second = second_opinion(row.event, DELTA, relation, first.accountant)
    assert second is None or row.least(second.epsilon, relation) <= DELTA * (1 + 1e-6)
    for x in PLACES:
        assert accountants.delta(row.event, x, relation) == min(a.delta(row.event, x, relation) for a in supporting)


@every_case
def test_the_filter_and_the_ledger_charge_it(row: Row, relation: Relation, tmp_path: Any) -> None:
    """What was admitted beside a Gaussian release leaves less for the next one, by at least what it truly costs."""
    # one place only: a profile takes a second
    cap = Budget(6.0, 1e-4, relation)
    taken = charge(row.event, cap, 1)
    needed = epsilon_of(taken, cap)
    # what a filter says is enough holds for the event by itself
    assert needed > 0 or taken.leak > 0
    assert row.least(min(needed, 500.0), relation) <= cap.delta
    for x in PLACES:
        gaussian = accountants.gdp_delta(x, taken.mu) if math.isfinite(taken.mu) else 1.0
        allowed = taken.leak + gaussian + (1 + math.exp(x)) * taken.total_variation
        assert row.least(x, relation) <= allowed * (1 + 1e-6)

    filter_, ledger = PrivacyFilter(cap), Ledger(tmp_path / "ledger")
    ledger.open("survey", cap)
    assert filter_.admits(row.event) == (needed <= cap.epsilon)
    filter_.spend(row.event)
    with ledger.reserve("survey", row.event, relation):
        pass
    (entry,) = ledger.entries("survey")
    assert entry.charge == taken
    left = ledger.remaining("survey")
    assert left is None or left.epsilon < cap.epsilon or taken.leak > 0
    # neither admits what exceeds its budget
    pure = Budget(1e-3, 0.0, relation)
    assert not PrivacyFilter(pure).admits(row.event)
    ledger.open("pure", pure)
    with pytest.raises(BudgetExceeded):
        ledger.reserve("pure", row.event, relation)


@pytest.fixture(scope="module")
def issued() -> Certificate:
    """An honest one."""
    from sordino.train import train

    X, y = few_steps.data(60, 3)
    method = NoisyGradientDescent(2)
    problem = few_steps.problem(method, 60, 3)
    oracle = linear_oracle(X, y, problem, few_steps.ROWS)
    return train(problem, Budget(1.0, 1e-5), method, oracle, Randomness.seeded(0)).certificate


@every_case
def test_files_hold_it_and_nobody_believes_one_that_was_not_planned(
    row: Row, relation: Relation, issued: Certificate
) -> None:
    text = json.dumps(events.to_json(row.event), allow_nan=False)
    assert events.from_json(wire.parse(text)) == row.event
    swapped = replace(issued, event=row.event)
    again = Certificate.from_json(swapped.to_json())
    assert again.event == row.event
    assert not all(finding.holds for finding in verify(again))


@every_case
def test_reports_have_words_for_it(row: Row, relation: Relation) -> None:
    words = described(row.event)
    assert words
    # another event of the kind reads differently
    assert words != described(Composed(((row.event, 7),)))


@every_unpriced
def test_what_nobody_can_price_raises_everywhere(event: Any, relation: Relation, tmp_path: Any) -> None:
    for accountant in EVERYBODY.values():
        assert not accountant.supports(event, relation)
        for ask in (accountant.epsilon, accountant.delta):
            with pytest.raises(ValueError, match=r"\."):
                ask(event, 0.1, relation)
    cap = Budget(10.0, 1e-3, relation)
    ledger = Ledger(tmp_path / "ledger")
    for number, budget in enumerate((cap, replace(cap, delta=0.0))):
        ledger.open(f"survey {number}", budget)
        asks: list[Callable[[], Any]] = [
            lambda: guarantee(event, 0.1, relation),
            lambda: accountants.epsilon(event, 0.1, relation),
            lambda: accountants.delta(event, 0.1, relation),
            lambda: second_opinion(event, 0.1, relation, "nobody"),
            lambda budget=budget: charge(event, budget, 1),
            lambda budget=budget: PrivacyFilter(budget).admits(event),
            lambda budget=budget: PrivacyFilter(budget).spend(event),
            lambda number=number: ledger.reserve(f"survey {number}", event, relation),
        ]
        for place, ask in enumerate(asks):
            with pytest.raises(ValueError, match="no accountant supports this event"):
                pytest.fail(f"{place}: {ask()}")
    assert ledger.entries("survey 0") == ()


@pytest.mark.parametrize("event", [Unheard(), Composed(((Unheard(), 2),))])  # type: ignore[arg-type]
def test_a_kind_that_is_not_registered_has_no_words_and_no_file(event: Any) -> None:
    with pytest.raises(TypeError, match="Unheard"):
        described(event)
    with pytest.raises(ValueError, match="unknown kind 'Unheard'"):
        events.from_json(events.to_json(event))


def test_where_the_losses_are_out_of_range_moments_answer() -> None:
    """The tightest accountant gives up first; the others' answers count then, for epsilon and for delta."""
    generator = np.random.default_rng(3)
    found = 0
    for _ in range(8):
        z, q, count = 10 ** generator.uniform(-2, -0.7), 10 ** generator.uniform(-2, 0), int(generator.integers(1, 300))
        event = Composed(((PoissonSampled(Gaussian(z), q), count), (PureDP(0.1), 1)))
        epsilons = [a.epsilon(event, DELTA, ADD) for a in ACCOUNTANTS if a.supports(event, ADD)]
        assert accountants.epsilon(event, DELTA, ADD) == min(epsilons)
        found += math.isinf(epsilons[0]) and math.isfinite(min(epsilons))
        x = 1.01 * min(epsilons)
        assert accountants.delta(event, x, ADD) <= DELTA * (1 + 1e-6)
    assert found
