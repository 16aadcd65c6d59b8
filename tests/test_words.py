"""Five sentences, the same everywhere, and no number in them that is not in what they are about."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from html import escape, unescape
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn import config_context

from certificates import FEDERATIONS, certificate_of, certificates
from sordino import methods
from sordino.budget import Budget, Relation
from sordino.certificate import Certificate, Finding, verify
from sordino.estimators.classifiers import PrivateLogisticRegression
from sordino.formatting import card, instant, number, percent
from sordino.identity import Identity
from sordino.ledger.ledger import Entry, State
from sordino.methods import baselines
from sordino.privacy.events import (
    Approximate,
    Composed,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    ObjectivePerturbed,
    PoissonSampled,
    PureDP,
)
from sordino.privacy.filter import charge
from sordino.privacy.randomness import SEEDED
from sordino.problem import PersonUnit
from sordino.words import HEADINGS, PERSON, described, explain, explain_entry, plan_card

_SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_NUMBER = re.compile(r"(\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)(?: × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?")


def numbers_in(text: str) -> Iterator[float]:
    for found in _NUMBER.finditer(text):
        exponent = int(found[2].translate(_SUPERSCRIPTS)) if found[2] else 0
        yield float(found[1].replace(",", "").rstrip(".")) * 10.0**exponent


def held_by(plain: Any) -> Iterator[float]:
    """Every number in a plain value, those in its texts included."""
    match plain:
        case bool() | None:
            return
        case int() | float():
            yield float(plain)
        case str():
            yield from numbers_in(plain)
        case dict():
            for item in plain.values():
                yield from held_by(item)
        case list():
            for item in plain:
                yield from held_by(item)


def strangers(text: str, plain: Any) -> list[float]:
    """Numbers of the text that are not in the plain value, up to the digits that are shown."""
    known = list(held_by(plain))
    return [one for one in numbers_in(text) if not any(math.isclose(one, other, rel_tol=6e-4) for other in known)]


def spoken(explanation: Any) -> str:
    return " ".join(sentence for _, sentence in explanation)


@given(certificates())
@settings(max_examples=40, deadline=None)
def test_no_number_of_the_five_sentences_is_not_in_the_certificate(certificate: Certificate) -> None:
    explanation = explain(certificate)
    assert [heading for heading, _ in explanation] == list(HEADINGS)
    assert all(sentence.endswith(".") for _, sentence in explanation)
    plain = json.loads(certificate.to_json())
    assert strangers(spoken(explanation), plain) == []
    # and the price is there, whatever else is not
    for priced in (certificate.epsilon, certificate.delta):
        assert any(math.isclose(one, priced, rel_tol=6e-4) for one in numbers_in(explanation.price))


@given(st.floats(0.01, 50), st.floats(1e-12, 1e-2), st.integers(0, 10**6), st.sampled_from(State))
@settings(deadline=None)
def test_no_number_about_an_entry_is_not_in_it(epsilon: float, delta: float, place: int, state: State) -> None:
    cap, event = Budget(epsilon, delta), Gaussian(3.0)
    entry = Entry(place, "survey", event, charge(event, cap, 1), "a model", state, "2025-01-01T00:00:00+00:00")
    explanation = explain_entry(entry, cap, epsilon / 2)
    assert strangers(spoken(explanation), [epsilon, delta, epsilon / 2, place]) == []
    assert len(list(explanation)) == 5


def test_the_check_itself_notices_a_number() -> None:
    assert strangers("epsilon 0.5 at delta 2 × 10⁻⁶, 3,400 records", {"a": [0.5, "delta 2e-06"], "n": 3400}) == []
    assert strangers("epsilon 0.6", {"a": 0.5}) == [0.6]


def test_each_sentence_answers_its_question() -> None:
    explanation = explain(certificate_of())
    assert "any one of the 500 records" in explanation.promised
    assert "replaced by any other" in explanation.promised
    assert "everybody who sees the model" in explanation.against
    assert "epsilon 1 at delta 1 × 10⁻⁶" in explanation.price
    assert "the row bound 2.5 does not come from the records" in explanation.assumed
    assert "nobody has signed" in explanation.not_shown


def test_add_remove_speaks_of_presence_and_of_a_stand_in() -> None:
    certificate = certificate_of(Budget(1.0, 1e-6, Relation.ADD_REMOVE), method=_descent())
    assert "whether it is among the 500 or so" in explain(certificate).promised
    assert "added or left out" in explain(certificate).promised


def _descent() -> Any:
    from sordino.methods import NoisyGradientDescent

    return NoisyGradientDescent(steps=3)


@pytest.mark.parametrize(
    ("sentence", "words"), list(zip(FEDERATIONS, ("7", "2 of them", "1 of them", "6"), strict=True))
)
def test_a_federation_says_whom_it_trusts_and_says_it_once(sentence: str, words: str) -> None:
    explanation = explain(certificate_of(assumed=(sentence,)))
    assert words in explanation.against
    assert "owners" in explanation.against
    assert sentence not in explanation.assumed


def test_persons_are_spoken_of_where_they_are_protected() -> None:
    certificate = certificate_of()
    persons = replace(certificate, problem=replace(certificate.problem, person=PersonUnit(most_records=3)))
    promised = explain(persons).promised
    assert "any one of the 500 persons whose records it was trained on" in promised
    assert "if all records of that person had been replaced by any others" in promised
    assert "one person changes" in explain(persons).price
    assert "each person drawn" in described(PoissonSampled(Gaussian(1.0), 0.5), PERSON)


def test_a_seeded_run_promises_nothing() -> None:
    explanation = explain(certificate_of(randomness=SEEDED))
    assert explanation.promised.startswith("Nothing is promised")
    assert explanation.price.startswith("The price would be")
    assert explanation.against.startswith("It would hold against")


def test_a_certificate_that_does_not_hold_promises_nothing() -> None:
    certificate = replace(certificate_of(), epsilon=0.5)
    findings = verify(certificate)
    assert explain(certificate, findings).promised.startswith("Nothing is promised: the certificate does not hold")
    assert not explain(certificate_of(), (Finding(True, "it holds."),)).promised.startswith("Nothing")


def test_who_signed_is_named(tmp_path: Any) -> None:
    certificate = certificate_of().sign(Identity.create(tmp_path / "me", "City Hospital"))
    assert "City Hospital" in explain(certificate).not_shown
    assert "nobody has signed" not in explain(certificate).not_shown


def test_a_card_has_the_same_words_and_nothing_in_it_is_markup() -> None:
    certificate = certificate_of()
    for sentence in (words for _, words in explain(certificate)):
        assert escape(sentence) in certificate._repr_html_()
    assert "NOT PRIVATE" in certificate_of(randomness=SEEDED)._repr_html_()
    poisoned = replace(certificate, assumed=("<script>",))._repr_html_()
    assert "<script" not in poisoned + card("<script>", [("<script>", "<script>")], "<script>")
    assert "&lt;script&gt;" in poisoned


def test_every_plan_has_a_card() -> None:
    plans = {kind for module in (methods, baselines) for name, kind in vars(module).items() if name.endswith("Plan")}
    plans.remove(methods.Plan)
    assert len(plans) > 6
    assert all(kind._repr_html_ is plan_card for kind in plans)
    plan = certificate_of().method.plan(certificate_of().problem, Budget(1.0, 1e-6))
    assert described(plan.event) in unescape(plan._repr_html_())
    assert "no record was used" in plan._repr_html_()


def test_an_estimator_shows_its_promise_above_the_diagram() -> None:
    model = PrivateLogisticRegression(1.0, 1e-6, row_norm=1.0, classes=[0, 1], random_state=0)
    bundle = model._repr_mimebundle_()
    assert "no record was used" in bundle["text/html"]
    model.certificate_ = certificate_of()
    for html in (model._repr_mimebundle_()["text/html"], model._repr_html_()):
        assert escape(explain(certificate_of()).promised) in html
        assert "PrivateLogisticRegression" in html
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (0.1, "10 %"),
        (0.731059, "73.2 %"),
        (0.05, "5 %"),
        (0.0027183, "0.28 %"),
        (0.001, "0.1 %"),
        (1, "100 %"),
    ],
)
def test_percentages_are_rounded_up_and_no_further(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize("share", np.random.default_rng(0).uniform(0, 1, 50) ** 4)
def test_a_rounded_percentage_is_never_below_the_share(share: float) -> None:
    shown = float(percent(share).removesuffix(" %")) / 100
    assert share - 1e-9 <= shown <= share + 1e-3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0, "0"),
        (6366, "6,366"),
        (4.4e-8, "4.4 × 10⁻⁸"),
        (2.5e9, "2.5 × 10⁹"),
        (0.1234567, "0.123457"),
        (1.0, "1"),
        (-3.5, "-3.5"),
        (math.inf, "unbounded"),
    ],
)
def test_numbers_are_written_for_reading(value: float, text: str) -> None:
    assert number(value) == text


def test_an_instant_is_written_for_reading() -> None:
    assert instant("2025-03-01T09:05:59+00:00") == "2025-03-01 09:05 UTC"


def test_every_kind_of_event_has_a_phrase_with_its_numbers() -> None:
    event = Composed(
        (
            (Gaussian(4.25), 7),
            (GaussianDP(0.125), 1),
            (PureDP(0.5), 2),
            (PoissonSampled(Gaussian(1.5), 0.01), 100),
            (FixedSizeSampled(Gaussian(2.5), 0.02), 3),
            (Approximate(Gaussian(3.5), 1e-19), 1),
            (ObjectivePerturbed(0.5, 6.5, 8.5), 1),
        )
    )
    phrase = described(event)
    for value in (
        "4.25",
        "7 ×",
        "0.125",
        "0.5",
        "0.01",
        "1.5",
        "0.02",
        "2.5",
        "3.5",
        "1 × 10⁻¹⁹",
        "100 ×",
        "6.5",
        "8.5",
    ):
        assert value in phrase
    assert not re.search(r"[A-Z]\w+\(", phrase)
