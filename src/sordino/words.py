"""What a promise says, in plain sentences: one wording for the command line, the report and notebooks.

    explain(certificate)          five sentences about a model
    explain_entry(entry, ..)      five about a release that a ledger knows of

They answer, in this order: what was promised about whom, against whom, at what price, what was assumed, and what was
not shown. They hold no number that is not in what they are about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Protocol, runtime_checkable

from sordino import sentences
from sordino.budget import Budget, Relation
from sordino.formatting import card, number
from sordino.ledger.ledger import Entry
from sordino.privacy.events import (
    Approximate,
    Composed,
    Event,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    Leak,
    ObjectivePerturbed,
    PoissonSampled,
    PureDP,
    Selected,
)
from sordino.privacy.randomness import SYSTEM
from sordino.wire import shown


class Signed(Protocol):
    @property
    def signer(self) -> str: ...


class Counted(Protocol):
    @property
    def records(self) -> int: ...
    @property
    def unit(self) -> str: ...
    @property
    def gives(self) -> str:
        """What was released: a model, or an evaluation of one."""
        ...


class Planned(Protocol):
    @property
    def event(self) -> Event: ...


@runtime_checkable
class Certified(Protocol):
    """What a certificate says that is told here."""

    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...
    @property
    def relation(self) -> Relation: ...
    @property
    def problem(self) -> Counted: ...
    @property
    def assumed(self) -> tuple[str, ...]: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def randomness(self) -> str: ...
    @property
    def signature(self) -> Signed | None: ...


class Found(Protocol):
    """One check of a verification."""

    @property
    def holds(self) -> bool: ...
    @property
    def sentence(self) -> str: ...


@dataclass(frozen=True)
class Unit:
    """Whom or what a guarantee protects, in the singular and in the plural, and how one speaks of it."""

    one: str
    many: str
    used: str
    """Those of which one is protected, by what was done with them."""
    whole: str
    """What of one is protected."""
    any_other: str
    others: str
    """What an attacker may know."""
    group: str
    """Who is protected less."""


RECORD = Unit(
    "record",
    "records",
    "records it was {} on",
    "that record",
    "any other",
    "every other record",
    "Whoever has several records in the data is protected less",
)
PERSON = Unit(
    "person",
    "persons",
    "persons whose records it was {} on",
    "all records of that person",
    "any others",
    "all records of every other person",
    "A family, or any other group of persons, is protected less",
)
_UNITS = {"record": RECORD, "person": PERSON}


def unit_of(certificate: Certified) -> Unit:
    """What neighbouring data sets differ in."""
    return _UNITS[certificate.problem.unit]


@dataclass(frozen=True)
class Explanation:
    """Five sentences, and under which heading each stands."""

    promised: str
    against: str
    price: str
    assumed: str
    not_shown: str

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(HEADINGS, astuple(self), strict=True)


HEADINGS = ("What is promised", "Against whom", "At what price", "What was assumed", "What was not shown")


def explain(certificate: Certified, findings: Sequence[Found] = ()) -> Explanation:
    """The promise of a certificate; with `findings`, none where one of them does not hold."""
    if not isinstance(certificate, Certified):
        raise TypeError(
            f"{shown(certificate)} is not a certificate: give the `certificate_` of a fitted estimator, or "
            "Certificate.load(..)."
        )
    failed = next((finding for finding in findings if not finding.holds), None)
    if failed is not None:
        promised = f"Nothing is promised: the certificate does not hold, because {failed.sentence}"
    elif certificate.randomness != SYSTEM:
        promised = (
            "Nothing is promised: the noise did not come from the operating system, and whoever knows where it came "
            "from can take it off again."
        )
    else:
        promised = _promised(certificate)
    price = _price(certificate.epsilon, certificate.delta, unit_of(certificate))
    nothing = promised.startswith("Nothing")
    return Explanation(
        promised,
        f"It {'would hold' if nothing else 'holds'} {_against(certificate)}",
        f"The price {'would be' if nothing else 'is'} {price}",
        _assumed(certificate),
        _not_shown(certificate),
    )


def explain_entry(entry: Entry, cap: Budget, epsilon: float) -> Explanation:
    """A release that a ledger knows of; `epsilon` is what it costs alone at the cap's delta."""
    state = {
        "reserved": "is reserved and counts, because its run may have released something",
        "spent": "is spent",
        "unused": "was given back unused, and costs nothing",
    }[entry.state.value]
    note = f" ({entry.note})" if entry.note else ""
    alone = f"epsilon {number(epsilon)} at delta {number(cap.delta)}"
    return Explanation(
        f"Reservation {entry.number}{note} of the data set {entry.dataset} {state}; its promise is that the release "
        f"would have come out almost as likely if any one {RECORD.one} had been {_changed(cap.relation, RECORD)}.",
        "It holds against everybody who sees the release, and whatever else was released under this name, for as "
        "long as all of it is in this ledger.",
        f"Alone it costs {alone}, of a cap of epsilon {number(cap.epsilon)} for everything released from this data "
        "set.",
        "It was assumed that the data set has this one name: the same records under another name would have another "
        "budget.",
        "Not shown by a ledger: that the run took place as reserved, and on these records; that is in the certificate "
        "of what was released, and in the word of whoever signs it.",
    )


def certificate_card(name: str, certificate: Certified) -> str:
    """A notebook's card of what is promised about `name`."""
    seeded = certificate.randomness != SYSTEM
    given = {"model": "a private model", "evaluation": "a private evaluation"}[certificate.problem.gives]
    return card(f"{name}: {given}", explain(certificate), "NOT PRIVATE: for tests alone" if seeded else "")


