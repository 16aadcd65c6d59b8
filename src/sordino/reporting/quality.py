"""How good the model is, with intervals, from an evaluation that somebody made."""

from __future__ import annotations

from sordino.formatting import number
from sordino.reporting.evaluation import Evaluation, Measure
from sordino.reporting.section import Section, Table


def quality_section(evaluation: Evaluation) -> Section:
    rows = tuple((one.name, f"{one.value:.4g}", _interval(one), one.how) for one in evaluation.measures)
    return Section(
        "How good the model is",
        (f"Measured on: {evaluation.records}.", *evaluation.remarks),
        tables=(Table("Measures", ("measure", "value", "interval", "what the interval covers"), rows, (1,)),),
    )


def _interval(one: Measure) -> str:
    if one.low is None or one.high is None or one.level is None:
        return "no error is known"
    return f"{one.low:.4g} to {one.high:.4g} ({number(100 * one.level)}\u00a0%)"
