"""The start of a session: the same plan, accepted by all, and one story of what was opened before.

Steps are taken in lock step, so the members' records differ by at most the last sum, and that only in everybody's
signatures of it: a member that signed a sum had it in its own record before. So nobody takes a sum from anybody. Who
was cut off before it had all signatures takes these from one who has them; nothing is opened a second time.

And once somebody saw a sum, everybody had begun its step: a record that says otherwise was put back.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino import wire
from sordino.federation.aggregation import Aggregation
from sordino.federation.mesh import Refused
from sordino.federation.record import Fact, Record, proof_of, unsigned
from sordino.federation.signed_plan import SignedPlan
from sordino.federation.unopened import LOST, UnopenedContribution

PUT_BACK = (
    "its record is missing or was put back to an earlier state, so what it added to the last sum is not known; restore "
    "the folder, or agree on a new plan"
)
NO_IDENTIFIERS = "its identifiers could not be read; it knows why"
NO_RECORDS = "its records could not be opened; it knows why"


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


# a member's own words never reach the others' screens and records: it can only say what is in this list
_SAID: Mapping[str, Callable[[Any], bool]] = {
    "signed_plan": _is_hash,
    "acceptance": lambda value: isinstance(value, str),
    "proof": lambda value: value is None or isinstance(value, dict),
    "coins": lambda value: value == "" or _is_hash(value),
    "seeded": lambda value: isinstance(value, bool),
    "seen": lambda value: isinstance(value, bool),
    "met": lambda value: isinstance(value, dict) and all(map(_is_hash, value.values())),
    "pending": lambda value: (
        value is None
        or (isinstance(value, dict) and value.keys() == {"step", "joint"} and isinstance(value["joint"], bool))
    ),
    "complaint": lambda value: value in ("", PUT_BACK, LOST, NO_IDENTIFIERS, NO_RECORDS),
    "common": _is_hash,
    "head": _is_hash,
    "weights": _is_hash,
}


@dataclass(frozen=True)
class Handshake:
    """What the members found out about each other."""

    coins: str
    """The coins of an earlier session; empty where there was none."""
    seeded: bool
    """Whether any member draws known noise."""
    again: bool
    """Whether all members still have the joint noise of the step that was cut off."""


def meet(
    signed_plan: SignedPlan,
    me: int,
    aggregation: Aggregation,
    record: Record,
    unopened: UnopenedContribution,
    acceptance: str,
    seeded: bool,
) -> Handshake:
    """Two rounds of messages, after which all records hold the same sums; a sentence if they cannot."""
    summary, kept = record.summary, unopened.kept
    heard = talk(
        aggregation,
        signed_plan,
        {
            "signed_plan": signed_plan.digest,
            "acceptance": acceptance,
            "proof": summary.proof,
            "coins": summary.coins,
            "seeded": seeded or summary.seeded,
            "seen": summary.seen_at(len(summary.sums)) is not None,
            "met": {str(member): head for member, head in summary.met.items()},
            "pending": None if kept is None else {"step": kept.step, "joint": kept.shares is not None},
        },
    )
    _require_accepted(signed_plan, heard)
    coins = {message["coins"] for message in heard} - {""}
    if len(coins) > 1:
        raise Refused("the members' records belong to different runs: every member needs the folder of the same run.")
    opened = [_opened(signed_plan, member, message["proof"]) for member, message in enumerate(heard)]
    low, high = min(opened), max(opened)

    begun = max(count + message["seen"] for count, message in zip(opened, heard, strict=True))
    # lock step: whoever has not begun what others saw, or not seen what it signed, has lost what it once had
    behind = len(summary.events) < begun or (len(summary.sums) < high and summary.seen_at(high - 1) is None)
    complaint = ""
    if behind or not all(record.extends(m["met"].get(str(me), "")) for m in heard):
        complaint = PUT_BACK
    elif len(summary.sums) == high and unopened.lacks(summary):
        complaint = LOST
    common = hashlib.sha256(b"".join(np.asarray(total, dtype="<i8").tobytes() for total in summary.sums[:low]))
    answers = talk(aggregation, signed_plan, {"complaint": complaint, "common": common.hexdigest()})
    require_no_complaint(signed_plan, answers)
    if len({answer["common"] for answer in answers}) > 1:
        raise Refused("the members' records contradict each other on sums that were opened: compare them by hand.")
    again = _joint_again(signed_plan, heard, high)
    if len(summary.sums) < high:
        _take_signatures(record, heard[opened.index(high)]["proof"])
    return Handshake(next(iter(coins), ""), any(m["seeded"] for m in heard), again)


def talk(aggregation: Aggregation, signed_plan: SignedPlan, message: dict[str, Any]) -> list[dict[str, Any]]:
    """Everybody's message; what is not one is a sentence with its sender's name."""
    heard = aggregation.tell([json.dumps(message, allow_nan=False).encode()])
    found = []
    for content, member in zip(heard, signed_plan.members, strict=True):
        try:
            plain = wire.parse(content.decode())
        except (ValueError, RecursionError):
            plain = None
        same = isinstance(plain, dict) and plain.keys() == message.keys()
        if not same or not all(_SAID[key](value) for key, value in plain.items()):
            raise Refused(f"{member.name} sent a message that this version does not know: install the same versions.")
        found.append(plain)
    return found


def require_ready(signed_plan: SignedPlan, aggregation: Aggregation, failure: Exception | None, complaint: str) -> None:
    """Everybody could do its part alone. Who could not reads why; the others only that it could not."""
    answers = talk(aggregation, signed_plan, {"complaint": "" if failure is None else complaint})
    if failure is not None:
        raise failure
    require_no_complaint(signed_plan, answers)


def note_heads(signed_plan: SignedPlan, me: int, aggregation: Aggregation, record: Record, seeded: bool) -> None:
    """The last word before the first step: everybody notes where the others' records end."""
    answers = talk(aggregation, signed_plan, {"head": record.head})
    heads = {str(member): answer["head"] for member, answer in enumerate(answers) if member != me}
    record.append("met", {"heads": heads, "seeded": seeded})


