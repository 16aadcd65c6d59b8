"""Every event x every accountant that supports it x both relations: what all of them promise.

dp_accounting, asked for second opinions only, takes about a second a question: it is held to the agreement tests.
Objective perturbation has an accountant and tests of its own.
"""

import math
from itertools import pairwise

import pytest

from sordino.budget import Relation
from sordino.privacy import accountants
from sordino.privacy.accountants import ACCOUNTANTS, OPINIONS, Accountant, gdp_epsilon, guarantee, second_opinion
from sordino.privacy.accountants.pld import LossAccountant
from sordino.privacy.events import (
    Approximate,
    Composed,
    Event,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    PoissonSampled,
    PureDP,
    compose,
    from_json,
    repeat,
    to_json,
)

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
DELTA = 1e-5
GENERAL = tuple(accountant for accountant in OPINIONS if accountant.name != "dp_accounting")

EVENTS: dict[str, Event] = {
    "gaussian": Gaussian(2.0),
    "gaussian dp": GaussianDP(0.3),
    "pure": PureDP(0.2),
    "poisson": PoissonSampled(Gaussian(1.2), 0.05),
    "poisson, everybody": PoissonSampled(Gaussian(2.0), 1.0),
    "fixed size": FixedSizeSampled(Gaussian(1.2), 0.05),
    "fixed size, everybody": FixedSizeSampled(Gaussian(2.0), 1.0),
    "approximate": Approximate(Gaussian(2.0), 1e-12),
    "mixed": compose(Gaussian(4.0), PureDP(0.1), PoissonSampled(Gaussian(1.5), 0.1)),
}

SUPPORTED = [
    pytest.param(event, accountant, relation, id=f"{name}-{accountant.name}-{relation}")
    for name, event in EVENTS.items()
    for accountant in GENERAL
    for relation in Relation
    if accountant.supports(event, relation)
]

every_supported = pytest.mark.parametrize(("event", "accountant", "relation"), SUPPORTED)


def tolerance(accountant: Accountant) -> float:
    """How well epsilon and delta must invert each other, relative to epsilon; the grids of PLD differ slightly."""
    return 5e-5 if accountant.name == "pld" else 1e-8


def test_the_support_table() -> None:
    """Which combinations are covered is a promise of its own: losing one silently would be a regression."""
    everything = set(EVENTS)
    fixed = {"fixed size", "fixed size, everybody"}
    gaussian = {"gaussian", "gaussian dp", "approximate", "poisson, everybody"}
    expected = {
        ("gdp", ADD): gaussian,
        ("gdp", REPLACE): gaussian | {"fixed size, everybody"},
        ("pld", ADD): everything - fixed,
        ("pld", REPLACE): everything,
        ("dp_accounting", ADD): everything - fixed,
        ("dp_accounting", REPLACE): everything - {"fixed size"},
        ("rdp", ADD): everything - fixed,
        ("rdp", REPLACE): everything,
    }
    for accountant in OPINIONS:
        for relation in Relation:
            found = {name for name, event in EVENTS.items() if accountant.supports(event, relation)}
            assert found == expected[accountant.name, relation], (accountant.name, relation)


@every_supported
def test_repeating_is_composing_copies(event: Event, accountant: Accountant, relation: Relation) -> None:
    copies = accountant.epsilon(compose(*[event] * 5), DELTA, relation)
    nested = Composed(((Composed(((event, 2),)), 2), (event, 1)))
    assert accountant.epsilon(repeat(event, 5), DELTA, relation) == pytest.approx(copies, rel=1e-9)
    assert accountant.epsilon(nested, DELTA, relation) == pytest.approx(copies, rel=1e-9)


@every_supported
@pytest.mark.parametrize("delta", [1e-7, 1e-3])
def test_epsilon_and_delta_are_inverse(event: Event, accountant: Accountant, relation: Relation, delta: float) -> None:
    run = repeat(event, 4)
    epsilon = accountant.epsilon(run, delta, relation)
    close = tolerance(accountant)
    if epsilon > 0:
        assert accountant.delta(run, epsilon * (1 + close), relation) <= delta * (1 + 1e-9)
        assert accountant.delta(run, epsilon * (1 - 4 * close), relation) >= delta * (1 - 1e-9)
    else:
        assert accountant.delta(run, 0.0, relation) <= delta * (1 + 1e-6)


