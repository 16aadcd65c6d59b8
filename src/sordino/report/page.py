"""One HTML file about a release: what is guaranteed, in words; how useful the model is; every number; how to re-check.

The page holds what it shows: no font, script, style or picture comes from elsewhere. Everything in it is either public
or was released with the model; what a caller adds in a `Section` must be so too.
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sordino import outputs, wire
from sordino.certificate import Certificate, Finding, verify
from sordino.report.figures import Figure
from sordino.report.words import FALSE_ALARMS, best_guess, change, described, detection_bound, number, percent

REPORT = outputs.Kind("a report", rb'<!doctype html>.*<meta name="generator" content="sordino">')


@dataclass(frozen=True)
class Table:
    """`numeric` columns, counted from 0, are set flush right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()


@dataclass(frozen=True)
class Section:
    """A part of the page that the caller writes. Figures stand side by side where there is room."""

    title: str
    paragraphs: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    table: Table | None = None
    warning: str = ""


def write_report(
    path: str | os.PathLike[str],
    title: str,
    certificate: Certificate,
    summary: str = "",
    sections: tuple[Section, ...] = (),
) -> tuple[Finding, ...]:
    """Verify the certificate and write the page, verdict included; returns what the verification found."""
    findings = verify(certificate)
    outputs.write(path, render(title, certificate, findings, summary, sections).encode(), REPORT)
    return findings


def render(
    title: str,
    certificate: Certificate,
    findings: tuple[Finding, ...],
    summary: str = "",
    sections: tuple[Section, ...] = (),
) -> str:
    text = certificate.to_json()
    encoded = base64.b64encode(text.encode()).decode()
    return (
        _ENVIRONMENT.get_template("report.html")
        .render(
            title=title,
            summary=summary,
            certificate=certificate,
            sections=sections,
            findings=findings,
            stands=all(finding.holds for finding in findings),
            change=change(certificate.relation),
            guess=percent(best_guess(certificate.epsilon, certificate.delta)),
            attacks=_attacks(certificate),
            facts=_facts(certificate),
            certificate_json=text,
            certificate_link=f"data:application/json;base64,{encoded}",
        )
        .strip()
        + "\n"
    )


def _attacks(certificate: Certificate) -> list[tuple[str, str]]:
    return [
        (percent(rate), percent(detection_bound(rate, certificate.epsilon, certificate.delta))) for rate in FALSE_ALARMS
    ]


def _facts(certificate: Certificate) -> list[tuple[str, list[tuple[str, str]]]]:
    """The certificate's numbers, as titled lists of names and values."""
    return [
        ("What was asked for", _named(wire.to_plain(certificate.requested))),
        ("The problem, all of it public", _named(wire.to_plain(certificate.problem))),
        ("Method", [("name", certificate.method.__class__.__name__), *_named(wire.to_plain(certificate.method))]),
        ("Plan, made before a record was read", _named(certificate.plan)),
        (
            "Accounting",
            [
                ("accountant", certificate.accountant),
                *_named(certificate.accounting_error, "numerical error, at most"),
                ("what happened", described(certificate.event)),
            ],
        ),
        ("Rows", _named(wire.to_plain(certificate.rows))),
        ("Randomness and versions", [("randomness", certificate.randomness), *certificate.versions.items()]),
    ]


def _named(plain: Any, name: str = "") -> list[tuple[str, str]]:
    """A plain value as lines of a table: nested names joined by dots, what is unset left out."""
    match plain:
        case None:
            return []
        case {"kind": kind, **fields}:
            head = [(_words(name), str(kind))] if name else []
            return head + [line for key, item in fields.items() for line in _named(item, _join(name, str(key)))]
        case dict():
            return [line for key, item in plain.items() for line in _named(item, _join(name, key))]
        case list():
            return [line for place, item in enumerate(plain, 1) for line in _named(item, _join(name, str(place)))]
        case bool():
            return [(_words(name), "yes" if plain else "no")]
        case int() | float():
            return [(_words(name), number(plain))]
    return [(_words(name), "unbounded" if plain == "inf" else str(plain).replace("_", " "))]


def _join(name: str, key: str) -> str:
    return f"{name} › {key}" if name else key


def _words(name: str) -> str:
    return name.replace("_", " ")


_ENVIRONMENT = Environment(
    loader=PackageLoader("sordino.report", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["number"] = number
_ENVIRONMENT.filters["drawing"] = lambda figure: Markup(figure.svg)
_ENVIRONMENT.globals["style"] = Markup((Path(__file__).parent / "templates" / "report.css").read_text())