def unfitted_card(name: str) -> str:
    promised = "Nothing yet: it is not fitted, so no record was used and nothing was released."
    return card(f"{name}: no model yet", [(HEADINGS[0], promised)])


def plan_card(plan: Planned) -> str:
    """A notebook's card of a plan, which knows neither the records nor the budget it was made for."""
    return card(
        type(plan).__name__,
        [
            ("What would happen", f"{described(plan.event)}."),
            ("What is promised", "Nothing yet: it was made from public facts alone, and no record was used."),
        ],
    )


def _promised(certificate: Certified) -> str:
    unit, count = unit_of(certificate), number(certificate.problem.records)
    used = unit.used.format({"model": "trained", "evaluation": "measured"}[certificate.problem.gives])
    among = (
        f"any one of the {count} {used}"
        if certificate.relation is Relation.REPLACE_ONE
        else f"any one {unit.one}, not even whether it is among the {count} or so {used}"
    )
    seen = f"this {certificate.problem.gives}{' and its intervals' if _has_intervals(certificate) else ''}"
    return (
        f"Whoever sees {seen} learns little about {among}: it would have come out almost as likely if {unit.whole} "
        f"had been {_changed(certificate.relation, unit)}."
    )


def _has_intervals(certificate: Certified) -> bool:
    return sentences.INTERVALS_COVERED() in certificate.notes


def _changed(relation: Relation, unit: Unit) -> str:
    return {Relation.REPLACE_ONE: f"replaced by {unit.any_other}", Relation.ADD_REMOVE: "added or left out"}[relation]


def _against(certificate: Certified) -> str:
    known = f"whatever else they know, even {unit_of(certificate).others}, and however they compute"
    everybody = f"everybody who sees the {certificate.problem.gives} and its certificate, {known}"
    for text in certificate.assumed:
        for kind, whom in _FEDERATIONS.items():
            if (values := kind.read(text)) is not None:
                return f"against {everybody}, {whom.format(**values)}."
    return f"against {everybody}; it does not cover the machine on which the records are kept."


_FEDERATIONS = {
    sentences.OUTSIDERS: "unless they are among the {owners} owners: each of those knows its share of the noise",
    sentences.DISTRIBUTED: "the {owners} owners included, as long as at most {colluders} of them pool what they know",
    sentences.JOINT: "the {owners} owners included, as long as at most {colluders} of them pool what they know",
    sentences.COMMITTEE: "the {owners} owners included, as long as at most one of the three servers tells them more",
}


def _price(epsilon: float, delta: float, unit: Unit) -> str:
    factor = f"one {unit.one} changes the probability of every outcome by at most a factor e^{number(epsilon)}"
    up_to = "" if delta == 0 else f", up to {number(delta)}"
    return (
        f"epsilon {number(epsilon)} at delta {number(delta)}: {factor}{up_to}; every further release from the same "
        "records adds to it."
    )


def _assumed(certificate: Certified) -> str:
    # a federation's sentence says against whom the promise holds, and stands there
    taken = [text for text in certificate.assumed if all(kind.read(text) is None for kind in _FEDERATIONS)]
    return f"It was assumed, on the word of whoever ran it, that {'; that '.join(taken)}."


def _not_shown(certificate: Certified) -> str:
    run = "that the method was run as stated, on real records and on no others, nor when and with which versions"
    useful = f"nor does it say whether the {certificate.problem.gives} is right or fair"
    if _has_intervals(certificate):
        useful += "; intervals count the noise, and take the records for independent draws from those they are about"
    if certificate.signature is None:
        return (
            f"No certificate shows by itself {run}: that is the word of whoever sent it, and nobody has signed this "
            f"one; {useful}."
        )
    try:
        # what reads signatures takes a while to load, and a fit has none
        from sordino.identity import Face

        name = Face(certificate.signature.signer).name
    except ValueError:
        name = "nobody who can be named"
    return f"No certificate shows by itself {run}: that is the word of whoever signed it, {name}; {useful}."


def described(event: Event, unit: Unit = RECORD) -> str:
    """What happened, as a phrase."""
    match event:
        case Gaussian(multiplier):
            return f"Gaussian noise, {number(multiplier)} times the sensitivity"
        case GaussianDP(mu):
            return f"Gaussian differential privacy, mu = {number(mu)}"
        case PureDP(epsilon):
            return f"pure differential privacy, epsilon = {number(epsilon)}"
        case PoissonSampled(inner, rate):
            return f"each {unit.one} drawn with probability {number(rate)}, then {described(inner, unit)}"
        case FixedSizeSampled(inner, rate):
            return f"a batch of fixed size, a share {number(rate)} of the {unit.many}, then {described(inner, unit)}"
        case ObjectivePerturbed(_, multiplier, output):
            return (
                f"a random linear term in the objective, {number(multiplier)} times the gradient's sensitivity, and "
                f"Gaussian noise on the solution, {number(output)} times its tolerance"
            )
        case Leak(probability):
            return f"everything told with probability {number(probability)}, and nothing otherwise"
        case Approximate(inner, distance):
            return f"{described(inner, unit)}, up to {number(distance)} in total variation"
        case Composed(parts):
            return "; ".join(f"{number(count)} × ({described(part, unit)})" for part, count in parts)
        case Selected(runs, mean, _):
            kinds = "; or ".join(dict.fromkeys(described(run, unit) for run in runs))
            return f"the best of a secret number of runs, {number(mean)} on average, each with {kinds}"
    raise TypeError(f"there are no words for {type(event).__name__}: it is no kind of event that is known.")
