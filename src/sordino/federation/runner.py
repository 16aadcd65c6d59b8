"""One member's part in a federation, from its folder: connect, compare, follow the method, write what came out.

key.pem, certificate.pem      who the member is (`identity`)
plan.json, acceptance.json    what it agreed to (`signed_plan`)
members.pem                   everybody's certificates, for TLS
record.jsonl, pending         what was opened, and what is being opened (`record`, `unopened`)
"""

from __future__ import annotations

import errno
import hashlib
import re
import ssl
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from sordino import outputs, wire
from sordino.federation.aggregation import Aggregation, Witnessed
from sordino.federation.agreement import agree
from sordino.federation.broadcast import Equivocation
from sordino.federation.credentials import Credentials
from sordino.federation.handshake import NO_IDENTIFIERS, NO_RECORDS, meet, note_heads, require_ready, talk
from sordino.federation.lockstep import FederatedOracle, RecordedSum
from sordino.federation.member_folder import AUTHORITIES, MemberFolder
from sordino.federation.mesh import MemberLost, Refused
from sordino.federation.party import RecordHolder, Server
from sordino.federation.record import Record, held_record
from sordino.federation.signed_plan import SignedPlan
from sordino.federation.unopened import UnopenedContribution
from sordino.identity import CERTIFICATE, KEY, PEM, Identity
from sordino.privacy.events import to_json
from sordino.privacy.randomness import Randomness
from sordino.sentences import COUNTS_PUBLIC, NO_STEP_TWICE, PERSON_COUNTS_PUBLIC, PLAN_OF_OWNERS, SCHEMA_PUBLIC, times
from sordino.train import Trained, train

_T = TypeVar("_T")


@dataclass(frozen=True)
class Waiting:
    """Seconds: for all members to come, and for an answer once they are there."""

    arrival: float = 600.0
    answer: float = 60.0


PATIENT = Waiting()


def run(
    member_folder: MemberFolder,
    data: Path | None,
    waiting: Waiting = PATIENT,
    seed: int | None = None,
    ledger: tuple[str, str] | None = None,
) -> Trained:
    """Take part until the model is there. Cut off, it leaves a record from which the next `run` goes on."""
    signed_plan = member_folder.signed_plan
    signed_plan.require_valid_certificates()
    if member_folder.is_owner and data is None:
        raise ValueError(f"{member_folder.name} is an owner: name the file with its records.")
    if not member_folder.is_owner and data is not None:
        raise ValueError(
            f"{member_folder.name} is a server of the committee, which has no records: leave the file out."
        )
    with held_record(member_folder.identity, signed_plan.digest) as record:
        unopened = UnopenedContribution(member_folder.identity.folder)
        try:
            with _named(signed_plan), _connected(member_folder, waiting) as aggregation:
                return _session(member_folder, aggregation, record, unopened, data, seed, ledger)
        except BaseException as error:
            _note_stop(record, error)
            raise


def _session(
    member_folder: MemberFolder,
    aggregation: Witnessed,
    record: Record,
    unopened: UnopenedContribution,
    data: Path | None,
    seed: int | None,
    ledger: tuple[str, str] | None,
) -> Trained:
    signed_plan, plan = member_folder.signed_plan, member_folder.signed_plan.plan
    handshake = meet(
        signed_plan, member_folder.number, aggregation, record, unopened, member_folder.acceptance, seed is not None
    )
    recorded = RecordedSum(aggregation, signed_plan, record, unopened, handshake.again)
    identifiers, failure = _attempted(lambda: None if data is None else _identifiers(signed_plan, data))
    require_ready(signed_plan, aggregation, failure, NO_IDENTIFIERS)
    agreement = agree(plan, recorded, identifiers)
    coins = handshake.coins or agreement.coins.hex()
    if not record.summary.coins:
        record.append("began", {"coins": coins, "member": member_folder.number, "seeded": seed is not None})
    randomness = Randomness.system() if seed is None else Randomness.seeded(seed)
    party, failure = _attempted(lambda: _open_party(member_folder, data, randomness))
    require_ready(signed_plan, aggregation, failure, NO_RECORDS)
    assert party is not None
    note_heads(signed_plan, member_folder.number, aggregation, record, seed is not None)
    oracle = FederatedOracle(replace(agreement, coins=bytes.fromhex(coins)), recorded, party)
    common = replace(oracle.common_randomness(), is_seeded=handshake.seeded)
    with _charged(record, ledger, member_folder.identity):
        trained = train(
            plan.problem,
            plan.budget,
            plan.method,
            oracle,
            common,
            plan.rows,
            assumed=_said(signed_plan),
            notes=_notes(signed_plan, record),
            reference=record.summary.reference,
        )
    _finish(signed_plan, aggregation, record, trained)
    unopened.forget()
    return trained


def _attempted(task: Callable[[], _T]) -> tuple[_T | None, Exception | None]:
    """What a member does alone, or why it could not: the others wait to hear whether it did."""
    try:
        return task(), None
    except (ValueError, OSError) as error:
        return None, error


def _open_party(member_folder: MemberFolder, data: Path | None, randomness: Randomness) -> RecordHolder | Server:
    if data is None:
        return Server(randomness)
    from sordino.federation.table import open_records

    return RecordHolder(open_records(member_folder.signed_plan, member_folder.number, data, randomness), randomness)


