from __future__ import annotations

import json
import ssl
from dataclasses import replace

import numpy as np
import pytest

from sordino import wire
from sordino.budget import Budget, Relation
from sordino.certificate import Certificate, Signature, state, verify, weights_digest
from sordino.domains import Ball
from sordino.identity import Identity
from sordino.losses import Huber, Logistic, Softmax, Squared
from sordino.methods import NoisyGradientDescent, NoisySGD, OutputPerturbation
from sordino.oracle import linear_oracle
from sordino.oracle.persons import Persons
from sordino.oracle.rows import Rows
from sordino.penalties import BoundedPenalty, Ridge
from sordino.privacy.randomness import Randomness
from sordino.problem import PersonUnit, Problem
from sordino.train import train
from sordino.words import explain


def certify(problem=None, budget=None, method=None, randomness=None):
    problem = problem or Problem(40, 3, Logistic(), penalty=Ridge(0.1))
    budget = budget or Budget(1.0, 1e-3)
    method = method or NoisyGradientDescent(steps=7)
    oracle = _oracle(problem, budget.relation)
    return train(problem, budget, method, oracle, randomness, rows=Rows(2.0)).certificate


def _oracle(problem, relation=Relation.REPLACE_ONE):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.choice([-1.0, 1.0], 40)
    if isinstance(problem.loss, Softmax):
        y = rng.integers(0, problem.loss.classes, 40).astype(float)
    persons = problem.person and Persons.of(np.arange(40) % 10, problem.person, Randomness.seeded(0))
    return linear_oracle(X, y, problem, Rows(2.0), relation, persons)


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
    "persons": {"problem": Problem(10, 3, Logistic(), person=PersonUnit(3))},
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


@pytest.mark.parametrize("epsilon", [1, np.int64(1)])
@pytest.mark.parametrize("delta", [1e-3, 0])
def test_a_budget_in_whole_numbers_survives_a_file(epsilon, delta, tmp_path):
    certificate = certify(method=OutputPerturbation(steps=7), budget=Budget(epsilon, delta))
    certificate.save(tmp_path / "certificate.json")
    again = Certificate.load(tmp_path / "certificate.json")
    assert again == certificate
    assert all(finding.holds for finding in verify(again))


@pytest.mark.parametrize("ask", [verify, explain])
@pytest.mark.parametrize("given", ["certificate.json", None, Budget(1.0)])
def test_what_is_no_certificate_is_told_so(ask, given):
    with pytest.raises(TypeError, match="is not a certificate: give the `certificate_` of a fitted estimator"):
        ask(given)


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
        place(body, path, 1.5 * at(body, path) + 1)
        with pytest.raises(ValueError, match=r"altered|version"):
            Certificate.from_json(json.dumps(body))


def at(body, path):
    for key in path:
        body = body[key]
    return body


def place(body, path, value):
    at(body, path[:-1])[path[-1]] = value


def everything(value, path=()):
    """The paths of all values in a plain value, and of the lists and dictionaries around them."""
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from everything(item, (*path, key))


def alterations(value):
    """Other values, also such as compare equal or look the same."""
    match value:
        case None:
            return [1.5, "x", False]
        case int():
            return [value + 1, -value, float(value), str(value), True, None, 10**12]
        case float():
            return [value * 1.01 + 1e-3, value / 2 + 1e-4, value * (1 + 1e-5) or 1e-3, str(value), True, None]
        case str():
            return [f"{value} ", value[:-1], "nobody", None, [value]]
        case list():
            return [[*value, "x"], value[:-1], value[::-1], [*value, *value[:1]], None, {}]
        case dict():
            return [{**value, "extra": 1}, dict(list(value.items())[1:]), None]


NOT_DERIVED = {
    # a certificate that says so is a true one about another run of the same plan
    ("problem", "loss", "target_bound"),
    ("method", "radius"),
    ("rows", "intercept"),
    ("rows", "norm"),
    ("weights",),
}


def passes(text, weights=None):
    try:
        certificate = Certificate.from_json(text)
    except ValueError:
        return False
    return all(finding.holds for finding in verify(certificate, weights))


def with_digest(body):
    try:
        stated = body["statement"]
        stated["text"] = state(stated["epsilon"], stated["delta"], Relation(stated["relation"]))
    except (TypeError, ValueError, KeyError):
        pass
    return json.dumps({**body, "digest": wire.digest(body)})


@pytest.fixture(scope="module")
def identity(tmp_path_factory):
    return Identity.create(tmp_path_factory.mktemp("me"), "The Hospital")


def test_every_alteration_under_a_fitting_digest_is_found(identity):
    """By reading or by verifying; what nothing can be derived for, by a signature and, for weights, by the weights."""
    problem, method = Problem(40, 3, Huber(0.5, 1.0)), NoisyGradientDescent(steps=7, calibration="paper", clip=0.1)
    trained = train(problem, Budget(1.0, 1e-3), method, _oracle(problem), rows=Rows(2.0))
    certificate, weights = trained.certificate, {"weights": trained.weights}
    signed = certificate.sign(identity)
    assert passes(certificate.to_json(), weights)
    assert passes(signed.to_json(), weights)
    tried, left = 0, set()
    for path in everything(body_of(certificate)):
        for other in alterations(at(body_of(certificate), path)):
            body = body_of(certificate)
            if wire.canonical(at(body, path)) == wire.canonical(other):
                continue
            place(body, path, other)
            tried += 1
            if path != ("statement", "text") and passes(with_digest(body)):
                left.add(path)
                assert not passes(with_digest({**body, "signature": body_of(signed)["signature"]})), path
    assert tried > 400
    assert left <= NOT_DERIVED


