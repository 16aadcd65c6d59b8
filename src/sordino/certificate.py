"""The statement one can publish next to a model, and re-check without it.

A certificate carries the guarantee, every public number it follows from, and the privacy event. Verifying it means
planning again from the public facts, finding the same numbers, and accounting for the event anew, with a second
accountant where one exists. No value computed from the records is in it.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino import outputs, wire
from sordino.budget import Budget, Relation
from sordino.domains import Ball, Everywhere
from sordino.losses import LOSSES
from sordino.methods import METHODS, RATES, Setting
from sordino.oracle.rows import Rows
from sordino.penalties import BoundedPenalty, Ridge
from sordino.privacy import events
from sordino.privacy.accountants import LOOSE, Guarantee, guarantee, second_opinion
from sordino.privacy.randomness import SYSTEM
from sordino.problem import NetworkProblem, Problem

FORMAT = "sordino certificate"
VERSION = 1
UNIT = "one record"
CERTIFICATE = outputs.Kind("a certificate", rb'\{\s*"format": "sordino certificate"')

_SLACK = 1e-3
"""How far two accountants' discretisations may lie apart."""

_PUBLIC_KINDS: dict[str, type] = {
    **LOSSES,
    **METHODS,
    **RATES,
    **{
        kind.__name__: kind
        for kind in (Budget, Problem, NetworkProblem, Ridge, BoundedPenalty, Everywhere, Ball, Rows, Setting)
    },
}


def state(epsilon: float, delta: float, relation: Relation) -> str:
    """The guarantee in words."""
    change = {
        Relation.REPLACE_ONE: "replacing any one record by any other",
        Relation.ADD_REMOVE: "adding or removing any one record",
    }[relation]
    return (
        f"({epsilon:.6g}, {delta:.6g})-differential privacy: {change} changes the probability of every outcome by at "
        f"most a factor e^{epsilon:.6g}, up to {delta:.6g}."
    )