def _finish(signed_plan: SignedPlan, aggregation: Aggregation, record: Record, trained: Trained) -> None:
    """Nobody leaves before everybody has the last sum, and knows whether all ended with the same weights."""
    digest = hashlib.sha256(trained.weights.tobytes()).hexdigest()
    answers = talk(aggregation, signed_plan, {"weights": digest})
    others = [m.name for m, a in zip(signed_plan.members, answers, strict=True) if a["weights"] != digest]
    event = record.summary.event
    record.append(
        "finished",
        {
            "weights": digest,
            "event": None if event is None else to_json(event),
            "epsilon": wire.to_plain(trained.certificate.epsilon),
            "delta": trained.certificate.delta,
            "differs": others,
        },
    )
    if others:
        warnings.warn(
            f"{', '.join(others)} ended with other weights than this member, from the same sums: the guarantee holds "
            "for each of them, but they are different models. Compare versions and processors before one is used.",
            stacklevel=2,
        )


def _note_stop(record: Record, error: BaseException) -> None:
    event = record.summary.event
    why = str(error) or type(error).__name__
    # a sentence about this owner's own records stays out of what the others may read
    public = why if isinstance(error, MemberLost | Refused) else type(error).__name__
    # where the disk fails the record stands as it is: what went wrong first is what the user should read
    fact = {"why": public, "event": None if event is None else to_json(event)}
    if isinstance(error, Equivocation):
        fact["evidence"] = error.evidence.to_plain()
    with suppress(OSError):
        record.append("stopped", fact)


def _identifiers(signed_plan: SignedPlan, data: Path) -> list[bytes] | None:
    from sordino.federation.table import read_identifiers

    return read_identifiers(signed_plan, data)


def _said(signed_plan: SignedPlan) -> tuple[str, ...]:
    """What was taken as public on the members' word."""
    counts = ", ".join(f"{owner.name} {owner.records}" for owner in signed_plan.plan.owners)
    of_units = COUNTS_PUBLIC if signed_plan.plan.problem.person is None else PERSON_COUNTS_PUBLIC
    return (
        SCHEMA_PUBLIC(schema=signed_plan.plan.schema[:16]),
        of_units(counts=counts),
        *signed_plan.plan.assumed,
    )


def _notes(signed_plan: SignedPlan, record: Record) -> tuple[str, ...]:
    plan, again = signed_plan.plan, record.summary.sessions - 1
    note = PLAN_OF_OWNERS(owners=len(plan.owners), mode=plan.mode, signed_plan=signed_plan.digest)
    return (note, NO_STEP_TWICE(times=times(again))) if again else (note,)


@contextmanager
def _charged(record: Record, ledger: tuple[str, str] | None, identity: Identity) -> Iterator[None]:
    """To this owner's own ledger, once however often the run is cut off."""
    if ledger is None:
        yield
        return
    from sordino.ledger.ledger import Ledger, new_reference
    from sordino.privacy.ledger_context import charged_to

    if record.summary.reference is None:
        record.append("reserving", {"reference": new_reference()})
    address, dataset = ledger
    with charged_to(Ledger(address, identity), dataset):
        yield


@contextmanager
def _connected(member_folder: MemberFolder, waiting: Waiting) -> Iterator[Witnessed]:
    """Mutual TLS with all members, and the secure sum that the plan names."""
    from sordino.federation.mpyc_engine import MpycAggregation
    from sordino.federation.tls import TlsMesh

    folder, signed_plan = member_folder.identity.folder, member_folder.signed_plan
    outputs.write(folder / AUTHORITIES, "".join(member.face.pem for member in signed_plan.members).encode(), PEM)
    pins = tuple(member.face.fingerprint for member in signed_plan.members)
    credentials = Credentials(folder / CERTIFICATE, folder / KEY, folder / AUTHORITIES, pins)
    addresses = [member.address for member in signed_plan.members]
    try:
        mesh = TlsMesh(member_folder.number, addresses, credentials, waiting.answer, waiting.arrival)
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
            why = {errno.EADDRINUSE: "another program uses it", errno.EACCES: "it may not be used"}
            raise OSError(
                f"{member_folder.name} cannot listen at {addresses[member_folder.number]}: "
                f"{why.get(error.errno, 'this machine does not have that address')}. Free the port, or agree on a plan "
                "with another address."
            ) from None
        raise
    try:
        yield MpycAggregation.among(signed_plan.plan.trust, mesh)
    finally:
        mesh.close()


@contextmanager
def _named(signed_plan: SignedPlan) -> Iterator[None]:
    """Members by their names in what is said about lost connections."""
    try:
        yield
    except (MemberLost, PermissionError, Refused) as error:

        def names(match: re.Match[str]) -> str:
            return ", ".join(signed_plan.members[int(number)].name for number in match[1].split(", "))

        sentence = re.sub(r"\bmember (\d+(?:, \d+)*)", names, str(error))
        after = (
            " Start run again at all members: it goes on after the last sum that was opened."
            if signed_plan.plan.goes_on
            else " Noise that remembers earlier steps is not kept: agree on another plan."
        )
        error.args = (sentence + (after if isinstance(error, MemberLost) else ""),)
        raise
    except ssl.SSLError as error:
        raise MemberLost(f"a connection was cut off because a message was damaged ({error.reason}).") from None
