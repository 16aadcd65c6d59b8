"""The filter admits what fits, refuses before overspending, and cannot be talked into a second rule."""

import math
import random
from statistics import NormalDist

import pytest

from sordino.budget import Budget, Relation
from sordino.privacy import accountants
from sordino.privacy.accountants.rdp import RenyiAccountant
from sordino.privacy.events import (
    Approximate,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    PoissonSampled,
    PureDP,
    compose,
    flatten,
    repeat,
)
from sordino.privacy.filter import BudgetExceeded, PrivacyFilter, Rule

BUDGET = Budget(1.0, 1e-5, Relation.ADD_REMOVE)


def spend_all(filter_: PrivacyFilter, event: object, limit: int = 100_000) -> int:
    for count in range(limit):
        try:
            filter_.spend(event)  # type: ignore[arg-type]
        except BudgetExceeded:
            return count
    raise AssertionError("the filter never refused")


def test_gaussian_releases_up_to_the_last_that_fits() -> None:
    mu = accountants.gdp_mu(1.0, 1e-5)
    filter_ = PrivacyFilter(BUDGET)
    # 50 releases of mu / sqrt(50.5) fit, 51 do not
    count = spend_all(filter_, GaussianDP(mu / math.sqrt(50.5)))
    assert count == 50
    assert accountants.epsilon(filter_.spent, 1e-5, BUDGET.relation) <= 1.0
    assert not filter_.admits(GaussianDP(mu / 7))
    assert filter_.admits(GaussianDP(mu / 20))


def test_a_refused_release_is_not_charged() -> None:
    filter_ = PrivacyFilter(BUDGET)
    filter_.spend(Gaussian(10.0))
    with pytest.raises(BudgetExceeded, match=r"would exceed epsilon = 1\.0.*13\.9% of it is spent.*Stop here"):
        filter_.spend(Gaussian(1.0))
    assert flatten(filter_.spent)[0] == {Gaussian(10.0): 1}
    filter_.spend(Gaussian(10.0))
    assert issubclass(BudgetExceeded, RuntimeError)


def test_events_chosen_along_the_way() -> None:
    choose = random.Random(3)
    for _ in range(20):
        filter_ = PrivacyFilter(BUDGET)
        while True:
            event = choose.choice([Gaussian(choose.uniform(4, 40)), PureDP(choose.uniform(0.01, 0.2))])
            if not filter_.admits(event):
                break
            filter_.spend(event)
        assert accountants.epsilon(filter_.spent, 1e-5, BUDGET.relation) <= 1.0


@pytest.mark.parametrize(
    ("event", "relation"),
    [
        (repeat(PoissonSampled(Gaussian(2.0), 0.01), 10), Relation.ADD_REMOVE),
        (repeat(PoissonSampled(Gaussian(1.0), 0.01), 10), Relation.REPLACE_ONE),
        (repeat(FixedSizeSampled(Gaussian(4.0), 0.01), 10), Relation.REPLACE_ONE),
    ],
)
def test_sampled_releases_by_renyi(event: object, relation: Relation) -> None:
    filter_ = PrivacyFilter(Budget(1.0, 1e-5, relation))
    count = spend_all(filter_, event)
    assert filter_.rule is Rule.RENYI
    assert count > 10
    assert accountants.epsilon(filter_.spent, 1e-5, relation) <= 1.0
    # not wasteful: what the Renyi accountant itself, free to choose its order afterwards, would allow is not far
    ideal = RenyiAccountant()
    assert ideal.epsilon(repeat(event, int(1.2 * count) + 1), 1e-5, relation) > 1.0  # type: ignore[arg-type]


def test_a_pure_release_is_charged_as_the_gaussian_it_implies() -> None:
    filter_ = PrivacyFilter(BUDGET)
    filter_.spend(PureDP(0.1))
    mu = 2 * NormalDist().inv_cdf(math.exp(0.1) / (1 + math.exp(0.1)))
    limit = accountants.gdp_mu(1.0, 1e-5)
    assert filter_.admits(GaussianDP(math.sqrt(limit**2 - mu**2) * (1 - 1e-5)))
    assert not filter_.admits(GaussianDP(math.sqrt(limit**2 - mu**2) * (1 + 1e-5)))


def test_pure_budgets_add_up() -> None:
    filter_ = PrivacyFilter(Budget(1.0))
    for _ in range(4):
        filter_.spend(PureDP(0.25 * (1 - 1e-9)))
    assert not filter_.admits(PureDP(1e-6))
    assert not PrivacyFilter(Budget(1.0)).admits(Gaussian(100.0))
    with pytest.raises(BudgetExceeded, match="needs more than all"):
        PrivacyFilter(Budget(1.0)).spend(Gaussian(100.0))


def test_the_rule_is_fixed_by_the_first_release_or_by_what_is_expected() -> None:
    sampled = PoissonSampled(Gaussian(2.0), 0.01)
    filter_ = PrivacyFilter(BUDGET)
    filter_.spend(Gaussian(20.0))
    assert filter_.rule is Rule.GAUSSIAN
    with pytest.raises(ValueError, match=r"PrivacyFilter\(budget, expecting=event\)"):
        filter_.spend(sampled)
    mixed = PrivacyFilter(BUDGET, expecting=compose(Gaussian(20.0), repeat(sampled, 50)))
    mixed.spend(Gaussian(20.0))
    assert spend_all(mixed, sampled) > 50
    assert accountants.epsilon(mixed.spent, 1e-5, BUDGET.relation) <= 1.0


def test_distances_must_have_been_reserved() -> None:
    event = Approximate(Gaussian(20.0), 1e-8)
    assert not PrivacyFilter(BUDGET).admits(event)
    filter_ = PrivacyFilter(BUDGET, distance=3e-8)
    assert spend_all(filter_, event) == 3
    assert accountants.epsilon(filter_.spent, 1e-5, BUDGET.relation) <= 1.0
    with pytest.raises(ValueError, match="must stay below delta"):
        PrivacyFilter(BUDGET, distance=1e-5)