@dataclass(frozen=True)
class Certificate:
    """What was guaranteed, to whom it applies, and why it holds."""

    epsilon: float
    delta: float
    relation: Relation
    requested: Budget
    problem: Problem | NetworkProblem
    method: Any
    plan: dict[str, Any]
    event: events.Event
    accountant: str
    accounting_error: float | None
    rows: Rows | None
    enforced: tuple[str, ...]
    assumed: tuple[str, ...]
    notes: tuple[str, ...]
    randomness: str
    versions: dict[str, str]
    created: str

    @property
    def statement(self) -> str:
        return state(self.epsilon, self.delta, self.relation)

    def to_json(self) -> str:
        body = {
            "format": FORMAT,
            "version": VERSION,
            "statement": {
                "epsilon": wire.to_plain(self.epsilon),
                "delta": self.delta,
                "relation": self.relation.value,
                "unit": UNIT,
                "text": self.statement,
            },
            "requested": wire.to_plain(self.requested),
            "problem": wire.to_plain(self.problem),
            "method": wire.to_plain(self.method),
            "plan": self.plan,
            "event": events.to_json(self.event),
            "accounting": {"accountant": self.accountant, "error": self.accounting_error},
            "rows": wire.to_plain(self.rows),
            "enforced": list(self.enforced),
            "assumed": list(self.assumed),
            "notes": list(self.notes),
            "randomness": self.randomness,
            "versions": self.versions,
            "created": self.created,
        }
        return json.dumps({**body, "digest": wire.digest(body)}, indent=1, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        outputs.write(path, self.to_json().encode(), CERTIFICATE)

    @staticmethod
    def from_json(text: str) -> Certificate:
        """The certificate, or a sentence on why this is not an intact one."""
        try:
            body = json.loads(text)
        except ValueError:
            raise ValueError("this is not a certificate: it is not JSON.") from None
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            raise ValueError(f"this is not a certificate: its 'format' is not {FORMAT!r}.")
        if body.get("version") != VERSION:
            raise ValueError(
                f"this certificate has version {body.get('version')!r}, and version {VERSION} is known here: "
                "use the Sordino release that wrote it, or a newer one."
            )
        if body.pop("digest", None) != wire.digest(body):
            raise ValueError("this certificate was altered or damaged: its digest does not match its content.")
        try:
            statement, accounting = body["statement"], body["accounting"]
            certificate = Certificate(
                epsilon=float(statement["epsilon"]),
                delta=statement["delta"],
                relation=Relation(statement["relation"]),
                requested=wire.from_plain(body["requested"], _PUBLIC_KINDS),
                problem=wire.from_plain(body["problem"], _PUBLIC_KINDS),
                method=wire.from_plain(body["method"], _PUBLIC_KINDS),
                plan=body["plan"],
                event=events.from_json(body["event"]),
                accountant=accounting["accountant"],
                accounting_error=accounting["error"],
                rows=wire.from_plain(body["rows"], _PUBLIC_KINDS),
                enforced=tuple(body["enforced"]),
                assumed=tuple(body["assumed"]),
                notes=tuple(body["notes"]),
                randomness=body["randomness"],
                versions=body["versions"],
                created=body["created"],
            )
            certificate._require_kinds()
            if (statement["text"], statement["unit"]) != (certificate.statement, UNIT):
                raise ValueError("this certificate contradicts itself: its text does not say what its numbers say.")
        except (KeyError, TypeError, AttributeError, ArithmeticError) as error:
            raise ValueError(f"this certificate is incomplete: {error!r} is missing or malformed.") from None
        return certificate

    def _require_kinds(self) -> None:
        """A file may hold any known kind in any place; only one fits."""
        fits = (
            isinstance(self.requested, Budget)
            and isinstance(self.problem, Problem | NetworkProblem)
            and (isinstance(self.problem, NetworkProblem) or type(self.problem.loss).__name__ in LOSSES)
            and isinstance(self.problem.penalty, Ridge | BoundedPenalty)
            and isinstance(self.problem.domain, Everywhere | Ball)
            and type(self.method).__name__ in METHODS
            and (self.rows is None or isinstance(self.rows, Rows))
        )
        if not fits:
            raise ValueError("this certificate is malformed: its values are not of the kinds a certificate has.")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Certificate:
        return Certificate.from_json(Path(path).read_text())


@dataclass(frozen=True)
class Finding:
    """One check of a verification."""

    holds: bool
    sentence: str


def verify(certificate: Certificate) -> tuple[Finding, ...]:
    """Every check; the guarantee stands if all of them hold."""
    try:
        return (
            _planned_again(certificate),
            *_accounted_again(certificate),
            *_rows(certificate),
            _randomness(certificate),
        )
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        return (Finding(False, f"the numbers of this certificate cannot be worked with: {error}"),)


def _planned_again(certificate: Certificate) -> Finding:
    try:
        plan = certificate.method.plan(certificate.problem, certificate.requested)
    except ValueError as error:
        return Finding(False, f"the method refuses the public facts of this certificate: {error}")
    same = (
        _close(wire.to_plain(plan), certificate.plan)
        and _close(events.to_json(plan.event), events.to_json(certificate.event))
        and (certificate.requested.delta, certificate.requested.relation) == (certificate.delta, certificate.relation)
    )
    if same:
        return Finding(True, "planning again from the public facts gives the same numbers and the same event.")
    return Finding(False, "planning again from the public facts gives other numbers than the certificate states.")


def _accounted_again(certificate: Certificate) -> list[Finding]:
    event, delta, relation = certificate.event, certificate.delta, certificate.relation
    first = guarantee(event, delta, relation)
    found = [_covers(first, certificate, slack=1e-9)]
    second = second_opinion(event, delta, relation, first.accountant)
    if second is None:
        return found
    if second.accountant == LOOSE:
        # an upper bound by a coarser method neither confirms nor refutes a smaller one
        return [
            *found,
            Finding(True, f"the {second.accountant} accountant, which is coarser, finds {second.epsilon:.6g}."),
        ]
    return [*found, _covers(second, certificate, slack=_SLACK)]


def _covers(again: Guarantee, certificate: Certificate, slack: float) -> Finding:
    holds = again.epsilon <= certificate.epsilon * (1 + slack)
    stated = f"({certificate.epsilon:.6g}, {certificate.delta:.6g})"
    verb = "confirms" if holds else "does not confirm"
    return Finding(
        holds, f"the {again.accountant} accountant {verb} {stated}: it finds epsilon {again.epsilon:.6g} for the event."
    )


def _rows(certificate: Certificate) -> list[Finding]:
    if certificate.rows is None or isinstance(certificate.problem, NetworkProblem):
        # a network's records are clipped gradient by gradient, whatever their norm
        return []
    if certificate.rows.norm <= certificate.problem.row_norm * (1 + 1e-12):
        return []
    return [Finding(False, "rows were allowed a larger norm than the one the noise was planned for.")]


def _randomness(certificate: Certificate) -> Finding:
    if certificate.randomness == SYSTEM:
        return Finding(True, f"the noise came from: {certificate.randomness}.")
    return Finding(False, f"the noise did not come from the operating system, but from: {certificate.randomness}.")


def _close(one: Any, other: Any) -> bool:
    """Equal plain values, numbers up to what another version of a numerical library may change."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_close(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(_close, one, other))
        case (int() | float(), int() | float()):
            return math.isclose(one, other, rel_tol=1e-6)
    return bool(one == other)
