"""The page as HTML: one file that holds what it shows.

No font, script, style or picture comes from elsewhere. Everything in it is either public or was released with the
model; what a caller adds in a `Section` must be so too.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sordino import wire
from sordino.certificate import Certificate, Finding
from sordino.formatting import instant, number, percent
from sordino.identity import Face
from sordino.inference import WithIntervals
from sordino.prepare import Prepared
from sordino.privacy.groups import Attacks
from sordino.privacy.randomness import SYSTEM
from sordino.reporting.section import Section, Table
from sordino.reporting.spending import Spending
from sordino.words import described, explain, unit_of

FALSE_ALARMS = (0.001, 0.01, 0.05, 0.1, 0.5)
GROUPS = (1, 2, 3, 5, 10)


@dataclass(frozen=True)
class Page:
    """Everything that a report says."""

    title: str
    certificate: Certificate
    findings: tuple[Finding, ...]
    sections: tuple[Section, ...] = ()
    summary: str = ""
    file_digest: str | None = None
    """SHA-256 of the model file, where there is one."""
    spending: Spending | None = None


def render(page: Page) -> str:
    certificate = page.certificate
    text = certificate.to_json()
    stands = all(finding.holds for finding in page.findings)
    attacks = Attacks(certificate.event, certificate.delta, certificate.relation) if stands else None
    return (
        _ENVIRONMENT.get_template("report.html")
        .render(
            page=page,
            certificate=certificate,
            alerts=tuple(_alerts(page)),
            stands=stands,
            signer=_signer(certificate),
            explanation=tuple(explain(certificate, page.findings)),
            unit=unit_of(certificate),
            guess=None if attacks is None else percent(attacks.best_guess()),
            tables=() if attacks is None else _attacks(certificate, attacks),
            identity=_identity(page),
            facts=_facts(certificate),
            certificate_json=text,
            certificate_link=f"data:application/json;base64,{base64.b64encode(text.encode()).decode()}",
        )
        .strip()
        + "\n"
    )


def _alerts(page: Page) -> Iterator[tuple[bool, str, str]]:
    """What stands above everything else: whether it is grave, in a few words, and in a sentence."""
    certificate, unit = page.certificate, unit_of(page.certificate)
    failed = [finding for finding in page.findings if not finding.holds]
    if certificate.randomness != SYSTEM:
        yield (
            True,
            "This model is not private.",
            "Its noise did not come from the operating system: it can be computed again and taken off. It is for "
            "tests, and must not be released.",
        )
    elif failed:
        yield (
            True,
            "The verification of this certificate failed.",
            f"Until it passes, nothing below is a guarantee: {failed[0].sentence}",
        )
    if certificate.signature is None:
        yield (
            False,
            "Nobody has signed this.",
            "Its numbers can be checked; that they are those of a real run is the word of whoever sent this page.",
        )
    if certificate.delta >= 1 / certificate.problem.records:
        yield (
            True,
            "Delta is too large.",
            f"It is not below one over the number of {unit.many}, which permits publishing a {unit.one} outright.",
        )
    if certificate.epsilon > 10:
        yield True, "Epsilon is large.", f"Above about 10 the guarantee says little about any one {unit.one}."
    if page.spending is not None and not page.spending.own:
        like = ", ".join(str(entry.number) for entry in page.spending.like)
        another = (
            f" Reservation {like} is for a release like it and names another model: these weights without the schema "
            "they were saved with, or a model of its own."
            if like
            else ""
        )
        yield (
            True,
            "The ledger does not know this model.",
            f"No reservation of the data set {page.spending.dataset} is for it: it was charged elsewhere, or to "
            f"nobody.{another}",
        )


def _signer(certificate: Certificate) -> str | None:
    if certificate.signature is None:
        return None
    try:
        return Face(certificate.signature.signer).name
    except ValueError:
        return None


def _attacks(certificate: Certificate, attacks: Attacks) -> tuple[Table, Table]:
    unit = unit_of(certificate)
    alone = tuple((percent(rate), percent(attacks.detections(rate))) for rate in FALSE_ALARMS)
    groups = tuple(
        (
            number(k),
            # of one, what the certificate says: the noise may be a hair better
            number(certificate.epsilon if k == 1 else _up(attacks.epsilon(k))),
            percent(attacks.best_guess(k)),
        )
        for k in GROUPS
    )
    return (
        Table(
            f"What any attack on one {unit.one} can achieve",
            ("false alarms", "true detections, at most"),
            alone,
            (0, 1),
        ),
        Table(
            unit.group,
            (unit.many, f"epsilon, at delta {number(certificate.delta)}", "best guess right, at most"),
            groups,
            (0, 1, 2),
        ),
    )


def _up(epsilon: float) -> float:
    """To four digits, and not down."""
    return float(f"{epsilon * 1.0005:.4g}") if epsilon < float("inf") else epsilon


def _identity(page: Page) -> list[tuple[str, str]]:
    """Which model this page is about, and since when."""
    certificate = page.certificate
    method, how = certificate.method, ""
    if isinstance(method, Prepared):
        method, how = method.method, " on prepared rows"
    elif isinstance(method, WithIntervals):
        method, how = method.method, " with intervals"
    lines = [
        ("released", instant(certificate.created)),
        ("trained by", f"{type(method).__name__}{how}, Sordino {certificate.versions['sordino']}"),
        ("digest of the model", certificate.weights),
    ]
    return [*lines, *([] if page.file_digest is None else [("SHA-256 of the model file", page.file_digest)])]


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
                ("what happened", described(certificate.event, unit_of(certificate))),
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
    loader=PackageLoader("sordino.reporting", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["number"] = number
_ENVIRONMENT.filters["instant"] = instant
_ENVIRONMENT.filters["drawing"] = lambda figure: Markup(figure.svg)
_ENVIRONMENT.globals["style"] = Markup((Path(__file__).parent / "templates" / "report.css").read_text())