@every_supported
def test_more_releases_and_smaller_deltas_cost_more(event: Event, accountant: Accountant, relation: Relation) -> None:
    by_count = [accountant.epsilon(repeat(event, count), DELTA, relation) for count in (1, 2, 8)]
    assert all(a < b for a, b in pairwise(by_count))
    by_delta = [accountant.epsilon(repeat(event, 4), delta, relation) for delta in (1e-3, 1e-5, 1e-7)]
    assert all(a < b for a, b in pairwise(by_delta))
    by_epsilon = [accountant.delta(repeat(event, 4), epsilon, relation) for epsilon in (0.1, 0.5, 2.0)]
    assert all(a >= b for a, b in pairwise(by_epsilon))
    assert all(0 <= delta <= 1 for delta in by_epsilon)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("kind", [PoissonSampled, FixedSizeSampled])
@pytest.mark.parametrize("accountant", GENERAL, ids=lambda a: a.name)
def test_less_noise_and_higher_rates_cost_more(kind: type, accountant: Accountant, relation: Relation) -> None:
    if not accountant.supports(kind(Gaussian(1.0), 0.1), relation):
        with pytest.raises(ValueError, match=r"only|fixed-size"):
            accountant.epsilon(kind(Gaussian(1.0), 0.1), DELTA, relation)
        return
    by_noise = [accountant.epsilon(repeat(kind(Gaussian(z), 0.05), 20), DELTA, relation) for z in (4.0, 2.0, 1.0)]
    by_rate = [accountant.epsilon(repeat(kind(Gaussian(2.0), q), 20), DELTA, relation) for q in (0.02, 0.1, 0.5)]
    assert all(a < b for a, b in pairwise(by_noise))
    assert all(a < b for a, b in pairwise(by_rate))


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("multiplier", [0.5, 2.0, 10.0])
def test_noise_means_the_same_to_every_accountant(relation: Relation, multiplier: float) -> None:
    """Two methods of dp_accounting understand a noise multiplier under replace_one differently, by a factor of two.

    Ours is relative to the sensitivity under the relation, so a Gaussian costs the same under both and by all.
    """
    exact = gdp_epsilon(1 / multiplier, DELTA)
    for accountant in OPINIONS:
        epsilon = accountant.epsilon(Gaussian(multiplier), DELTA, relation)
        assert exact * (1 - 1e-6) <= epsilon
        # moments lose some; everything else is exact up to its grid
        assert epsilon <= exact * (1.25 if accountant.name == "rdp" else 1 + 1e-3)


@pytest.mark.parametrize("relation", list(Relation))
def test_sampling_everybody_is_the_full_batch(relation: Relation) -> None:
    for accountant in GENERAL:
        full = accountant.epsilon(repeat(Gaussian(3.0), 10), DELTA, relation)
        for kind in (PoissonSampled, FixedSizeSampled):
            event = repeat(kind(Gaussian(3.0), 1.0), 10)
            if accountant.supports(event, relation):
                assert accountant.epsilon(event, DELTA, relation) == pytest.approx(full, rel=1e-9)


