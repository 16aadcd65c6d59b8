"""How good the model is, with intervals, from an evaluation that somebody made."""

from __future__ import annotations

from sordino.certificate import Finding
from sordino.evaluation import Measure
from sordino.evaluation_file import Evaluation
from sordino.formatting import number
from sordino.reporting.section import Section, Table


def quality_section(evaluation: Evaluation, findings: tuple[Finding, ...]) -> Section:
    """`findings` of its own certificate: none where the records are public."""
    failed = next((finding for finding in findings if not finding.holds), None)
    heads = ("measure", "value", "interval", "what the interval covers")
    groups = dict.fromkeys(one.group for one in evaluation.measures)
    tables = (
        Table(
            group.capitalize() or "Measures",
            heads,
            tuple(
                (one.name, f"{one.value:.4g}", _interval(one), one.how)
                for one in evaluation.measures
                if one.group == group
            ),
            (1,),
        )
        for group in groups
    )
    return Section(
        "How good the model is",
        (f"Measured on: {evaluation.records}.", *_price(evaluation), *evaluation.remarks),
        tables=tuple(tables),
        warning="" if failed is None else f"Nothing is promised about this evaluation: {failed.sentence}",
    )


def _price(evaluation: Evaluation) -> tuple[str, ...]:
    certificate = evaluation.certificate
    if certificate is None:
        return ()
    return (
        f"These records are private, and what was measured on them is protected by itself: {certificate.statement} It "
        "was paid for beside the model, and sordino verify checks the evaluation as it checks the model.",
    )


def _interval(one: Measure) -> str:
    if one.low is None or one.high is None or one.level is None:
        return "no error is known"
    return f"{one.low:.4g} to {one.high:.4g} ({number(100 * one.level)}\u00a0%)"
