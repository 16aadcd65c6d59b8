"""The demo as `make demo` runs it, with fewer runs for the plot; and the example of the README."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from html_pages import text_of
from sordino import demo, sentences
from sordino.certificate import Certificate, verify
from sordino.datasets import load_redbook
from sordino.model_file import read_model, verify_model
from sordino.reporting import Evaluation, report
from sordino.tabular.encode import encode_features, encode_target

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def printed_and_out(tmp_path_factory):
    """In a process of its own, so that its model is the first release on these records."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    command = [sys.executable, "-m", "sordino.demo", "--out", folder, "--runs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout, folder


@pytest.fixture(scope="module")
def out(printed_and_out):
    return printed_and_out[1]


def test_it_writes_a_report_a_model_and_a_certificate(out):
    written = ["certificate.json", "evaluation.json", "model.sordino", "report.html"]
    assert sorted(path.name for path in out.iterdir()) == written


def test_the_certificate_and_the_model_verify(out):
    certificate = Certificate.load(out / "certificate.json")
    assert all(finding.holds for finding in verify(certificate))
    assert all(finding.holds for finding in verify_model(read_model(out / "model.sordino")))
    assert (certificate.epsilon, certificate.problem.records) == (1.0, 4774)
    assert certificate.delta < 1 / 4774
    assert certificate.randomness.startswith("operating system")
    # the released model is the first fit: the runs for the plot come after it
    assert certificate.notes == (sentences.INTERVALS_COVERED(),)


def test_the_released_model_has_learnt_something(out):
    survey = load_redbook()
    model = read_model(out / "model.sordino")
    rows, labels = encode_features(survey.schema, survey.records), encode_target(survey.schema, survey.records)
    # without privacy 0.72; the constant rule has 0.678
    assert np.mean(model.predict(rows) == labels) > 0.685
    weights = dict(zip(model.feature_names, model.coef[0], strict=True))
    # penalised, and noise moves it by .05
    assert weights["rate_marriage"] < -0.3


def test_the_report_says_what_the_plot_would_cost(out):
    page = re.sub(r"\s+", " ", (out / "report.html").read_text(encoding="utf-8"))
    assert "each run would be a further release" in page
    assert "These plots took 10 training runs" in page
    assert "public evaluation data" in page
    assert page.count("<svg") == 2
    assert "passed" in page


def test_it_prints_where_things_are_and_the_verdict(printed_and_out):
    printed, folder = printed_and_out
    assert f"Report:       {folder / 'report.html'}\n" in printed
    assert re.search(r"^VERIFIED in \d+ s\.$", printed, re.MULTILINE)


def test_it_fails_when_the_verification_does(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "run", lambda *_: (demo.Finding(False, "it does not hold."),))
    with pytest.raises(SystemExit) as stopped:
        demo.main(["--out", str(tmp_path)])
    assert stopped.value.code == 1


@pytest.mark.filterwarnings("ignore::sordino.PrivacyWarning")
def test_two_trainings_draw_different_noise(out):
    survey = load_redbook()
    split = demo._split(survey)
    again = demo._private(survey.schema, 1.0).fit(split.rows, split.labels)
    assert not np.any(again.coef_ == read_model(out / "model.sordino").coef)


def test_the_survey_lies_within_its_schema():
    survey = load_redbook()
    assert len(survey.records["affair"]) == 6366
    for name, column in survey.schema.columns.items():
        # were a bound wrong, answers would be clipped without a word
        assert survey.records[name].min() >= column.low
        assert survey.records[name].max() <= column.high
    assert set(survey.records["affair"]) == {"yes", "no"}
    assert survey.records["affair"].count("yes") == 2053


def test_every_range_has_a_source_and_an_assumed_one_is_not_the_answers_own(out):
    """The definitions that come with the data give scales for the others, and none for these."""
    survey = load_redbook()
    sources = survey.schema.sources
    assert sources.keys() == {*survey.schema.columns, "affair"}
    assumed = [name for name, source in sources.items() if source.startswith("assumed by the analyst")]
    assert assumed == ["age", "yrs_married", "children"]
    for name in assumed:
        column, answers = survey.schema.columns[name], survey.records[name]
        # children cannot be fewer than none
        assert column.low < answers.min() or name == "children"
        assert column.high > answers.max()
    report = text_of((out / "report.html").read_text())
    assert all(
        f"{survey.schema.columns[name].low:g} to {survey.schema.columns[name].high:g} {source}" in report
        for name, source in sources.items()
        if name in survey.schema.columns
    )


def test_no_odds_stand_without_an_error(out):
    page = (out / "report.html").read_text()
    rows = re.findall(r"<td[^>]*>× [^<]*</td>", page)
    # once for a step of a feature, in the table of the report, and then from the lowest answer to the highest
    questions = len(load_redbook().schema.columns)
    assert len(rows) == 3 * questions
    assert all(" to × " in interval for interval in (*rows[:questions], *rows[questions + 1 :: 2]))
    evaluation = Evaluation.load(out / "evaluation.json")
    assert all(measure.low < measure.value < measure.high for measure in evaluation.measures)


def test_the_same_report_comes_from_the_command_line(out, tmp_path):
    report(out / "model.sordino", tmp_path / "again.html", evaluation=out / "evaluation.json")
    again = text_of((tmp_path / "again.html").read_text())
    page = text_of((out / "report.html").read_text())
    for heading in re.findall("<h2>(.*?)</h2>", (tmp_path / "again.html").read_text()):
        assert heading in page
    assert "correct rankings" in again