@pytest.mark.parametrize("relation", list(Relation))
def test_nearly_everybody_is_nearly_the_full_batch(relation: Relation) -> None:
    full = gdp_epsilon(math.sqrt(10) / 3, DELTA)
    for kind in (PoissonSampled, FixedSizeSampled):
        event = repeat(kind(Gaussian(3.0), 1 - 1e-7), 10)
        if LossAccountant().supports(event, relation):
            assert accountants.epsilon(event, DELTA, relation) == pytest.approx(full, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", EVENTS)
def test_methods_agree_and_losses_are_tightest(name: str, relation: Relation) -> None:
    event = repeat(EVENTS[name], 30)
    epsilons = {a.name: a.epsilon(event, DELTA, relation) for a in OPINIONS if a.supports(event, relation)}
    if not epsilons:
        return
    tightest = min(epsilons.values())
    assert epsilons["pld"] <= epsilons["rdp"] * (1 + 1e-4)
    assert epsilons["pld"] <= tightest * (1 + 1e-4)
    assert epsilons.get("dp_accounting", tightest) == pytest.approx(tightest, rel=2e-3)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", EVENTS)
def test_the_guarantee_and_the_second_opinion(name: str, relation: Relation) -> None:
    event = repeat(EVENTS[name], 3)
    supporting = [a for a in ACCOUNTANTS if a.supports(event, relation)]
    if not supporting:
        with pytest.raises(ValueError, match=r"no accountant supports this event under add_remove: fixed-size"):
            guarantee(event, DELTA, relation)
        with pytest.raises(ValueError, match=r"no accountant supports"):
            accountants.epsilon(event, DELTA, relation)
        with pytest.raises(ValueError, match=r"no accountant supports"):
            accountants.delta(event, 1.0, relation)
        with pytest.raises(ValueError, match=r"no accountant supports"):
            second_opinion(event, DELTA, relation, "pld")
        return
    first = guarantee(event, DELTA, relation)
    assert first.accountant == supporting[0].name
    assert first.epsilon == accountants.epsilon(event, DELTA, relation)
    assert (first.delta, first.relation) == (DELTA, relation)
    assert first.error is not None
    assert 0 <= first.error < 1e-3 * first.epsilon
    second = second_opinion(event, DELTA, relation, first.accountant)
    assert second is not None
    assert second.accountant != first.accountant
    assert second.epsilon >= (first.epsilon - first.error) * (1 - 1e-6)


def test_relations_may_be_given_by_name() -> None:
    assert guarantee(Gaussian(1.0), DELTA, "replace_one").relation is REPLACE  # type: ignore[arg-type]
    assert accountants.epsilon(Gaussian(1.0), DELTA, "add_remove") > 0  # type: ignore[arg-type]


def test_a_budget_that_nothing_meets_is_infinite_and_not_an_error() -> None:
    hopeless = Approximate(Gaussian(1.0), 1e-3)
    assert guarantee(hopeless, DELTA, ADD).epsilon == math.inf
    assert accountants.epsilon(hopeless, DELTA, ADD) == math.inf
    assert second_opinion(hopeless, DELTA, ADD, "gdp") is None
    assert accountants.epsilon(Gaussian(1.0), 0.0, ADD) == math.inf
    # beyond the range of the losses, moments still answer
    loud = repeat(PoissonSampled(Gaussian(0.01), 0.5), 100)
    assert guarantee(loud, DELTA, ADD).accountant == "rdp"


def test_nothing_costs_nothing() -> None:
    assert guarantee(Composed(()), DELTA, REPLACE).epsilon == 0
    assert guarantee(GaussianDP(0.0), 0.0, REPLACE).epsilon == 0
    assert guarantee(PureDP(0.0), 0.0, ADD).epsilon == 0


@pytest.mark.parametrize("delta", [-0.1, 1.0, math.nan])
def test_impossible_deltas_are_refused(delta: float) -> None:
    for accountant in OPINIONS:
        with pytest.raises(ValueError, match="delta is"):
            accountant.epsilon(Gaussian(1.0), delta, ADD)


@pytest.mark.parametrize("epsilon", [-0.1, math.nan])
def test_impossible_epsilons_are_refused(epsilon: float) -> None:
    for accountant in OPINIONS:
        with pytest.raises(ValueError, match="epsilon is"):
            accountant.delta(Gaussian(1.0), epsilon, ADD)


@pytest.mark.parametrize("name", EVENTS)
def test_events_survive_json(name: str) -> None:
    event = repeat(compose(EVENTS[name], Gaussian(3.0)), 7)
    assert from_json(to_json(event)) == event
    if LossAccountant().supports(event, REPLACE):
        again = from_json(to_json(event))
        assert accountants.epsilon(again, DELTA, REPLACE) == accountants.epsilon(event, DELTA, REPLACE)