@pytest.mark.parametrize(
    ("path", "other"),
    [
        (("created",), "2020-02-02T20:20:20+00:00"),
        (("versions", "numpy"), "1.0"),
        (("weights",), "0" * 64),
        (("rows", "intercept"), 0.25),
        (("assumed",), []),
    ],
)
def test_what_nobody_can_derive_is_found_by_a_signature(identity, path, other):
    body = body_of(certify().sign(identity))
    if path == ("assumed",):
        other = [*body["assumed"], "the class labels were given"]
    place(body, path, other)
    assert passes(with_digest({**body, "signature": None}))
    assert not passes(with_digest(body))


def test_the_weights_are_those_that_were_released():
    weights = {"coef": np.arange(6.0).reshape(2, 3), "intercept": np.zeros(2)}
    certificate = certify().about(weights)
    assert all(finding.holds for finding in verify(certificate, weights))
    columns = {**weights, "coef": np.asfortranarray(weights["coef"])}
    big = {**weights, "coef": weights["coef"].astype(">f8")}
    assert weights_digest(columns) == weights_digest(big) == weights_digest(weights)
    others = [
        {**weights, "coef": weights["coef"] + np.eye(2, 3) * 1e-12},
        {**weights, "coef": weights["coef"].astype(np.float32)},
        {**weights, "coef": weights["coef"].reshape(3, 2)},
        {**weights, "coef": weights["coef"].T},
        {"Coef": weights["coef"], "intercept": weights["intercept"]},
        {"coef": weights["coef"]},
        {**weights, "more": np.zeros(1)},
    ]
    assert len({weights_digest(other) for other in (weights, *others)}) == len(others) + 1
    for other in others:
        assert [finding.holds for finding in verify(certificate, other)].count(False) == 1


def test_a_signature_names_who_gave_it(identity):
    certificate = Certificate.from_json(certify().sign(identity).to_json())
    (said,) = [finding for finding in verify(certificate) if "signed by" in finding.sentence]
    assert said.holds
    assert "The Hospital" in said.sentence
    assert identity.face.fingerprint in said.sentence
    # whoever makes something else of the weights signs again
    assert certificate.about({}).signature is None


def _altered(pem, old, new):
    content = ssl.PEM_cert_to_DER_cert(pem)
    assert old in content
    return ssl.DER_cert_to_PEM_cert(content.replace(old, new))


def test_a_wrong_signature_fails(identity, tmp_path):
    certificate = certify()
    mine, theirs = certificate.sign(identity), certificate.sign(Identity.create(tmp_path, "Somebody else"))
    for wrong in (
        Signature(mine.signature.signer, theirs.signature.value),
        Signature(mine.signature.signer, "0" * 128),
        Signature("nothing", mine.signature.value),
        Signature("\n" + mine.signature.signer, mine.signature.value),
        # a kind of key, and a version of X.509, that nobody knows
        Signature(_altered(mine.signature.signer, b"\x2b\x65\x70", b"\x2b\x65\x05"), mine.signature.value),
        Signature(_altered(mine.signature.signer, b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x03"), "0" * 128),
    ):
        assert not passes(replace(certificate, signature=wrong).to_json())
    assert not passes(replace(mine, created="2020-02-02T20:20:20+00:00").sign(identity).to_json())


def test_numbers_agree_up_to_a_millionth_and_counts_exactly():
    assert wire.close({"a": [1.0, 2]}, {"a": [1.0 + 1e-9, 2]})
    for one, other in [
        (1.0, 1.0 + 3e-6),
        (1.0, 1.0 - 3e-6),
        (1e-9, 1.1e-9),
        (0.0, 1e-12),
        (10**8, 10**8 + 1),
        (1, 1.0),
        (1, True),
        ("1", 1),
        (None, 0.0),
        ([1.0], [1.0, 1.0]),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 1, "b": None}),
    ]:
        assert not wire.close(one, other)
        assert not wire.close(other, one)


@pytest.mark.parametrize("factor", [1 + 3e-6, 1 - 3e-6])
def test_a_plan_that_is_a_little_off_does_not_verify(factor):
    body = body_of(certify())
    body["plan"]["noise"]["std"] *= factor
    assert not passes(with_digest(body))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 60 + "1" + "}" * 60,
        '{"a": 1, "a": 1}',
        '{"a": 1e999}',
        '{"a": NaN}',
        '{"a": 12345678901234567890}',
        '{"a": "' + "x" * 2**20 + '"}',
        # for as long as a text without its end is looked for from every quote in it
        '"' + '\\"' * 500_000,
        "{'a': 1}",
    ],
)
def test_json_that_nobody_here_wrote_is_refused(text):
    with pytest.raises(ValueError, match="it "):
        wire.parse(text)


@pytest.mark.parametrize(
    ("path", "count"),
    [(("method", "steps"), 10**9), (("method", "steps"), 10**12), (("event", "parts", 0, 1), 10**12)],
)
def test_counts_are_bounded(path, count):
    body = body_of(certify(method=NoisySGD(steps=3, batch_size=4, step_size=0.1)))
    place(body, path, count)
    with pytest.raises(ValueError, match=r"(at most|more than) 10000000"):
        forged(body)


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
        ("event", "total_variation", 2),
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
