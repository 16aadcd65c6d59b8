"""Categories that nobody could list: told where they are frequent, paid for, and never because of one record."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from sordino import (
    NoisyGradientDescent,
    PrivateHuberRegressor,
    PrivateLogisticRegression,
    PrivateMLPClassifier,
    PrivateSearch,
    Schema,
    load_model,
    save_model,
    verify,
)
from sordino.budget import Budget, Relation
from sordino.certificate import Certificate
from sordino.ledger.ledger import Ledger
from sordino.losses import Logistic
from sordino.model_file import read_model, verify_model
from sordino.oracle.statistics import ValueCounts
from sordino.oracle.uncoded import UncodedRecords
from sordino.prepare import Categories, Discovered, NormQuantile, Prepared
from sordino.prepare.categories import LEAKS, leak_of, threshold_for
from sordino.privacy import accountants
from sordino.privacy.events import Composed, Gaussian, flatten
from sordino.privacy.ledger_context import charged_to
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.tabular import Category, ClassTarget, Number, NumberTarget

pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")

N = 3000
SCHEMA = Schema(
    ClassTarget("y", ("no", "yes")), {"x": Number(-3, 3), "village": Category(None, discover=4, missing="indicator")}
)
FREQUENT = ("Aa", "Bo", "Cy")


def table(n: int = N) -> pd.DataFrame:
    """Three villages with many records, and one for every tenth record that nobody else lives in."""
    rng = np.random.default_rng(3)
    village = rng.choice([*FREQUENT, None], size=n, p=[0.4, 0.3, 0.2, 0.1]).astype(object)
    village[::10] = [f"alone {k}" for k in range(len(village[::10]))]
    x = rng.normal(size=n)
    yes = x + 2 * (village == "Bo") - 2 * (village == "Aa") + rng.normal(scale=0.3, size=n) > 0
    return pd.DataFrame({"x": x, "village": village, "y": np.where(yes, "yes", "no")})


# --- What it costs ---


@pytest.mark.parametrize(
    ("std", "single", "tau"), [(1.0, 1e-6, 5.753424309), (5.0, 1e-9, 30.98903508), (20.0, 1e-10, 128.2268180)]
)
def test_the_threshold(std, single, tau):
    """1 + s Phi^-1(1 - delta_0), by mpmath."""
    noise = GaussianNoise(1.0, std, 2)
    found = threshold_for(noise, single)
    assert found == pytest.approx(tau, rel=1e-7)
    # a step of the lattice more, so that rounding never shows what the formula would not
    assert norm.sf((found - 1 - noise.step) / std) <= single


def told(counts, noise, threshold):
    """The probability of being told, of every value that occurs."""
    return {value: norm.sf((threshold - count) / noise.std) for value, count in counts.items() if count}


def largest_delta(one, other, epsilon):
    """sup over sets of told names of P - e^epsilon Q: names are told independently of each other."""
    names = sorted({*one, *other})
    total = 0.0
    for shown in itertools.product((False, True), repeat=len(names)):
        P, Q = (
            math.prod(
                law.get(name, 0.0) if is_told else 1 - law.get(name, 0.0)
                for name, is_told in zip(names, shown, strict=True)
            )
            for law in (one, other)
        )
        total += max(0.0, P - math.exp(epsilon) * Q)
    return total


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize(("std", "single"), [(0.4, 1e-2), (1.5, 1e-3), (4.0, 0.1)])
def test_no_neighbours_are_further_apart_than_the_event_says(relation, std, single):
    """Every table of up to five records of three values, and all its neighbours, in both directions."""
    noise = GaussianNoise(ValueCounts(1).sensitivity(relation), std, 2)
    event, threshold = Composed(((noise.event, 1), (leak_of(single), 1))), threshold_for(noise, single)
    claimed = {epsilon: accountants.delta(event, epsilon, relation) for epsilon in (0.0, 0.1, 0.5, 1.0, 3.0)}
    largest = dict.fromkeys(claimed, 0.0)
    for size in range(1, 6):
        for records in itertools.combinations_with_replacement("abc", size):
            rest = records[1:]
            pairs = [(*rest, new) for new in "abc"] if relation is Relation.REPLACE_ONE else [rest]
            laws = [told(Counter(some), noise, threshold) for some in (records, *pairs)]
            for law, epsilon in itertools.product(laws[1:], claimed):
                for one, other in ((laws[0], law), (law, laws[0])):
                    largest[epsilon] = max(largest[epsilon], largest_delta(one, other, epsilon))
    for epsilon, found in largest.items():
        assert found <= claimed[epsilon] * (1 + 1e-9)
        # a value of one record alone is told as often as the event admits
        assert found >= single * (1 - 1e-6)


@pytest.mark.parametrize("delta_0", [1e-6, 1e-3])
def test_the_profiles_of_all_cases_are_below_that_of_the_event(delta_0):
    """Noisy counts and all: more than is ever told. At (5, 1, 1e-6) by mpmath: 2.345291565e-5, 1.017545854e-6 .."""
    s, t = 5.0, -math.log1p(-delta_0)
    event = Composed(((Gaussian(s / math.sqrt(2)), 1), (leak_of(delta_0), 1)))
    for epsilon in np.linspace(0.0, 3.0, 13):
        claimed = accountants.delta(event, epsilon, Relation.REPLACE_ONE)
        cases = [
            accountants.gdp_delta(epsilon, math.sqrt(2) / s),
            delta_0 + (1 - delta_0) * accountants.gdp_delta(epsilon + t, 1 / s),
            accountants.gdp_delta(epsilon - t, 1 / s),
            delta_0,
        ]
        assert max(cases) <= claimed * (1 + 1e-9)
        if delta_0 == 1e-6 and epsilon == 1.0:
            assert cases[:3] == pytest.approx([2.345291565e-5, 1.017545854e-6, 1.754679496e-8], rel=1e-8)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("columns", [1, 3])
def test_the_whole_costs_the_budget(relation, columns):
    budget, problem = Budget(1.0, 1e-6, relation), Problem(N, 5, Logistic())
    method = Discovered(Prepared(NoisyGradientDescent(20), (NormQuantile(),)), Categories(0.2), columns)
    plan = method.plan(problem, budget)
    assert 0.99 <= accountants.epsilon(plan.event, budget.delta, relation) <= 1.0
    assert plan.noise.std >= math.sqrt(relation.distance * columns) * plan.noise.multiplier * (1 - 1e-12)
    assert columns * plan.leak.probability == pytest.approx(LEAKS * budget.delta)
    # all of it is in the event, and a fifth of mu^2 is the discovery's
    counted = flatten(plan.event)[0]
    assert counted[plan.leak] == columns
    assert counted[Gaussian(plan.noise.multiplier)] == 1
    mu = accountants.gdp_mu(1.0, 1e-6)
    assert 1 / plan.noise.multiplier**2 == pytest.approx(0.2 * mu**2, rel=1e-4)


# --- What is told ---


def uncoded(counts, most=2, relation=Relation.REPLACE_ONE):
    return UncodedRecords({"c": most}, relation, lambda: {"c": counts}, lambda found: found)


def test_the_most_frequent_are_told_in_alphabetical_order():
    noise = GaussianNoise(math.sqrt(2), 1e-6, 2)
    counts = {"z": 90, "b": 100, "rare": 5, "a": 80}
    assert uncoded(counts).values(noise, 10.0, Randomness.seeded(0)) == {"c": ("b", "z")}
    assert uncoded(counts, most=9).values(noise, 10.0, Randomness.seeded(0)) == {"c": ("a", "b", "z")}
    assert uncoded({}).values(noise, 10.0, Randomness.seeded(0)) == {"c": ()}


def test_noise_for_another_sensitivity_is_refused():
    with pytest.raises(ValueError, match="calibrate the noise to the query"):
        uncoded({"a": 1}).values(GaussianNoise(1.0, 1.0, 2), 10.0, Randomness.seeded(0))
    with pytest.raises(ValueError, match="no rows before their categories are known"):
        uncoded({"a": 1}).release(None, None, None)


@pytest.mark.parametrize("relation", Relation)
def test_a_model_with_discovered_categories(relation, tmp_path):
    records = table()
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("villages", Budget(5.0, 1e-5, relation))
    given = {"relation": relation.value, "records": N if relation is Relation.ADD_REMOVE else None}
    model = PrivateLogisticRegression(2.0, 1e-6, schema=SCHEMA, **given)
    with charged_to(ledger, "villages"):
        model.fit(records)
    assert model.categories_ == {"village": FREQUENT}
    assert model.schema is SCHEMA
    assert model.schema_.columns["village"].values == FREQUENT
    assert model.score(records, records["y"]) > 0.8
    # one certificate, and one entry
    assert isinstance(model.certificate_.method, Discovered)
    (entry,) = ledger.entries("villages")
    assert entry.event == model.certificate_.event
    assert all(finding.holds for finding in verify(Certificate.from_json(model.certificate_.to_json())))
    # saved with what was found
    save_model(model, tmp_path / "model.sordino")
    again, content = load_model(tmp_path / "model.sordino"), read_model(tmp_path / "model.sordino")
    assert all(finding.holds for finding in verify_model(content))
    assert content.schema == model.schema_
    assert content.feature_names[1:] == (
        *(f"village={name}" for name in (*FREQUENT, "(unused 1)", "(other)", "(missing)")),
    )
    assert (again.predict(records) == model.predict(records)).all()


def test_tables_on_disk_and_other_models(tmp_path):
    from sordino.files import EncodedTable

    records = table().drop(columns="y").assign(y=lambda t: t["x"])
    amounts = replace(SCHEMA, target=NumberTarget("y", -3, 3))
    records.to_parquet(tmp_path / "table.parquet")
    for memory in (2.0**30, 0.0):
        model = PrivateHuberRegressor(2.0, 1e-6, schema=amounts, method=NoisyGradientDescent(5))
        model.fit(EncodedTable(tmp_path / "table.parquet", amounts, memory))
        assert model.categories_ == {"village": FREQUENT}
        assert model.certificate_.method == Discovered(NoisyGradientDescent(5), Categories(), 1)


def test_nothing_is_found_where_nothing_is_frequent():
    records = table().assign(village=[f"alone {k}" for k in range(N)])
    model = PrivateLogisticRegression(1.0, 1e-6, schema=SCHEMA, prepare=["categories", "norm quantile"]).fit(records)
    assert model.categories_ == {"village": ()}
    assert model.predict(records).shape == (N,)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"prepare": None}, "which is paid for, and prepare does not say so"),
        ({"prepare": ["norm quantile"]}, "which is paid for, and prepare does not say so"),
        ({"prepare": ["norm quantile", "categories"]}, "twice, or not first"),
        ({"prepare": [Categories(), "categories"]}, "twice, or not first"),
        ({"delta": 0.0}, "delta is 0, but preparation adds Gaussian noise"),
        ({"method": NoisyGradientDescent(calibration="paper")}, "not calibrated to the budget"),
    ],
)
def test_what_is_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        PrivateLogisticRegression(**{"epsilon": 1.0, "delta": 1e-6, "schema": SCHEMA, **settings}).fit(table(50))


def test_what_else_is_refused():
    records, known = table(60), replace(SCHEMA, columns={"x": Number(-3, 3)})
    model = PrivateLogisticRegression(1.0, 1e-6, schema=SCHEMA)
    with pytest.raises(ValueError, match="`person` protects persons"):
        model.fit(records, person=np.arange(60))
    with pytest.raises(ValueError, match="discovers no categories"):
        PrivateMLPClassifier(1.0, 1e-6, schema=SCHEMA).fit(records)
    with pytest.raises(ValueError, match="intervals and a discovery of categories"):
        PrivateLogisticRegression(1.0, 1e-6, schema=SCHEMA, intervals=True).fit(records)
    with pytest.raises(ValueError, match="a search repeats its runs"):
        PrivateSearch(model, {"l2": [0.0, 0.1]}).fit(records)
    with pytest.raises(ValueError, match="none is to be discovered"):
        PrivateLogisticRegression(1.0, 1e-6, schema=known, prepare=["categories"]).fit(records)
    with pytest.raises(ValueError, match="still to be discovered"):
        model.fit(table()).schema.with_values({}) and PrivateLogisticRegression(schema=SCHEMA)._rows(records)
    with pytest.raises(ValueError, match="share of Categories is 1"):
        Categories(1.0)
    for wrong in (0, True, 1.5):
        with pytest.raises(ValueError, match="of one column at least"):
            Discovered(NoisyGradientDescent(), Categories(), wrong)
    with pytest.raises(ValueError, match="discovered once"):
        Discovered(Discovered(NoisyGradientDescent(), Categories(), 1), Categories(), 1)


def test_a_bad_cell_is_refused_before_anything_is_charged(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("villages", Budget(5.0, 1e-5))
    records = table(100)
    records.loc[7, "x"] = np.nan
    with charged_to(ledger, "villages"), pytest.raises(ValueError, match="column 'x' has no number"):
        PrivateLogisticRegression(1.0, 1e-6, schema=SCHEMA).fit(records)
    assert ledger.entries("villages") == ()
