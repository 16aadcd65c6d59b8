"""The page as a reader gets it: complete, honest about a failed check, and in need of nothing else."""

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from sordino import sentences, wire
from sordino.budget import Budget, Relation
from sordino.certificate import LIBRARIES, Certificate, verify, weights_digest
from sordino.losses import Logistic
from sordino.methods import OutputPerturbation
from sordino.oracle.rows import Rows
from sordino.privacy.accountants import guarantee
from sordino.privacy.randomness import SYSTEM
from sordino.problem import Problem
from sordino.report import Section, Table, Tradeoff, tradeoff_figure, write_report

BUDGET = Budget(1.0, 1e-6)
MARKUP = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def certificate():
    problem, method = Problem(500, 4, Logistic()), OutputPerturbation(steps=20)
    plan, rows = method.plan(problem, BUDGET), Rows(2.5, 0.4)
    found = guarantee(plan.event, BUDGET.delta, BUDGET.relation)
    said = sentences.required(problem, BUDGET, method, rows, 1.0)
    return Certificate(
        epsilon=1.0,
        delta=1e-6,
        relation=Relation.REPLACE_ONE,
        requested=BUDGET,
        problem=problem,
        method=method,
        plan=wire.to_plain(plan),
        event=plan.event,
        accountant=found.accountant,
        accounting_error=found.error,
        rows=rows,
        enforced=said["enforced"],
        assumed=said["assumed"],
        notes=(sentences.WENT_ON(times="1 time"),),
        randomness=SYSTEM,
        versions=dict.fromkeys(("python", *LIBRARIES), "0.1.0"),
        created="2025-01-01T00:00:00+00:00",
        weights=weights_digest({}),
    )


def written(folder, certificate, *sections, title="A title", summary=""):
    findings = write_report(folder / "report.html", title, certificate, summary, sections)
    return (folder / "report.html").read_text(encoding="utf-8"), findings


@pytest.fixture
def page(tmp_path, certificate):
    figure = tradeoff_figure(Tradeoff("Accuracy", {0.1: (0.6, 0.7), 1.0: (0.7, 0.72)}, {"plain": 0.75}), "A caption.")
    table = Table(("epsilon", "accuracy"), (("0.1", "65 %"),), numeric=(0, 1))
    section = Section("Usefulness", ("A paragraph.",), (figure,), table, "A warning.")
    return written(tmp_path, certificate, section)[0]


class Elements(HTMLParser):
    """Every start tag, and a check that all of them are closed in order."""

    VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})

    def __init__(self):
        super().__init__()
        self.tags, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def elements(page):
    parser = Elements()
    parser.feed(page)
    assert parser.open == []
    return parser.tags


def test_the_page_is_well_formed_and_has_one_of_each_landmark(page):
    tags = [tag for tag, _ in elements(page)]
    for landmark in ("html", "head", "body", "main", "header", "footer", "h1", "title"):
        assert tags.count(landmark) == 1


def test_nothing_comes_from_elsewhere(page):
    assert not {"script", "link", "img", "iframe", "object", "embed"} & {tag for tag, _ in elements(page)}
    links = [
        value for _, attrs in elements(page) for key, value in attrs.items() if key in ("href", "src", "xlink:href")
    ]
    assert all(value.startswith(("data:application/json", "#")) for value in links)
    assert not re.search(r"@import|url\((?!#)", page)
    assert "default-src 'none'" in page


def test_the_certificate_inside_is_the_certificate(page, certificate):
    (link,) = [attrs for tag, attrs in elements(page) if tag == "a"]
    assert link["download"] == "certificate.json"
    saved = base64.b64decode(link["href"].partition("base64,")[2]).decode()
    assert saved == certificate.to_json()
    assert Certificate.from_json(saved) == certificate


def test_the_guarantee_stands_in_numbers_and_in_words(page, certificate):
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert certificate.statement in text
    assert "1 × 10⁻⁶" in text
    # (e + 1e-6) / (1 + e) = 0.7310589.., rounded up
    assert "right at most 73.2 % of the time" in text
    # e * 0.01 + 1e-6 = 0.027184, rounded up
    assert "1 % 2.8 %" in text
    assert "any one person's record were replaced by any other" in text.replace("&#39;", "'")
    assert "What is not guaranteed" in text


def test_every_number_of_the_plan_is_on_the_page(page, certificate):
    rows = dict(re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', page))
    assert rows["records"] == "500"
    assert rows["steps"] == "20"
    assert float(rows["noise › std"]) == pytest.approx(certificate.plan["noise"]["std"], rel=1e-5)
    assert float(rows["bound"]) == 2.5


def test_sections_appear_with_their_parts(page):
    for part in ("Usefulness", "A paragraph.", "A caption.", "A warning.", "65 %", "<svg"):
        assert part in page


def test_findings_are_returned_and_shown(tmp_path, certificate):
    page, findings = written(tmp_path, certificate)
    assert findings == verify(certificate)
    assert all(finding.holds for finding in findings)
    assert page.count('<li class="holds">') == len(findings)
    assert "passed" in page


@pytest.mark.parametrize(
    "broken",
    [
        lambda c: replace(c, epsilon=0.5),
        lambda c: replace(c, randomness="seeded: not private"),
        lambda c: replace(c, plan={**c.plan, "steps": 3}),
    ],
)
def test_a_certificate_that_does_not_verify_is_not_praised(tmp_path, certificate, broken):
    page, findings = written(tmp_path, broken(certificate))
    assert not all(finding.holds for finding in findings)
    assert "passed" not in page
    assert "The verification of this certificate failed" in page
    assert '<li class="fails">' in page


def test_whatever_a_caller_writes_is_text_and_not_markup(tmp_path, certificate):
    table = Table((MARKUP,), ((MARKUP,),))
    figure = tradeoff_figure(Tradeoff(MARKUP, {1.0: (0.5,)}, {MARKUP: 0.4}), MARKUP)
    section = Section(MARKUP, (MARKUP,), (figure,), table, MARKUP)
    poisoned = replace(certificate, notes=(MARKUP,), enforced=(MARKUP,), assumed=(MARKUP,), randomness=MARKUP)
    page, _ = written(tmp_path, poisoned, section, title=MARKUP, summary=MARKUP)
    assert "<script" not in page
    assert "script" not in {tag for tag, _ in elements(page)}
    assert page.count("&lt;script&gt;") > 10


def test_a_failed_write_leaves_the_old_page(tmp_path, certificate, monkeypatch):
    write_report(tmp_path / "report.html", "Old", certificate)
    old = (tmp_path / "report.html").read_text()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="untouched"):
        written(tmp_path, certificate)
    assert (tmp_path / "report.html").read_text() == old


def test_an_add_remove_guarantee_says_so(tmp_path, certificate):
    page, _ = written(tmp_path, replace(certificate, relation=Relation.ADD_REMOVE))
    assert "added or taken out" in page


def test_an_unknown_numerical_error_is_left_out(tmp_path, certificate):
    assert "numerical error" in written(tmp_path, certificate)[0]
    assert "numerical error" not in written(tmp_path, replace(certificate, accounting_error=None))[0]


def test_the_embedded_json_is_readable_on_the_page(page, certificate):
    shown = re.search(r'<pre class="json">(.*?)</pre>', page, re.DOTALL)[1]
    assert json.loads(shown.replace("&#34;", '"').replace("&lt;", "<").replace("&gt;", ">")) == json.loads(
        certificate.to_json()
    )
