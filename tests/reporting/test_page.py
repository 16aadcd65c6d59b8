"""The page as a reader gets it: complete, honest about a failed check, and in need of nothing else."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape

import pytest

from certificates import certificate_of
from html_pages import elements, text_of
from sordino import sentences
from sordino.budget import Budget, Relation
from sordino.certificate import Certificate, verify
from sordino.formatting import percent
from sordino.methods import NoisyGradientDescent
from sordino.privacy.groups import Attacks
from sordino.privacy.randomness import SEEDED
from sordino.reporting import Section, Table
from sordino.reporting.figures import Tradeoff, tradeoff_figure
from sordino.reporting.page import FALSE_ALARMS, GROUPS, Page, render
from sordino.words import explain

MARKUP = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return certificate_of(notes=(sentences.WENT_ON(times="1 time"),))


def rendered(certificate: Certificate, *sections: Section, title: str = "A title", summary: str = "") -> str:
    return render(Page(title, certificate, verify(certificate), sections, summary))


@pytest.fixture(scope="module")
def page(certificate: Certificate) -> str:
    figure = tradeoff_figure(Tradeoff("Accuracy", {0.1: (0.6, 0.7), 1.0: (0.7, 0.72)}, {"plain": 0.75}), "A caption.")
    table = Table("Shares", ("epsilon", "accuracy"), (("0.1", "65 %"),), numeric=(0, 1))
    return rendered(certificate, Section("Usefulness", ("A paragraph.",), (figure,), (table,), "A warning."))


def test_the_page_is_well_formed_and_has_one_of_each_landmark(page: str) -> None:
    tags = [tag for tag, _ in elements(page)]
    for landmark in ("html", "head", "body", "main", "header", "footer", "h1", "title"):
        assert tags.count(landmark) == 1


def test_nothing_comes_from_elsewhere(page: str) -> None:
    assert not {"script", "link", "img", "iframe", "object", "embed"} & {tag for tag, _ in elements(page)}
    named = ("href", "src", "xlink:href")
    links = [value for _, attrs in elements(page) for key, value in attrs.items() if key in named and value]
    assert all(value.startswith(("data:application/json", "#")) for value in links)
    assert not re.search(r"@import|url\((?!#)", page)
    assert "default-src 'none'" in page


def test_a_table_is_named_and_can_be_reached_and_read_aloud(page: str) -> None:
    tags = elements(page)
    assert sum(tag == "table" for tag, _ in tags) == sum(tag == "caption" for tag, _ in tags) > 5
    assert all(attrs.get("scope") in ("row", "col") for tag, attrs in tags if tag == "th")
    scrolled = [attrs for _, attrs in tags if attrs.get("class") == "scroll"]
    assert all(attrs["tabindex"] == "0" and attrs["role"] == "region" and attrs["aria-label"] for attrs in scrolled)


def test_the_certificate_inside_is_the_certificate(page: str, certificate: Certificate) -> None:
    (link,) = [attrs for tag, attrs in elements(page) if tag == "a"]
    assert link["download"] == "certificate.json"
    saved = base64.b64decode(str(link["href"]).partition("base64,")[2]).decode()
    assert saved == certificate.to_json()
    assert Certificate.from_json(saved) == certificate


def test_the_guarantee_stands_in_the_words_that_are_used_everywhere(page: str, certificate: Certificate) -> None:
    text = text_of(page)
    assert certificate.statement in text
    for heading, sentence in explain(certificate):
        assert f"{heading} {sentence}" in text
    assert "What is not promised" in text


def test_what_attacks_can_achieve_is_what_the_accountants_say(page: str, certificate: Certificate) -> None:
    text = text_of(page)
    attacks = Attacks(certificate.event, certificate.delta, certificate.relation)
    assert f"right at most {percent(attacks.best_guess())} of the time" in text
    for rate in FALSE_ALARMS:
        assert f"{percent(rate)} {percent(attacks.detections(rate))}" in text
    shown = dict(
        re.findall(r'<th scope="row"[^>]*class="right">([\d,]+)</th>\s*<td[^>]*class="right">([\d.,]+)</td>', page)
    )
    assert [int(k) for k in shown] == list(GROUPS)
    for k in GROUPS:
        # upwards, and not by much
        assert attacks.epsilon(k) <= float(shown[str(k)]) * (1 + 1e-9) < 1.002 * attacks.epsilon(k)
    # at one delta, several records cost more than as many times epsilon: nobody may multiply by hand
    assert float(shown["10"]) > 10 * certificate.epsilon


def test_where_a_group_has_no_bound_the_page_says_so() -> None:
    certificate = certificate_of(Budget(30.0, 1e-6))
    assert math.isinf(Attacks(certificate.event, 1e-6, Relation.REPLACE_ONE).epsilon(10)) or "10" in rendered(
        certificate
    )
    assert "says little about any one record" in text_of(rendered(certificate))


def test_every_number_of_the_plan_is_on_the_page(page: str, certificate: Certificate) -> None:
    rows = dict(re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', page))
    assert rows["records"] == "500"
    assert rows["steps"] == "20"
    assert float(rows["noise › std"]) == pytest.approx(certificate.plan["noise"]["std"], rel=1e-5)
    assert float(rows["bound"]) == 2.5
    assert rows["digest of the model"] == certificate.weights


def test_sections_appear_with_their_parts(page: str) -> None:
    for part in ("Usefulness", "A paragraph.", "A caption.", "A warning.", "Shares", "65 %", "<svg"):
        assert part in page


def test_findings_are_shown(page: str, certificate: Certificate) -> None:
    findings = verify(certificate)
    assert all(finding.holds for finding in findings)
    assert page.count('<li class="holds">') == len(findings)
    assert "passed" in page


@pytest.mark.parametrize(
    "broken",
    [
        lambda c: replace(c, epsilon=0.5),
        lambda c: replace(c, plan={**c.plan, "steps": 3}),
        lambda c: replace(c, assumed=(*c.assumed, "it is safe")),
    ],
)
def test_a_certificate_that_does_not_verify_is_not_praised(
    certificate: Certificate, broken: Callable[[Certificate], Certificate]
) -> None:
    page = rendered(broken(certificate))
    assert "passed" not in page
    top = text_of(page[: page.index("<main>")])
    assert "The verification of this certificate failed." in top
    assert "Nothing is promised" in text_of(page)
    assert "What an attacker can find out" not in page
    assert '<li class="fails">' in page


def test_a_seeded_model_is_called_not_private_at_the_top(certificate: Certificate) -> None:
    page = rendered(replace(certificate, randomness=SEEDED))
    assert "This model is not private." in text_of(page[: page.index("<main>")])
    assert "passed" not in page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"signature": None}, "Nobody has signed this."),
        ({"delta": 0.01}, "permits publishing a record outright"),
        ({"epsilon": 12.0}, "says little about any one record"),
    ],
)
def test_what_weakens_a_promise_stands_at_the_top(
    certificate: Certificate, change: dict[str, float], words: str
) -> None:
    page = render(Page("A title", replace(certificate, **change), ()))
    assert words in text_of(page[: page.index("<main>")])


def test_the_page_does_not_claim_more_than_it_can_show(page: str) -> None:
    assert "on trust" not in page
    text = text_of(page)
    assert "The numbers can be checked by anybody; that the program was run as they say" in text


def test_whatever_a_caller_writes_is_text_and_not_markup(certificate: Certificate) -> None:
    table = Table(MARKUP, (MARKUP,), ((MARKUP, MARKUP),))
    figure = tradeoff_figure(Tradeoff(MARKUP, {1.0: (0.5,)}, {MARKUP: 0.4}), MARKUP)
    section = Section(MARKUP, (MARKUP,), (figure,), (table,), MARKUP)
    poisoned = replace(certificate, notes=(MARKUP,), enforced=(MARKUP,), assumed=(MARKUP,), randomness=MARKUP)
    page = rendered(poisoned, section, title=MARKUP, summary=MARKUP)
    assert "<script" not in page
    assert "script" not in {tag for tag, _ in elements(page)}
    assert page.count("&lt;script&gt;") > 10


def test_an_add_remove_guarantee_says_so() -> None:
    certificate = certificate_of(Budget(1.0, 1e-6, Relation.ADD_REMOVE), method=NoisyGradientDescent(steps=3))
    assert "added or left out" in text_of(rendered(certificate))


def test_an_unknown_numerical_error_is_left_out(certificate: Certificate) -> None:
    assert "numerical error" in rendered(certificate)
    assert "numerical error" not in rendered(replace(certificate, accounting_error=None))


def test_the_embedded_json_is_readable_on_the_page(page: str, certificate: Certificate) -> None:
    shown = re.search(r'<pre class="json"[^>]*>(.*?)</pre>', page, re.DOTALL)
    assert shown is not None
    assert json.loads(unescape(shown[1])) == json.loads(certificate.to_json())


def test_the_page_is_small(page: str) -> None:
    without_figure = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    assert len(without_figure) < 60_000