def require_no_complaint(signed_plan: SignedPlan, messages: Sequence[dict[str, Any]]) -> None:
    for message, member in zip(messages, signed_plan.members, strict=True):
        if message["complaint"]:
            raise Refused(f"{member.name} stops: {message['complaint']}.")


def _require_accepted(signed_plan: SignedPlan, heard: Sequence[dict[str, Any]]) -> None:
    others = [
        m.name
        for m, message in zip(signed_plan.members, heard, strict=True)
        if message["signed_plan"] != signed_plan.digest
    ]
    if others:
        raise Refused(
            f"{', '.join(others)} accepted another plan than the one with the hash {signed_plan.digest[:16]} here: "
            "owners, bounds, schema, budget, method, addresses and certificates must be the same for all; compare the "
            "plans' files, and join again. No record was touched."
        )
    for member, message in zip(signed_plan.members, heard, strict=True):
        if not member.face.signed("acceptance", signed_plan.digest.encode(), message["acceptance"]):
            raise Refused(
                f"{member.name} has not accepted the plan: its signature does not hold. No record was touched."
            )


def _joint_again(signed_plan: SignedPlan, heard: Sequence[dict[str, Any]], step: int) -> bool:
    if signed_plan.plan.mode != "joint":
        return False
    drawn = [m["pending"] is not None and m["pending"]["step"] == step and m["pending"]["joint"] for m in heard]
    if any(drawn) and not all(drawn):
        raise Refused(
            f"step {step + 1} was cut off when some members had drawn its joint noise and others had not: it counts as "
            "opened, and cannot be opened again within this plan. The run ends here; agree on a new plan for what is "
            "left of the budget."
        )
    return all(drawn)


def _opened(signed_plan: SignedPlan, member: int, proof: Any) -> int:
    """How many sums a member has opened, by everybody's signatures of the last one."""
    if proof is None:
        return 0
    faces = [one.face for one in signed_plan.members]
    fits = isinstance(proof, dict) and proof.keys() == {"step", "event", "sum", "signatures"}
    fits = fits and isinstance(proof["step"], int) and isinstance(proof["signatures"], list)
    if not fits or unsigned(proof, faces, signed_plan.digest):
        raise Refused(
            f"{signed_plan.members[member].name} claims a sum that not every member signed; nothing of it was taken."
        )
    return int(proof["step"]) + 1


def _take_signatures(record: Record, proof: Fact) -> None:
    """Everybody's signatures of the sum that this member has seen, and was cut off before it had them all."""
    seen = record.summary.seen_at(proof["step"])
    if seen is None or proof_of(seen, proof["signatures"]) != proof:
        raise Refused(
            f"this record holds another sum of step {proof['step'] + 1} than the one that this member signed: it was "
            "altered; restore the folder, or agree on a new plan."
        )
    record.append("opened", {"step": proof["step"], "signatures": proof["signatures"]})
