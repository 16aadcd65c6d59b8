from __future__ import annotations

import json

import numpy as np
import pytest

from sordino import wire
from sordino.budget import Budget, Relation
from sordino.certificate import Certificate, state, verify
from sordino.domains import Ball
from sordino.losses import Huber, Logistic, Softmax, Squared
from sordino.methods import NoisyGradientDescent, OutputPerturbation
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.penalties import BoundedPenalty, Ridge
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.train import train


def certify(problem=None, budget=None, method=None, randomness=None):
    problem = problem or Problem(40, 3, Logistic(), penalty=Ridge(0.1))
    budget = budget or Budget(1.0, 1e-3)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.choice([-1.0, 1.0], 40)
    if isinstance(problem.loss, Softmax):
        y = rng.integers(0, problem.loss.classes, 40).astype(float)
    rows = Rows(2.0)
    oracle = linear_oracle(X, y, problem, rows, budget.relation)
    method = method or NoisyGradientDescent(steps=7)
    return train(problem, budget, method, oracle, randomness, rows=rows).certificate


CASES = {
    "descent": {},
    "average": {"method": NoisyGradientDescent(steps=7, release="average")},
    "pure": {"method": OutputPerturbation(steps=7), "budget": Budget(0.5)},
    "output": {"method": OutputPerturbation()},
    "add/remove": {"budget": Budget(1.0, 1e-3, Relation.ADD_REMOVE)},
    "softmax": {"problem": Problem(40, 3, Softmax(3))},
    "squared on a ball": {"problem": Problem(40, 3, Squared(1.0), domain=Ball(2.0))},
    "huber without a target bound": {"problem": Problem(40, 3, Huber())},
    "non-convex": {"problem": Problem(40, 3, Logistic(), penalty=BoundedPenalty(0.1))},
    "paper": {"method": NoisyGradientDescent(steps=7, calibration="paper")},
}


@pytest.mark.parametrize("name", CASES)
def test_survives_a_file_and_verifies(name, tmp_path):
    certificate = certify(**CASES[name])
    certificate.save(tmp_path / "certificate.json")
    again = Certificate.load(tmp_path / "certificate.json")
    assert again == certificate
    findings = verify(again)
    assert all(finding.holds for finding in findings), findings
    assert len(findings) >= 3


def test_a_second_accountant_is_asked_where_there_is_one():
    sentences = " ".join(finding.sentence for finding in verify(certify()))
    assert sentences.count("accountant confirms") == 2


def body_of(certificate):
    body = json.loads(certificate.to_json())
    body.pop("digest")
    return body


def forged(body):
    """What somebody writes who also recomputes the digest."""
    return Certificate.from_json(json.dumps({**body, "digest": wire.digest(body)}))


def numbers(value, path=()):
    """The paths of all numbers in a plain value."""
    match value:
        case bool():
            return
        case dict():
            for key, item in value.items():
                yield from numbers(item, (*path, key))
        case list():
            for key, item in enumerate(value):
                yield from numbers(item, (*path, key))
        case int() | float():
            yield path


def test_every_altered_number_breaks_the_digest():
    certificate = certify()
    paths = list(numbers(json.loads(certificate.to_json())))
    assert len(paths) > 15
    for path in paths:
        body = json.loads(certificate.to_json())
        spot = body
        for key in path[:-1]:
            spot = spot[key]
        spot[path[-1]] = 1.5 * spot[path[-1]] + 1
        with pytest.raises(ValueError, match=r"altered|version"):
            Certificate.from_json(json.dumps(body))


@pytest.mark.parametrize(
    ("part", "field", "change"),
    [
        ("statement", "epsilon", 0.9),
        ("statement", "delta", 0.5),
        ("plan", "steps", 0.5),
        ("plan", "step_size", 0.5),
        ("plan", "amplification", 0.5),
        ("problem", "records", 2),
        ("problem", "row_norm", 2),
        ("requested", "epsilon", 2),
        ("method", "steps", 3),
        ("event", "distance", 2),
        ("rows", "norm", 1e300),
    ],
)
def test_a_forged_number_is_caught_by_planning_and_accounting_again(part, field, change):
    body = body_of(certify())
    body[part][field] *= change
    # a careful forger also corrects the text
    stated = body["statement"]
    stated["text"] = state(stated["epsilon"], stated["delta"], Relation(stated["relation"]))
    assert not all(finding.holds for finding in verify(forged(body)))


def test_forged_noise_is_caught():
    body = body_of(certify())
    body["plan"]["noise"]["std"] *= 2
    assert not all(finding.holds for finding in verify(forged(body)))
    body = body_of(certify())
    body["event"]["event"]["mu"] /= 2
    assert not all(finding.holds for finding in verify(forged(body)))


def test_a_text_that_says_more_than_the_numbers_is_caught():
    body = body_of(certify())
    body["statement"]["text"] = body["statement"]["text"].replace("e^1", "e^0.1")
    with pytest.raises(ValueError, match="contradicts itself"):
        forged(body)


@pytest.mark.parametrize("part", ["problem", "requested", "method", "rows", "event", "plan"])
@pytest.mark.parametrize("nonsense", [{"kind": "Ridge", "strength": 1.0}, 7, [], "x", {}, 10**400])
def test_nonsense_under_a_fitting_digest_is_not_verified(part, nonsense):
    body = body_of(certify())
    body[part] = nonsense
    try:
        findings = verify(forged(body))
    except ValueError:
        return
    assert not all(finding.holds for finding in findings)


def test_bits_from_elsewhere_are_not_verified():
    body = body_of(certify())
    body["randomness"] = "a trusted friend"
    assert not all(finding.holds for finding in verify(forged(body)))


def test_a_seeded_run_says_so_and_does_not_verify():
    certificate = certify(randomness=Randomness.seeded(1))
    assert "not private" in certificate.randomness
    assert not all(finding.holds for finding in verify(certificate))


def test_no_value_of_the_records_is_in_it():
    """Two data sets of the same public facts have the same certificate, the date and the private weights apart."""
    one = json.loads(certify().to_json())
    rng = np.random.default_rng(9)
    problem, budget = Problem(40, 3, Logistic(), penalty=Ridge(0.1)), Budget(1.0, 1e-3)
    oracle = linear_oracle(rng.normal(size=(40, 3)) * 50, -np.ones(40), problem, Rows(2.0), budget.relation)
    method = NoisyGradientDescent(steps=7)
    other = json.loads(train(problem, budget, method, oracle, rows=Rows(2.0)).certificate.to_json())
    for body in (one, other):
        # the weights are private, and so is what is computed from them
        del body["created"], body["weights"], body["digest"]
    assert one == other


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not json", "not JSON"),
        ("[1]", "format"),
        ('{"format": "something else"}', "format"),
        ('{"format": "sordino certificate", "version": 99}', "version 99"),
    ],
)
def test_foreign_files_get_a_sentence(text, words):
    with pytest.raises(ValueError, match=words):
        Certificate.from_json(text)


def test_a_missing_part_gets_a_sentence():
    body = body_of(certify())
    del body["event"]
    with pytest.raises(ValueError, match="incomplete"):
        forged(body)


def test_an_unknown_kind_is_not_built():
    body = body_of(certify())
    body["problem"]["loss"] = {"kind": "Popen", "args": "true"}
    with pytest.raises(ValueError, match="unknown kind 'Popen'"):
        forged(body)


def test_a_full_disk_keeps_the_old_certificate(tmp_path, monkeypatch):
    path = tmp_path / "certificate.json"
    certify().save(path)
    before = path.read_text()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="untouched"):
        certify().save(path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]
