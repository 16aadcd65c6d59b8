"""Persons among several owners: each owner has its persons whole, and nobody is at two of them."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import owners
import three_owners
from in_the_open import InTheOpen
from plain_gradients import exact
from sordino.budget import Budget
from sordino.certificate import verify
from sordino.federation.agreement import agree
from sordino.federation.party import RecordHolder
from sordino.federation.plan import FederationPlan, Owner
from sordino.federation.secure_oracle import SecureOracle
from sordino.losses import Logistic
from sordino.methods import DPSGD, NoisyGradientDescent
from sordino.oracle import linear_oracle
from sordino.oracle.persons import Persons
from sordino.oracle.query import Gradient
from sordino.oracle.torch import TorchOracle, network_problem
from sordino.privacy.randomness import Randomness
from sordino.problem import PersonUnit, Problem
from sordino.train import train
from sordino.words import explain

UNITS = {
    "mean": PersonUnit(),
    "mean of three": PersonUnit(3),
    "capped": PersonUnit(3, "capped"),
    "sum": PersonUnit(None, "sum", 2),
}
every_unit = pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
COUNTS = (4, 7, 9)
"""Persons of three owners."""


def records(unit, seed=0):
    """Rows, targets and whose they are; and which of them each owner has."""
    rng = np.random.default_rng(seed)
    whose = np.repeat(np.arange(sum(COUNTS)), rng.integers(1, 5, sum(COUNTS)))
    X, y = owners.data(len(whose))
    edges = np.cumsum([0, *COUNTS])
    return X, y, whose, [(whose >= a) & (whose < b) for a, b in pairwise(edges)]


def plan_for(unit, method=owners.METHOD, **settings):
    named = tuple(Owner(f"owner {i}", count) for i, count in enumerate(COUNTS))
    problem = Problem(sum(COUNTS), 4, Logistic(), person=unit)
    return FederationPlan(named, problem, owners.BUDGET, method, rows=owners.ROWS, **settings)


def first(persons, whose):
    """The first records of everybody, so that the whole and its parts keep the same."""
    most = persons.unit.most_records
    kept = np.concatenate([np.flatnonzero(whose == one)[:most] for one in np.unique(whose)])
    return replace(persons, kept=np.sort(kept))


def holder(plan, member, X, y, whose):
    persons = first(Persons.of(whose, plan.problem.person, Randomness.seeded(0)), whose)
    oracle = linear_oracle(X, y, plan.local_problem(member), plan.rows, plan.relation, persons)
    return RecordHolder(oracle, Randomness.system())


@every_unit
def test_owners_add_up_to_what_one_would_have(unit):
    """To half a step of the grid for every person: each is rounded by itself."""
    plan = plan_for(unit, rounding="record")
    X, y, whose, parts = records(unit)
    whole = first(Persons.of(whose, unit, Randomness.seeded(0)), whose)
    alone = linear_oracle(X, y, plan.problem, plan.rows, plan.relation, whole)
    ((_, noise, _),) = plan.planned.sums
    shared, query = plan.trust.realise(noise), Gradient(np.linspace(-1, 1, 4), plan.planned.clip)
    added = sum(
        holder(plan, member, X[part], y[part], whose[part]).part(query, shared, plan.rounding)
        for member, part in enumerate(parts)
    )
    np.testing.assert_allclose(added * shared.step, exact(alone, query), atol=sum(COUNTS) * shared.step)


@every_unit
def test_a_federation_of_persons_is_certified_for_persons(unit):
    plan = plan_for(unit)
    X, y, whose, parts = records(unit)
    agreement = agree(plan, InTheOpen(3))
    parties = [holder(plan, member, X[part], y[part], whose[part]) for member, part in enumerate(parts)]
    oracle = SecureOracle(agreement, parties)
    trained = train(
        plan.problem, plan.budget, plan.method, oracle, oracle.common_randomness(), plan.rows, assumed=plan.assumed
    )
    certificate = trained.certificate
    assert all(finding.holds for finding in verify(certificate)), verify(certificate)
    assert "all records of any one person" in certificate.statement
    assert "no person has records at two owners" in certificate.assumed
    words = " ".join(sentence for _, sentence in explain(certificate))
    assert "no person has records at two owners" in words
    assert FederationPlan.from_json(plan.to_json()) == plan


def test_an_owner_brings_as_many_persons_as_the_plan_says():
    plan = plan_for(UNITS["mean"])
    X, y, whose, parts = records(UNITS["mean"])
    parties = [holder(plan, member, X[part], y[part], whose[part]) for member, part in enumerate(parts)]
    some = parts[0] & (whose > 0)
    fewer = replace(plan, owners=(Owner("owner 0", 3), *plan.owners[1:]), problem=replace(plan.problem, records=19))
    parties[0] = holder(fewer, 0, X[some], y[some], whose[some])
    with pytest.raises(ValueError, match="owner 0 brings 3 persons, but the plan says 4"):
        SecureOracle(agree(plan, InTheOpen(3)), parties)


def test_networks_of_persons_at_several_owners():
    import torch
    from torch import nn

    model = nn.Linear(4, 1)
    unit = PersonUnit(3)
    problem = network_problem(model, sum(COUNTS), person=unit)
    named = tuple(Owner(f"owner {i}", count) for i, count in enumerate(COUNTS))
    method = DPSGD(steps=2, batch_size=10, step_size=0.1, clip=1.0)
    plan = FederationPlan(named, problem, Budget(2.0, 1e-5), method)
    X, y, whose, parts = records(unit)
    parties = []
    for member, part in enumerate(parts):
        persons = Persons.of(whose[part], unit, Randomness.seeded(0))
        data = torch.from_numpy(X[part]).float(), torch.from_numpy(y[part]).float()
        oracle = TorchOracle(model, lambda o, t: (o[:, 0] - t) ** 2, data, plan.local_problem(member), persons=persons)
        parties.append(RecordHolder(oracle, Randomness.seeded(member)))
    oracle = SecureOracle(agree(plan, InTheOpen(3)), parties)
    start = np.zeros(5)
    weights = method.run(plan.planned, problem, oracle, oracle.common_randomness(), start).weights
    assert np.isfinite(weights).all()
    assert weights.any()


# --- From tables ---


def give_more_records(federation, each=3):
    """Everybody some further records, and the last owner one person of the first."""
    for name in federation.names:
        path = federation.home(name) / "records.csv"
        with path.open(newline="") as file:
            header, *rows = csv.reader(file)
        more = [row for number, row in enumerate(rows) for _ in range(1 + number % each)]
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([header, *more])


@pytest.mark.slow
@pytest.mark.parametrize("unit", [PersonUnit(2), PersonUnit(None, "sum", 2)], ids=str)
def test_from_tables_to_one_model_for_persons(tmp_path, unit):
    method = NoisyGradientDescent(steps=3, step_size=1.0, release="average")
    federation = three_owners.found(tmp_path, method, identifiers="id", person=unit)
    give_more_records(federation)
    trained = federation.take_part(seeds=False)
    for name, one in trained.items():
        assert not isinstance(one, BaseException), (name, one)
    first_one = trained["north"]
    for one in trained.values():
        np.testing.assert_array_equal(one.weights, first_one.weights)
    certificate = first_one.certificate
    assert all(finding.holds for finding in verify(certificate))
    assert "the numbers of persons are public: north 60, south 40, east 50" in certificate.assumed
    assert certificate.problem.person == unit


@pytest.mark.slow
def test_tables_with_a_common_person_are_refused(tmp_path):
    method = NoisyGradientDescent(steps=3, step_size=1.0, release="average")
    federation = three_owners.found(tmp_path, method, identifiers="id", person=PersonUnit(2))
    give_more_records(federation)
    south = federation.home("south") / "records.csv"
    south.write_text(south.read_text().replace("\n1000,", "\n7,"))
    said = federation.take_part()
    assert "some persons here belong to another owner as well: south (1)" in str(said["north"])
    assert "some persons belong to two owners" in str(said["east"])
