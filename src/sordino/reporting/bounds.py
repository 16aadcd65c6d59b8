"""Every bound that the noise was measured by, and where it came from."""

from __future__ import annotations

from sordino import sentences
from sordino.budget import Relation
from sordino.certificate import Certificate
from sordino.formatting import number, percent
from sordino.losses import Weighted
from sordino.prepare import (
    Centre,
    ClassBalance,
    ColumnBounds,
    ColumnScales,
    FrequentColumns,
    NormQuantile,
    PreparationStep,
    Prepared,
    StartingScore,
    Whitening,
)
from sordino.problem import NetworkProblem, Problem
from sordino.reporting.section import Section, Table
from sordino.tabular.columns import Boolean, Category, ClassTarget, Column, Date, Number, NumberTarget, Ordinal, Target
from sordino.tabular.schema import Schema
from sordino.words import unit_of

_GIVEN = "given by the analyst"
_UNSAID = "the schema, which does not say from where"
_DISCOVERED = "found in the records with noise, which the guarantee covers"
_MOST_VALUES = 12


def bounds_section(certificate: Certificate, schema: Schema | None) -> Section:
    rows = [] if schema is None else [_target(schema.target, schema), *_columns(schema)]
    rows += [
        *([] if schema is not None else _classes(certificate)),
        *_numbers(certificate, schema),
        *(paid := _paid(certificate)),
        _count(certificate),
    ]
    none = "none of these was" if not paid else "none of these was, but for those that are paid for,"
    return Section(
        "Bounds, and where each came from",
        (
            f"A bound that was measured on the records would tell about them, and no noise would cover it. That {none} "
            "is the word of whoever ran the training. What lies outside a bound was moved to its nearest end, or "
            "scaled down.",
        ),
        tables=(Table("Bounds", ("what", "bound", "where it came from"), tuple(rows)),),
    )


Row = tuple[str, str, str]


def _target(target: Target, schema: Schema) -> Row:
    match target:
        case ClassTarget(column, classes):
            bound = _listed(classes)
        case NumberTarget(column, low, high):
            bound = f"{number(low)} to {number(high)}"
    return f"{column} (to be predicted)", bound, schema.sources.get(column, _UNSAID)


def _columns(schema: Schema) -> list[Row]:
    return [(name, _bound(column), _source(name, column, schema)) for name, column in schema.columns.items()]


def _source(name: str, column: Column, schema: Schema) -> str:
    discovered = isinstance(column, Category) and column.discover is not None
    return schema.sources.get(name, _DISCOVERED if discovered else _UNSAID)


def _bound(column: Column) -> str:
    match column:
        case Number(low, high):
            return f"{number(low)} to {number(high)}"
        case Date(low, high):
            return f"{low} to {high}"
        case Ordinal(values):
            return f"in this order: {_listed(values)}"
        case Category(values, other):
            return _listed((*(values or ()), *(("any other",) if other else ())))
        case Boolean():
            return "true or false"


def _listed(values: tuple[object, ...]) -> str:
    shown = ", ".join(map(str, values[:_MOST_VALUES]))
    return shown if len(values) <= _MOST_VALUES else f"{shown} and {len(values) - _MOST_VALUES} more"


def _classes(certificate: Certificate) -> list[Row]:
    taken = "read from the records, and taken to be public"
    said = {sentences.CLASSES_GIVEN: _GIVEN, sentences.CLASSES_READ: taken}
    return [
        ("class labels", "those that the model predicts", where)
        for sentence, where in said.items()
        if any(sentence.read(text) is not None for text in certificate.assumed)
    ]


def _numbers(certificate: Certificate, schema: Schema | None) -> list[Row]:
    rows: list[Row] = []
    if certificate.rows is not None:
        where = _GIVEN if schema is None else "follows from the schema: every column has norm 1 at most"
        rows.append(("norm of a record's row", f"at most {number(certificate.rows.bound)}", where))
    for text in () if schema is not None else certificate.assumed:
        if read := sentences.TARGET_BOUND_PUBLIC.read(text):
            rows.append(("size of a target", f"at most {read['target_bound']}", _GIVEN))
        if read := sentences.TARGET_RANGE_PUBLIC.read(text):
            rows.append(("target", f"{read['target_low']} to {read['target_high']}", _GIVEN))
    weighted = (sentences.RECORDS_WEIGHTED.read(text) for text in certificate.enforced)
    rows += [("weight of a record", f"at most {read['weight_bound']}", _GIVEN) for read in weighted if read]
    if isinstance(certificate.problem, Problem) and isinstance(certificate.problem.loss, Weighted):
        weights = ", ".join(number(weight) for weight in certificate.problem.loss.weights)
        rows.append(("weights of the classes", weights, _GIVEN))
    if isinstance(certificate.problem, NetworkProblem) and (clip := certificate.plan.get("clip")) is not None:
        adaptive = getattr(certificate.method, "clipping", None) == "adaptive"
        then = " at first, then about the median of those in a batch, as released" if adaptive else ""
        rows.append(("norm of a record's gradient", f"at most {number(clip)}{then}", _GIVEN))
    return rows


def _paid(certificate: Certificate) -> list[Row]:
    """What was learnt from the records before training, with noise of its own."""
    if not isinstance(certificate.method, Prepared):
        return []
    return [
        (
            *learnt(step),
            f"learnt from the records with noise, as a part of the guarantee, and not published; {percent(step.share)} "
            "of what the noise may tell (of mu²) was kept for it",
        )
        for step in certificate.method.preparation
    ]


def learnt(step: PreparationStep) -> tuple[str, str]:
    """What a step of preparation looks for, and how its answer bounds or places the rows."""
    match step:
        case Centre():
            return "centre of the rows", "a point that is taken off every row"
        case NormQuantile(quantile=quantile):
            within = f"about {percent(quantile)} of the rows lie within it, and longer ones are scaled down"
            return "norm of a prepared row", within
        case ColumnScales():
            return "width of every column", "what its values are divided by"
        case ColumnBounds(outside=outside):
            return "range of every column", f"about {percent(outside)} of its values lie beyond either end"
        case FrequentColumns():
            return "frequent columns", "what is left of every row"
        case Whitening():
            return "shape of the rows", "what makes them rounder"
        case ClassBalance():
            return "number of records of every class", "what their weights follow from: classes count alike"
        case StartingScore():
            return "mean of the targets, or how frequent a class is", "where training begins"
    raise TypeError(f"{type(step).__name__} has no words in the report: add them here.")


def _count(certificate: Certificate) -> Row:
    records, unit = number(certificate.problem.records), unit_of(certificate).many
    if certificate.relation is Relation.REPLACE_ONE:
        return f"number of {unit}", records, "counted, and taken to be public"
    return f"number of {unit}", f"about {records}", "a public stand-in; the true number is private"
