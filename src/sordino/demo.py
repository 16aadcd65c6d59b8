"""A private classifier on a survey that nobody would answer in public, with everything a release needs.

    python -m sordino.demo --out demo/

Trains on three quarters of the Redbook survey, writes the model, its certificate and a report, and verifies them. The
plot of privacy against accuracy takes many runs on the same records. The survey is public, so that harms nobody here;
on private records each of these runs would be a release of its own.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

from sordino import outputs
from sordino.arrays import Array
from sordino.certificate import Finding
from sordino.datasets import Survey, load_redbook
from sordino.estimators.classifiers import PrivateLogisticRegression
from sordino.evaluation_file import EVALUATION
from sordino.inference import why_no_intervals
from sordino.model_file import require_places, save_model
from sordino.reporting import REPORT, Evaluation, Figure, Measure, Section, Table, report
from sordino.reporting.figures import Tradeoff, tradeoff_figure
from sordino.tabular.columns import ClassTarget
from sordino.tabular.encode import encode_features, encode_target
from sordino.tabular.schema import Schema
from sordino.train import PrivacyWarning

EPSILON = 1.0
"""Of the model that is released."""
PENALTY = 0.01
"""l2 of the model that is released: without one, so few answers leave no curvature above the noise of its intervals."""
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
RUNS = 11
LEVEL, BOOTSTRAPS = 0.95, 400
"""How sure the intervals of the evaluation are, and how many draws one of them takes."""

_Labels = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Split:
    """Records to train on, and records kept aside to measure quality."""

    rows: Array
    labels: _Labels
    held_out_rows: Array
    held_out_labels: _Labels


@dataclass(frozen=True)
class Quality:
    """On held-out records: the share of right answers, and how well "yes" is ranked above "no"."""

    accuracy: float
    ranking: float


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m sordino.demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="the folder to write to")
    parser.add_argument("--runs", type=int, default=RUNS, help="training runs per epsilon for the plot")
    given = parser.parse_args(arguments)
    started = time.perf_counter()
    findings = run(given.out, given.runs)
    print(f"Report:       {given.out / 'report.html'}")
    print(f"Model:        {given.out / 'model.sordino'}")
    print(f"Certificate:  {given.out / 'certificate.json'}")
    for finding in findings:
        print(f"  {'yes' if finding.holds else 'NO '}  {finding.sentence}")
    stands = all(finding.holds for finding in findings)
    print("VERIFIED" if stands else "NOT VERIFIED", f"in {time.perf_counter() - started:.0f} s.")
    if not stands:
        raise SystemExit(1)


def run(out: Path, runs: int = RUNS) -> tuple[Finding, ...]:
    """Train, release, illustrate, report; what the verification of the saved model found."""
    out.mkdir(parents=True, exist_ok=True)
    require_places(out / "model.sordino", out / "certificate.json")
    outputs.require_writable([(out / "report.html", REPORT), (out / "evaluation.json", EVALUATION)])
    survey = load_redbook()
    split = _split(survey)

    print(f"Training on {len(split.labels):,} records of the {survey.name}, epsilon {EPSILON:g} ...")
    released = _private(survey.schema, EPSILON).set_params(intervals=True, l2=PENALTY).fit(split.rows, split.labels)
    certificate = save_model(released, out / "model.sordino", survey.schema)
    certificate.save(out / "certificate.json")
    print(certificate.statement)

    print(f"Illustrating with {runs} further runs at each of {len(EPSILONS)} epsilons ...")
    qualities = _illustrate(survey.schema, split, runs)
    plain = LogisticRegression(C=1e6, max_iter=1000).fit(split.rows, split.labels)
    _evaluate(released, certificate.weights, split).save(out / "evaluation.json")
    return report(
        out / "model.sordino",
        out / "report.html",
        evaluation=out / "evaluation.json",
        title="Who has an affair? A private model of a survey",
        summary=f"A classifier trained on the answers of {len(split.labels):,} married women, released so that the "
        "model gives away little about any one of them.",
        sections=(
            _data_section(survey, split),
            _quality_section(qualities, _quality(released, split), _quality(plain, split), _majority(split), split),
            _odds_section(survey, released),
        ),
    )


def _split(survey: Survey) -> Split:
    X, y = encode_features(survey.schema, survey.records), encode_target(survey.schema, survey.records)
    # the seed decides who trains and who tests, and nothing about the noise
    train_X, test_X, train_y, test_y = train_test_split(X, y, test_size=0.25, random_state=0)
    return Split(train_X, train_y, test_X, test_y)


def _private(schema: Schema, epsilon: float) -> Any:
    assert isinstance(schema.target, ClassTarget)
    return PrivateLogisticRegression(epsilon, row_norm=schema.row_norm, classes=schema.target.classes)


def _quality(model: Any, split: Split) -> Quality:
    return Quality(
        float(accuracy_score(split.held_out_labels, model.predict(split.held_out_rows))),
        float(roc_auc_score(split.held_out_labels == "yes", model.decision_function(split.held_out_rows))),
    )


def _majority(split: Split) -> Quality:
    """Always the more frequent answer, which ranks nobody."""
    share = float(np.mean(split.held_out_labels == "yes"))
    return Quality(max(share, 1 - share), 0.5)


def _evaluate(model: Any, digest: str, split: Split) -> Evaluation:
    """On the held-out records, with intervals for how much other held-out records would change."""
    labels, quality = split.held_out_labels, _quality(model, split)
    right = int(np.sum(model.predict(split.held_out_rows) == labels))
    answers = binomtest(right, len(labels)).proportion_ci(LEVEL, method="wilson")
    scores, generator = model.decision_function(split.held_out_rows), np.random.default_rng(0)
    # the seed is for the choice of public held-out records
    drawn = [generator.integers(len(labels), size=len(labels)) for _ in range(BOOTSTRAPS)]
    rankings = [roc_auc_score(labels[rows] == "yes", scores[rows]) for rows in drawn]
    low, high = np.quantile(rankings, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    others = "other held-out records, not another training run"
    return Evaluation(
        digest,
        f"{len(labels):,} held-out answers of the same survey, treated as public",
        (
            Measure("correct answers", quality.accuracy, answers.low, answers.high, LEVEL, f"Wilson: {others}"),
            Measure("correct rankings", quality.ranking, low, high, LEVEL, f"bootstrap: {others}"),
        ),
        (
            "Correct rankings: how often, of one woman who had an affair and one who had not, the first is given the "
            "higher score. Always the same answer is right for "
            f"{_majority(split).accuracy:.1%} of the women, and ranks half of the pairs correctly.",
        ),
    )


def _illustrate(schema: Schema, split: Split, runs: int) -> dict[float, list[Quality]]:
    """Of further training runs."""
    with warnings.catch_warnings():
        # every further fit warns, rightly, that it is a further release: the report says so
        warnings.simplefilter("ignore", PrivacyWarning)
        return {
            epsilon: [_quality(_private(schema, epsilon).fit(split.rows, split.labels), split) for _ in range(runs)]
            for epsilon in EPSILONS
        }


def _data_section(survey: Survey, split: Split) -> Section:
    return Section(
        "The records",
        (
            f"{survey.name}: answers about the respondent's marriage, age, children, religiousness and education. To "
            "be predicted is whether she had an extramarital affair. The survey has been public for decades; here it "
            "stands in for records that are not.",
            f"{len(split.labels):,} records were used for training, and these the guarantee protects. "
            f"{len(split.held_out_labels):,} others were kept aside, and every accuracy in this report was measured "
            "on them. They are treated as public evaluation data: an accuracy measured on private records would be "
            "one more number that leaks.",
        ),
    )


def _quality_section(
    qualities: dict[float, list[Quality]], released: Quality, plain: Quality, majority: Quality, split: Split
) -> Section:
    def figure(measure: str, of: Callable[[Quality], float], caption: str) -> Figure:
        runs = {epsilon: tuple(of(quality) for quality in some) for epsilon, some in qualities.items()}
        references = {"without privacy": of(plain), "always the same answer": of(majority)}
        return tradeoff_figure(Tradeoff(measure, runs, references, (EPSILON, of(released))), caption)

    count = len(qualities[EPSILON])
    heads = ("epsilon", "correct answers", "worst, best", "correct rankings", "worst, best")
    shown = (
        f"Line: median of {count} runs without intervals. Band: from the worst run to the best. Diamond: the released "
        "model, which pays for its intervals out of the same epsilon."
    )
    rows = tuple(
        (f"{epsilon:g}", *_shares([one.accuracy for one in some]), *_shares([one.ranking for one in some]))
        for epsilon, some in qualities.items()
    )
    return Section(
        "Privacy against usefulness",
        (
            "Less noise gives a better model and a weaker guarantee. The plots show how much better, on "
            f"{len(split.held_out_labels):,} held-out records, next to the same model trained without any privacy and "
            "to the rule that always gives the more frequent answer.",
            f"The released model answers {released.accuracy:.1%} of the held-out records correctly, the model without "
            f"privacy {plain.accuracy:.1%}, and the constant rule {majority.accuracy:.1%}. Given one held-out woman "
            "who had an affair and one who had not, it ranks the first above the second "
            f"{released.ranking:.1%} of the time, the model without privacy {plain.ranking:.1%}, and chance 50%.",
        ),
        (
            figure("Correct answers", lambda quality: quality.accuracy, shown),
            figure("Correct rankings", lambda quality: quality.ranking, "The same runs: pairs of a “yes” and a “no”."),
        ),
        (Table("The same in numbers", heads, rows, (0, 1, 2, 3, 4)),),
        f"These plots took {count * len(qualities)} training runs, and a model without privacy, on the same records. "
        "That is an illustration on a public survey. On private records each run would be a further release with a "
        "cost of its own, and the model without privacy could not be shown at all: there, train once, at an epsilon "
        "chosen beforehand.",
    )


def _shares(values: list[float]) -> tuple[str, str]:
    return f"{np.median(values):.1%}", f"{min(values):.1%}, {max(values):.1%}"


def _odds_section(survey: Survey, released: Any) -> Section:
    # an encoded number runs from -1 to 1: from one end of a question to the other the score moves by twice its weight
    odds = np.exp(2 * released.coef_[0])
    if released.covariance_ is None:
        said, ends = f"No interval: {why_no_intervals(released.certificate_)}", ["unknown"] * len(odds)
    else:
        said = (
            f"The intervals hold {LEVEL:.0%} of the time, over other women and other noise: both are counted, and what "
            "they follow from was released within the same epsilon. Where one reaches from below × 1 to above it, not "
            f"even the direction can be read off. The factors are those of a model with a penalty of {PENALTY:g}, "
            "which draws them towards × 1."
        )
        intervals = np.exp(2 * released.confidence_intervals(LEVEL).coef)
        ends = [f"× {low:.2g} to × {high:.2g}" for low, high in intervals]
    questions = (survey.questions[name] for name in survey.schema.feature_names)
    rows = tuple(zip(questions, (f"× {own:.2g}" for own in odds), ends, strict=True))
    heads = ("question", "released", f"{LEVEL:.0%} interval")
    return Section(
        "How far to trust a coefficient",
        (f"Each answer moves the odds of an affair by a factor. {said}",),
        tables=(Table("Odds of an affair, from the lowest to the highest answer", heads, rows, (1, 2)),),
    )


if __name__ == "__main__":
    main()
