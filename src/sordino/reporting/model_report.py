"""One page about one released model, from its file and whatever else is known about it.

    report("model.sordino", "report.html", ledger="survey.ledger", evaluation="evaluation.json")

Nothing here reads a record, so nothing here costs anything: the page says what the model file, its certificate, the
schema, the ledger and the evaluation say, and what the verification of the certificate found.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sordino import outputs
from sordino.certificate import Certificate, Finding, verify
from sordino.evaluation_file import Evaluation, verify_evaluation
from sordino.ledger.ledger import Ledger
from sordino.ledger.store import ledger_file
from sordino.model_file import LoadedModel, model_of, read_model, verify_model
from sordino.problem import HeldOut
from sordino.reporting.bounds import bounds_section
from sordino.reporting.coefficients import coefficients_section
from sordino.reporting.curves import curves_section
from sordino.reporting.flow import flow_section
from sordino.reporting.quality import quality_section
from sordino.reporting.section import Section
from sordino.reporting.spending import Spending, read_spending, spending_section
from sordino.tabular.schema import Schema

REPORT = outputs.Kind("a report", rb'<!doctype html>.*<meta name="generator" content="sordino">')

Path_ = str | os.PathLike[str]


def report(
    model: Any,
    path: Path_,
    *,
    schema: Schema | Path_ | None = None,
    ledger: Ledger | Path_ | None = None,
    dataset: str | None = None,
    evaluation: Evaluation | Path_ | None = None,
    title: str | None = None,
    summary: str = "",
    sections: tuple[Section, ...] = (),
) -> tuple[Finding, ...]:
    """Write the page to `path`, and return what the verification found: the guarantee stands if all of it holds.

    `model` is a fitted estimator, a loaded model or a certificate, or the file of one of the latter. `sections` are a
    caller's own, and stand as the caller wrote them; whatever is in them must be public, or released.
    """
    try:
        from sordino.reporting.page import Page, render
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error.name} is not installed: pip install 'sordino[report]'.") from None
    file = ledger_file(ledger.address if isinstance(ledger, Ledger) else ledger)
    outputs.require_writable([(path, REPORT)], _inputs(model, schema, file, evaluation))
    about = _read(model, None if schema is None else schema if isinstance(schema, Schema) else Schema.load(schema))
    certificate = about.certificate
    measured = evaluation if evaluation is None or isinstance(evaluation, Evaluation) else Evaluation.load(evaluation)
    if measured is not None and measured.model != certificate.weights:
        raise ValueError("the evaluation is of another model: its digest is not the one that the certificate names.")
    spending = None
    if ledger is not None:
        spending = read_spending(ledger if isinstance(ledger, Ledger) else Ledger(ledger), dataset, certificate)
    elif dataset is not None:
        raise ValueError(f"the data set {dataset!r} is named and no ledger is given: name the ledger it is in.")
    findings = about.findings
    page = Page(
        title=title or _title(about),
        summary=summary,
        certificate=certificate,
        findings=findings,
        file_digest=about.file_digest,
        sections=(*_own_sections(about, spending, measured), *sections),
        spending=spending,
    )
    outputs.write(path, render(page).encode(), REPORT)
    return findings


@dataclass(frozen=True, eq=False)
class _About:
    certificate: Certificate
    findings: tuple[Finding, ...]
    model: LoadedModel | None
    schema: Schema | None
    file_digest: str | None


def _read(model: Any, schema: Schema | None) -> _About:
    content = Path(model).read_bytes() if isinstance(model, str | os.PathLike) else None
    if content is not None and not content.startswith(b"PK"):
        model = _certificate(content, model)
    if isinstance(model, Certificate):
        if isinstance(model.problem, HeldOut):
            raise ValueError("this certificate is that of an evaluation: give the model, and it as its evaluation.")
        return _About(model, verify(model), None, schema, None)
    if content is not None:
        loaded = read_model(model)
    elif isinstance(model, LoadedModel):
        loaded = model
    else:
        loaded = model_of(model)
    digest = None if content is None else hashlib.sha256(content).hexdigest()
    # what is verified is the model as it came; a schema beside it is for the page
    shown = loaded if schema is None else _with(loaded, schema)
    return _About(loaded.certificate, verify_model(loaded), shown, shown.schema, digest)


def _certificate(content: bytes, path: Path_) -> Certificate:
    try:
        return Certificate.from_json(content.decode())
    except UnicodeDecodeError:
        raise ValueError(f"{path} is neither a model file nor a certificate: it is not text.") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _with(model: LoadedModel, schema: Schema) -> LoadedModel:
    """The model with a schema for the page: its own with sources, or the one it was fitted with and does not carry."""
    if model.schema is not None and replace(model.schema, sources={}) != replace(schema, sources={}):
        raise ValueError("the schema is another one than the model carries: give the one it was trained with, or none.")
    rows = model.certificate.rows
    if model.schema is None and model.hidden is None and (rows is None or rows.bound != schema.row_norm):
        raise ValueError(
            f"the schema's rows have a norm of at most {schema.row_norm:g}, and the model was trained with another "
            "bound: give the schema it was trained with, or none."
        )
    return replace(model, schema=schema)


def _inputs(*given: Any) -> list[Path_]:
    return [one for one in given if isinstance(one, str | os.PathLike)]


def _title(about: _About) -> str:
    return "A private model" if about.schema is None else f"A private model of {about.schema.target.column}"


def _own_sections(about: _About, spending: Spending | None, evaluation: Evaluation | None) -> tuple[Section, ...]:
    model, certificate = about.model, about.certificate
    found = [
        None if spending is None else spending_section(spending),
        flow_section(certificate, model, about.schema is not None),
        bounds_section(certificate, about.schema),
        None if model is None else curves_section(model),
        None if model is None else coefficients_section(model, certificate),
        None if evaluation is None else quality_section(evaluation, _found(evaluation)),
    ]
    return tuple(section for section in found if section is not None)


def _found(evaluation: Evaluation) -> tuple[Finding, ...]:
    return () if evaluation.certificate is None else verify_evaluation(evaluation)
