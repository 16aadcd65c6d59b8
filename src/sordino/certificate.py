"""The statement one can publish next to a model, and re-check with it or without it.

A certificate carries the guarantee, every public number it follows from, the privacy event, and a digest of the
released weights. Verifying it means planning again from the public facts, finding the same numbers, accounting for the
event anew, with a second accountant where one exists, and deriving what it says besides from those numbers. Nothing in
it but the digest of the weights, which are private already, was computed from the records.

Whatever can be derived is. The rest (the date, the versions, which remarks there are, facts that the noise does not
depend on) and that the run took place stand on the word of whoever signs it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sordino import outputs, sentences, wire
from sordino.budget import Budget, Relation
from sordino.domains import Ball, Everywhere
from sordino.evaluation import STATISTICS, Statistic
from sordino.evaluation.statistic import StatisticPlan
from sordino.inference import WithIntervals
from sordino.losses import LOSSES
from sordino.methods import METHODS, RATES, RepeatedSelection, Setting
from sordino.methods.protocol import AnyMethod, Plan
from sordino.oracle.rows import Rows
from sordino.penalties import BoundedPenalty, Ridge
from sordino.prepare import PREPARATIONS, Categories, Discovered, Prepared
from sordino.privacy import events
from sordino.privacy.accountants import LOOSE, Guarantee, guarantee, second_opinion
from sordino.privacy.randomness import SYSTEM
from sordino.problem import HeldOut, NetworkProblem, PersonUnit, Problem
from sordino.words import certificate_card

if TYPE_CHECKING:
    from sordino.identity import Identity

_FORMAT = "sordino certificate"
_VERSION = 3
CERTIFICATE = outputs.Kind("a certificate", rb'\{\s*"format": "sordino certificate"')
LIBRARIES = ("sordino", "numpy", "scipy", "numba", "dp-accounting", "cryptography", "randomgen")
"""Whose versions a certificate states, beside Python's."""

_MOST_STEPS = 10**8
"""Of a method that is read from a file: to plan for more would only keep whoever verifies busy."""

_SLACK = 1e-3
"""How far two accountants' discretisations may lie apart."""

_PUBLIC_KINDS: dict[str, type] = {
    **LOSSES,
    **METHODS,
    **PREPARATIONS,
    **STATISTICS,
    **RATES,
    **{
        kind.__name__: kind
        for kind in (
            Budget,
            Problem,
            PersonUnit,
            NetworkProblem,
            HeldOut,
            Ridge,
            BoundedPenalty,
            Everywhere,
            Ball,
            Rows,
            Setting,
            Prepared,
            WithIntervals,
            Categories,
            Discovered,
        )
    },
}


def state(epsilon: float, delta: float, relation: Relation, unit: str = "record") -> str:
    """The guarantee in words."""
    one, other = {
        "record": ("any one record", "any other"),
        "person": ("all records of any one person", "any others"),
    }[unit]
    change = {
        Relation.REPLACE_ONE: f"replacing {one} by {other}",
        Relation.ADD_REMOVE: f"adding or removing {one}",
    }[relation]
    return (
        f"({epsilon:.6g}, {delta:.6g})-differential privacy: {change} changes the probability of every outcome by at "
        f"most a factor e^{epsilon:.6g}, up to {delta:.6g}."
    )


