"""Persons in networks: one contribution of all their records, which nobody else's records reach."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import torch_networks as nets
from sordino import verify
from sordino.budget import Budget, Relation
from sordino.methods import DPSGD, DPAdam, RecursiveMomentum
from sordino.oracle.persons import Persons
from sordino.oracle.query import Difference, Gradient, Recursion
from sordino.oracle.sampling import FixedSize, Poisson
from sordino.oracle.torch import TorchOracle, network_problem, passes
from sordino.oracle.torch.bundles import Bundles
from sordino.oracle.torch.oracle import rows_of_pass
from sordino.privacy.randomness import Randomness
from sordino.problem import NetworkProblem, PersonUnit
from sordino.torch import fit
from sordino.words import explain

UNITS = {
    "mean": PersonUnit(3),
    "mean of all": PersonUnit(9),
    "mean of one": PersonUnit(1),
    "capped": PersonUnit(3, "capped"),
    "capped above all": PersonUnit(20, "capped"),
}
every_unit = pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
NETWORKS = {
    **nets.NETWORKS,
    "dropout": nets.Network(
        lambda: nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, nets.CLASSES)),
        (6,),
    ),
}
OWNERS = np.array([4, 0, 0, 2, 4, 4, 4, 1, 2, 4, 4, 3, 0])
"""Of uneven numbers of records, from one to six, in no order."""


def oracle_of(model, data, persons, relation=Relation.REPLACE_ONE, **settings):
    problem = network_problem(model, len(persons), person=persons.unit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TorchOracle(model, nets.CROSS_ENTROPY, data, problem, relation, persons=persons, **settings)


def queries(model, batch=None, clip=0.3, near=0.05):
    at, since = nets.two_points(model)
    gradient, difference = Gradient(at, clip, batch), Difference(at, since, near, batch)
    return gradient, difference, Recursion(difference, gradient, 0.3)


def over(query, batch):
    if isinstance(query, Recursion):
        return Recursion(over(query.difference, batch), over(query.gradient, batch), query.mix)
    return replace(query, batch=batch)


def by_hand(now, before, persons, query):
    """Persons one by one, of records clipped one by one, from their gradients at the two points."""
    if isinstance(query, Recursion):
        moved, here = (by_hand(now, before, persons, part) for part in (query.difference, query.gradient))
        return (1 - query.mix) * moved + query.mix * here
    rows = nets.clipped(now - before if isinstance(query, Difference) else now, query.clip)
    each = []
    for person in range(len(persons)):
        theirs = [i for i in persons.kept if persons.owners[i] == person]
        divisor = len(theirs) if persons.unit.contribution == "mean" else persons.unit.most_records
        each.append(rows[theirs].sum(axis=0) / divisor)
    return np.array(each)


@every_unit
@pytest.mark.parametrize("name", ["linear", "conv2d", pytest.param("transformer", marks=pytest.mark.slow)])
def test_a_person_counts_as_the_spec_of_its_unit_says(name, unit):
    network = NETWORKS[name]
    model, data = network.model(), network.data()
    persons = Persons.of(OWNERS, unit, Randomness.seeded(3))
    oracle = oracle_of(model, data, persons)
    some = np.array([0, 2, 4])
    points = [nets.gradients(model, data, at) for at in nets.two_points(model)]
    for query in queries(model):
        each = by_hand(*points, persons, query)
        for batch, want in ((None, each.sum(axis=0)), (some, each[some].sum(axis=0))):
            got = oracle._answer(over(query, batch))
            # a hair below, for the rounding of sums
            np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-6)
        assert not oracle._answer(over(query, some[:0])).any()


def test_many_persons_in_many_passes():
    """Blocks that persons do not fill, passes that are not full, in an order that nobody knows."""
    owners = np.random.default_rng(5).zipf(1.7, 600) % 311
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, nets.CLASSES)).double()
    data = torch.from_numpy(rng.normal(size=(600, 4))), torch.from_numpy(rng.integers(nets.CLASSES, size=600))
    points = [nets.gradients(model, data, at) for at in nets.two_points(model)]
    query = queries(model)[2]
    for unit, chunk in itertools.product((PersonUnit(9), PersonUnit(100, "capped")), (7, 40)):
        persons = Persons.of(owners, unit, Randomness.seeded(1))
        want = by_hand(*points, persons, query).sum(axis=0)
        got = oracle_of(model, data, persons, chunk=chunk)._answer(query)
        np.testing.assert_allclose(got, want, rtol=2e-2, atol=2e-3 * np.abs(want).max())


@every_unit
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_no_person_counts_for_more_than_the_clip_and_the_worst_for_nearly_as_much(unit, dtype):
    """A person whose records all pull one way, as far as they can, against as many that pull back."""
    model = nn.Linear(4, 1, bias=False).to(dtype)
    nn.init.zeros_(model.weight)
    many = 9
    X = torch.full((many + 3, 4), 100.0, dtype=dtype)
    y = torch.ones(many + 3, dtype=dtype)
    turned = y.clone()
    turned[:many] = -1
    owners = np.array([0] * many + [1, 2, 3])
    # who has fewer records than are counted reaches less where every record counts alike
    full = min(1.0, many / unit.most_records) if unit.contribution == "capped" else 1.0
    for clip in (1e-4, 0.3, 10.0):
        answers = []
        for targets in (y, turned):
            persons = Persons.of(owners, unit, Randomness.seeded(3))
            problem = network_problem(model, 4, person=unit)
            oracle = TorchOracle(model, lambda o, t: -o[:, 0] * t, (X, targets), problem, persons=persons)
            answers.append(oracle._answer(Gradient(np.zeros(4), clip)).copy())
        apart = np.linalg.norm(answers[0] - answers[1])
        assert 0.95 * full * 2 * clip <= apart <= 2 * clip


@pytest.mark.parametrize("name", ["linear", "conv2d", "dropout"])
def test_what_a_person_contributes_does_not_depend_on_who_else_is_there(name):
    """Bit for bit: among others with other records, not finite ones, and other numbers of them."""
    network = NETWORKS[name]
    model, (X, y) = network.model(torch.float32), network.data(torch.float32)
    unit, mine = PersonUnit(3), np.flatnonzero(OWNERS == 0)
    others = np.flatnonzero(OWNERS != 0)
    loud = X.clone()
    loud[others] *= 1e4
    loud[others[0]] = np.nan
    fewer = OWNERS.copy()
    fewer[others] = np.arange(1, len(others) + 1)
    answers = []
    for inputs, owners in ((X, OWNERS), (loud, OWNERS), (X, fewer), (X[mine], OWNERS[mine])):
        data = inputs, y[mine] if len(inputs) == len(mine) else y
        oracle = oracle_of(model, data, Persons.of(owners, unit, Randomness.seeded(3)), Relation.ADD_REMOVE, chunk=16)
        seeds = Randomness.seeded(4).sampling
        answers.append(oracle._answer(queries(model, np.array([0]))[2], seeds).copy())
    assert answers[0].any()
    for other in answers[1:]:
        np.testing.assert_array_equal(answers[0], other)


def test_nobodys_number_of_records_moves_anybody_else():
    """One person has one record, or as many as count: all others stand where they stood, with the same weights."""
    owners = np.random.default_rng(5).integers(40, size=200)
    more = np.concatenate([owners, np.full(30, 17)])
    here, there = (Bundles.of(Persons.of(who, PersonUnit(7), Randomness.seeded(3))) for who in (owners, more))
    order = np.random.default_rng(1).permutation(40)
    for block in (16, 64, 256):
        (rows, weights), (moved, changed) = (bundles.rows(order, block) for bundles in (here, there))
        assert len(rows) == len(moved)
        place = np.flatnonzero(order == 17)[0]
        slots = block // 7
        start = place // slots * block + place % slots * 7
        elsewhere = np.delete(np.arange(len(rows)), np.arange(start, start + 7))
        np.testing.assert_array_equal(weights[elsewhere], changed[elsewhere])
        counted = elsewhere[weights[elsewhere] > 0]
        # which of their records count is everybody's own affair, and so is their order
        np.testing.assert_array_equal(owners[rows[counted]], more[moved[counted]])
        # nobody is in two blocks
        assert start // block == (start + 6) // block


@pytest.mark.parametrize("units", [1, 5, 100, 512, 1037])
@pytest.mark.parametrize("places", [1, 2, 3, 7, 16, 17, 100, 129, 256])
def test_passes_hold_about_as_many_persons_as_asked_for(units, places):
    rows, block = rows_of_pass(units, places)
    assert rows % block == 0
    assert block % 16 == 0
    assert places <= block <= 256
    held = rows // block * (block // places)
    assert units <= held <= units + 16 * (rows // block)


def test_a_person_is_in_one_pass_however_much_a_record_leaves_behind(monkeypatch):
    monkeypatch.setattr(passes, "TOGETHER", 1)
    model, data = nets.NETWORKS["linear"].model(), nets.NETWORKS["linear"].data()
    persons = Persons.of(OWNERS, PersonUnit(20), Randomness.seeded(3))
    oracle = oracle_of(model, data, persons)
    assert oracle._passes.rows == oracle._block == 32
    assert oracle._answer(queries(model)[0]).any()


def test_batches_draw_persons():
    model, data = nets.NETWORKS["linear"].model(), nets.NETWORKS["linear"].data()
    oracle = oracle_of(model, data, Persons.of(OWNERS, PersonUnit(3), Randomness.seeded(3)))
    drawn = [oracle.draw(FixedSize(2), Randomness.seeded(seed)) for seed in range(200)]
    counts = np.bincount(np.concatenate(drawn), minlength=5)
    # a person of six records is drawn as often as one of a single record: 5 standard deviations
    assert np.abs(counts - 80).max() < 5 * np.sqrt(200 * 0.4 * 0.6)
    assert max(oracle.draw(Poisson(0.9), Randomness.seeded(0))) <= 4


# --- From a data set to a certificate ---


def panel(persons=60):
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(persons), rng.integers(1, 6, persons))
    X = rng.normal(size=(len(owners), 3)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(np.int64), owners


@pytest.mark.parametrize(
    "method",
    [
        DPSGD(step_size=0.5, clip=1.0),
        DPAdam(step_size=0.1, clip=1.0),
        RecursiveMomentum(step_size=0.5, clip=1.0, difference_clip=0.5, mix=0.2),
    ],
    ids=lambda method: type(method).__name__,
)
@pytest.mark.parametrize("relation", list(Relation))
def test_the_certificate_speaks_of_persons_and_verifies(method, relation):
    X, y, owners = panel()
    stated = {"records": 60} if relation is Relation.ADD_REMOVE else {}
    fitted = fit(
        nn.Linear(3, 2),
        nets.CROSS_ENTROPY,
        (X, y),
        method=method,
        budget=Budget(3.0, 1e-3, relation),
        steps=5,
        # all of them: batches take seconds to account for
        batch_size=60,
        person=[f"person {i}" for i in owners],
        records_per_person=3,
        **stated,
    )
    certificate = fitted.certificate
    assert all(finding.holds for finding in verify(certificate)), verify(certificate)
    assert certificate.problem.person == PersonUnit(3)
    assert certificate.problem.records == 60
    assert "all records of any one person" in certificate.statement
    said = " ".join((*certificate.enforced, *certificate.assumed))
    assert "at most 3 are used, drawn at random" in said
    assert "no person has records under two identifiers" in said
    # how many records there are is private
    assert str(len(y)) not in said
    promised = " ".join(sentence for _, sentence in explain(certificate))
    assert "any one person" in promised or "persons whose records" in promised
    forged = replace(certificate, problem=replace(certificate.problem, person=None))
    assert not all(finding.holds for finding in verify(forged))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"person": np.arange(5), "batch_size": 3}, "5 identifiers for"),
        ({"records_per_person": 3}, "nothing says whose the records are"),
        ({"person": "owners", "records_per_person": None}, "records_per_person is missing"),
        ({"person": "owners", "contribution": "sum"}, "the gradient of a whole person is not formed"),
        ({"person": "owners", "records_per_person": 257}, "which takes at most 256"),
        ({"person": "owners", "batch_size": 61}, "between 1 and the 60"),
    ],
    ids=str,
)
def test_persons_that_cannot_be_protected_are_refused(settings, words):
    X, y, owners = panel()
    given = {"records_per_person": 3, "batch_size": 10, **settings}
    if isinstance(given.get("person"), str):
        given["person"] = owners
    elif "person" in given:
        given["records_per_person"] = 3
    with pytest.raises(ValueError, match=words):
        fit(
            nn.Linear(3, 2),
            nets.CROSS_ENTROPY,
            (X, y),
            method=DPSGD(step_size=0.5, clip=1.0, steps=2),
            budget=Budget(3.0, 1e-3),
            **given,
        )


def test_an_oracle_needs_the_unit_of_its_problem():
    model, data = nets.NETWORKS["linear"].model(), nets.NETWORKS["linear"].data()
    persons = Persons.of(OWNERS, PersonUnit(3), Randomness.seeded(0))
    for stated, given in ((PersonUnit(3), None), (PersonUnit(2), persons), (None, persons)):
        problem = network_problem(model, 5, person=stated)
        with pytest.raises(ValueError, match="what is protected must be the same in both"):
            TorchOracle(model, nets.CROSS_ENTROPY, data, problem, persons=given)
    with pytest.raises(ValueError, match="the gradient of a whole person is not formed"):
        NetworkProblem(5, 3, person=PersonUnit(3, "sum", 2))
    with pytest.raises(ValueError, match="records_per_person is missing"):
        NetworkProblem(5, 3, person=PersonUnit())
    with pytest.raises(ValueError, match="the data have 5 persons, but the problem was stated with 6"):
        TorchOracle(model, nets.CROSS_ENTROPY, data, network_problem(model, 6, person=PersonUnit(3)), persons=persons)