def weights_digest(weights: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of named arrays: of each its name, dtype, shape and the SHA-256 of its bytes, in the names' order.

    The bytes are little-endian and in the order of the last axis first (C), so that every machine finds the same.
    """
    listed = []
    for name in sorted(weights):
        array = np.asarray(weights[name])
        plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        content = hashlib.sha256(plain.tobytes()).hexdigest()
        listed.append([name, plain.dtype.name, list(array.shape), content])
    return wire.digest(listed)


@dataclass(frozen=True)
class Signature:
    """Ed25519, by the key of the identity whose certificate `signer` is, in PEM."""

    signer: str
    value: str


@dataclass(frozen=True)
class Certificate:
    """What was guaranteed, to whom it applies, and why it holds."""

    epsilon: float
    delta: float
    relation: Relation
    requested: Budget
    problem: Problem | NetworkProblem | HeldOut
    method: AnyMethod | Statistic
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
    weights: str
    """The `weights_digest` of what was released."""
    signature: Signature | None = None

    @property
    def statement(self) -> str:
        return state(self.epsilon, self.delta, self.relation, self.problem.unit)

    def _repr_html_(self) -> str:
        return certificate_card("Certificate", self)

    def about(self, weights: Mapping[str, NDArray[Any]]) -> Certificate:
        """The same guarantee for what was made of the released weights without looking at the records again."""
        return replace(self, weights=weights_digest(weights), signature=None)

    def is_about(self, weights: Mapping[str, NDArray[Any]]) -> bool:
        return weights_digest(weights) == self.weights

    def sign(self, identity: Identity) -> Certificate:
        """With the signature of whoever vouches for what nobody can derive: that the run took place as stated."""
        signer = identity.face.pem
        return replace(self, signature=Signature(signer, identity.sign("certificate", self._signed_by(signer))))

    def _signed_by(self, signer: str) -> bytes:
        """What is signed: all of it, and in whose name."""
        return wire.canonical({**self._body(), "signer": signer}).encode()

    def to_json(self) -> str:
        body = {**self._body(), "signature": wire.to_plain(self.signature)}
        return json.dumps({**body, "digest": wire.digest(body)}, indent=1, allow_nan=False) + "\n"

    def _body(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "statement": {
                "epsilon": wire.to_plain(self.epsilon),
                "delta": float(self.delta),
                "relation": self.relation.value,
                "unit": f"one {self.problem.unit}",
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
            "weights": self.weights,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        outputs.write(path, self.to_json().encode(), CERTIFICATE)

    @staticmethod
    def from_json(text: str) -> Certificate:
        """The certificate, or a sentence on why this is not an intact one."""
        try:
            body = wire.parse(text)
        except ValueError as error:
            raise ValueError(f"this is not a certificate: {error}") from None
        if not isinstance(body, dict) or body.get("format") != _FORMAT:
            raise ValueError(f"this is not a certificate: its 'format' is not {_FORMAT!r}.")
        version = body.get("version")
        if type(version) is not int or version != _VERSION:
            raise ValueError(
                f"this certificate has version {wire.shown(version)}, and version {_VERSION} is known here: use the "
                "Sordino release that wrote it, or a newer one."
            )
        if body.pop("digest", None) != wire.digest(body):
            raise ValueError("this certificate was altered or damaged: its digest does not match its content.")
        try:
            statement, accounting = body["statement"], body["accounting"]
            certificate = Certificate(
                epsilon=_number(statement["epsilon"]),
                delta=_number(statement["delta"]),
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
                weights=body["weights"],
                signature=wire.from_plain(body["signature"], {"Signature": Signature}),
            )
            certificate._require_kinds()
            again = {**certificate._body(), "signature": wire.to_plain(certificate.signature)}
        except (KeyError, TypeError, AttributeError, ArithmeticError) as error:
            raise ValueError(f"this certificate is incomplete: {wire.shown(error)} is missing or malformed.") from None
        if body["statement"] != again["statement"]:
            raise ValueError("this certificate contradicts itself: its text does not say what its numbers say.")
        # nothing besides, and every value in the one spelling that it has
        if wire.canonical(body) != wire.canonical(again):
            raise ValueError("this certificate was not written by Sordino: it would write the same values otherwise.")
        return certificate

    def _require_kinds(self) -> None:
        """A file may hold any known kind in any place; only one fits."""
        fits = (
            isinstance(self.requested, Budget)
            and (self._is_of_evaluation() or self._is_of_model())
            and (self.rows is None or isinstance(self.rows, Rows))
            and (self.signature is None or re.fullmatch(r"[0-9a-f]{128}", self.signature.value))
            and isinstance(self.plan, dict)
            and all(isinstance(text, str) for text in (*self.enforced, *self.assumed, *self.notes, self.randomness))
            and self.versions.keys() == {"python", *LIBRARIES}
            and all(
                re.fullmatch(r"[0-9]([0-9A-Za-z.+!-]{0,40}[0-9A-Za-z])?", version) for version in self.versions.values()
            )
            and _is_instant(self.created)
            and re.fullmatch(r"[0-9a-f]{64}", self.weights)
        )
        if not fits:
            raise ValueError("this certificate is malformed: its values are not of the kinds a certificate has.")
        if any(count > _MOST_STEPS for count in _whole_numbers(wire.to_plain(self.method))):
            raise ValueError(f"this certificate counts more than {_MOST_STEPS} steps, which no run takes.")

    def _is_of_model(self) -> bool:
        return (
            isinstance(self.problem, Problem | NetworkProblem)
            and (isinstance(self.problem, NetworkProblem) or type(self.problem.loss).__name__ in LOSSES)
            and isinstance(self.problem.penalty, Ridge | BoundedPenalty)
            and isinstance(self.problem.domain, Everywhere | Ball)
            and isinstance(self.method, (*METHODS.values(), Prepared, WithIntervals, Discovered))
        )

    def _is_of_evaluation(self) -> bool:
        evaluated = isinstance(self.problem, HeldOut) and isinstance(self.method, tuple(STATISTICS.values()))
        return evaluated and self.rows is None

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Certificate:
        return Certificate.from_json(Path(path).read_text())


def _number(plain: Any) -> float:
    value: float = wire.from_plain(plain, {})
    if type(value) not in (int, float):
        raise TypeError(f"a {type(value).__name__} for a number")
    float(value)  # or it is one that no double holds
    return value  # as it was written: an epsilon of 1 is not one of 1.0 to the digest


def _is_instant(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat(timespec="seconds") == text
    except (ValueError, OverflowError):
        return False


def _whole_numbers(plain: Any) -> Iterator[int]:
    match plain:
        case dict():
            for item in plain.values():
                yield from _whole_numbers(item)
        case list():
            for item in plain:
                yield from _whole_numbers(item)
        case int():
            yield plain


@dataclass(frozen=True)
class Finding:
    """One check of a verification."""

    holds: bool
    sentence: str


def verify(certificate: Certificate, weights: Mapping[str, NDArray[Any]] | None = None) -> tuple[Finding, ...]:
    """Every check; the guarantee stands if all of them hold. With the weights, also whether it is about them."""
    if not isinstance(certificate, Certificate):
        raise TypeError(
            f"{wire.shown(certificate)} is not a certificate: give the `certificate_` of a fitted estimator, or "
            "Certificate.load(..)."
        )
    try:
        return (
            *_about(certificate, weights),
            *_accounted_again(certificate),
            *_rows(certificate),
            _randomness(certificate),
            *_signed(certificate),
        )
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        return (Finding(False, f"the numbers of this certificate cannot be worked with: {error}"),)


def _about(certificate: Certificate, weights: Mapping[str, NDArray[Any]] | None) -> list[Finding]:
    if weights is None:
        return []
    same = certificate.is_about(weights)
    verb = "is" if same else "is not"
    return [Finding(same, f"the {certificate.problem.gives} {verb} the one that the certificate was issued for.")]


def _planned_again(certificate: Certificate) -> Finding:
    try:
        plan = _plan(certificate)
    except ValueError as error:
        return Finding(False, f"the method refuses the public facts of this certificate: {error}")
    same = (
        wire.close(wire.to_plain(plan), certificate.plan)
        and wire.close(events.to_json(plan.event), events.to_json(certificate.event))
        and (certificate.requested.delta, certificate.requested.relation) == (certificate.delta, certificate.relation)
    )
    if same:
        return Finding(True, "planning again from the public facts gives the same numbers and the same event.")
    return Finding(False, "planning again from the public facts gives other numbers than the certificate states.")


def _plan(certificate: Certificate) -> Plan | StatisticPlan:
    method: Any = certificate.method
    problem: Any = certificate.problem
    if not isinstance(method, RepeatedSelection):
        return method.plan(problem, certificate.requested)  # type: ignore[no-any-return]
    # what one run may cost is looked for by planning many times, and seen to be right by planning once
    match certificate.plan:
        case {"run_budget": {"epsilon": float(stated)}} if stated > 0:
            return method.plan(problem, certificate.requested, stated)
    raise ValueError("a search says what one of its runs may cost.")


def _accounted_again(certificate: Certificate) -> list[Finding]:
    planned = _planned_again(certificate)
    if not planned.holds:
        # an event that nobody planned proves nothing, and a stranger may have made it up to be long to account for
        return [planned]
    event, delta, relation = certificate.event, certificate.delta, certificate.relation
    first = guarantee(event, delta, relation)
    found = [planned, _covers(first, certificate, slack=1e-9), *_follows(certificate, first)]
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


def _follows(certificate: Certificate, again: Guarantee) -> list[Finding]:
    """Whether everything else that it says is what its numbers say."""
    asked = certificate.requested
    tight = certificate.method.calibration == "tight"
    exact = (
        (certificate.epsilon == asked.epsilon if tight else wire.close(float(again.epsilon), certificate.epsilon))
        and certificate.accountant == again.accountant
        and wire.close(wire.to_plain(again.error), certificate.accounting_error)
    )
    needed = sentences.required(
        certificate.problem,
        asked,
        certificate.method,
        certificate.rows,
        again.epsilon,
        said_of_intervals(certificate.method),
    )
    said = {place: getattr(certificate, place) for place in needed}
    multiplier = getattr(certificate.method, "noise_multiplier", None)
    facts = {"steps": f"{certificate.plan.get('steps')}", "multiplier": "" if multiplier is None else f"{multiplier:g}"}
    if exact and sentences.consistent(said, needed, facts):
        return [Finding(True, "everything else that it says follows from these numbers, or is a remark of Sordino's.")]
    return [Finding(False, "it says something that does not follow from its numbers, or leaves out what does.")]


def said_of_intervals(method: AnyMethod | Statistic) -> tuple[str, ...]:
    """What a certificate says where intervals were asked for, whether they came out or not."""
    return (sentences.INTERVALS_COVERED(),) if isinstance(method, WithIntervals) else ()


def _covers(again: Guarantee, certificate: Certificate, slack: float) -> Finding:
    holds = again.epsilon <= certificate.epsilon * (1 + slack)
    stated = f"({certificate.epsilon:.6g}, {certificate.delta:.6g})"
    verb = "confirms" if holds else "does not confirm"
    return Finding(
        holds, f"the {again.accountant} accountant {verb} {stated}: it finds epsilon {again.epsilon:.6g} for the event."
    )


def _rows(certificate: Certificate) -> list[Finding]:
    if certificate.rows is None or not isinstance(certificate.problem, Problem):
        # a network's records are clipped gradient by gradient, whatever their norm
        return []
    if certificate.rows.norm <= certificate.problem.row_norm * (1 + 1e-12):
        return []
    return [Finding(False, "rows were allowed a larger norm than the one the noise was planned for.")]


def _randomness(certificate: Certificate) -> Finding:
    if certificate.randomness == SYSTEM:
        return Finding(True, f"the noise came from: {certificate.randomness}.")
    return Finding(False, f"the noise did not come from the operating system, but from: {certificate.randomness}.")


def _signed(certificate: Certificate) -> list[Finding]:
    if certificate.signature is None:
        return []
    from sordino.identity import Face

    try:
        face = Face(certificate.signature.signer)
    except ValueError as error:
        return [Finding(False, f"the signature is by nobody who can be named: {error}")]
    content = certificate._signed_by(face.pem)
    who = f"{face.name}, whose certificate has the fingerprint {face.fingerprint}"
    if not face.signed("certificate", content, certificate.signature.value):
        return [Finding(False, f"the signature is not that of {who}.")]
    if not face.is_valid_at(datetime.fromisoformat(certificate.created)):
        return [Finding(False, f"the signature is that of {who}, which was not valid on {certificate.created}.")]
    return [Finding(True, f"it is signed by {who}: compare it with the one that you have from them.")]
