"""The start of a session: the same plan, accepted by all, and one story of what was opened before.

Steps are taken in lock step, so the members' records differ by at most the last sum, and that only in everybody's
signatures of it: a member that signed a sum had it in its own record before. So nobody takes a sum from anybody. Who
was cut off before it had all signatures takes these from one who has them; nothing is opened a second time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.federation.aggregation import Aggregation
from sordino.federation.charter import Charter
from sordino.federation.mesh import Refused
from sordino.federation.pending import LOST, Pending
from sordino.federation.record import Fact, Record, proof_of, unsigned


@dataclass(frozen=True)
class Meeting:
    """What the members found out about each other."""

    coins: str
    """The coins of an earlier session; empty where there was none."""
    seeded: bool
    """Whether any member draws known noise."""
    again: bool
    """Whether all members still have the joint noise of the step that was cut off."""


def meet(
    charter: Charter, me: int, aggregation: Aggregation, record: Record, pending: Pending, acceptance: str, seeded: bool
) -> Meeting:
    """Two rounds of messages, after which all records hold the same sums; a sentence if they cannot."""
    try:
        return _meet(charter, me, aggregation, record, pending, acceptance, seeded)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise Refused(f"a member sent a message that does not hold what it should ({error!r}).") from None


def _meet(
    charter: Charter, me: int, aggregation: Aggregation, record: Record, pending: Pending, acceptance: str, seeded: bool
) -> Meeting:
    story, kept = record.story, pending.kept
    heard = talk(
        aggregation,
        charter,
        {
            "charter": charter.digest,
            "acceptance": acceptance,
            "proof": story.proof,
            "coins": story.coins,
            "seeded": seeded or story.seeded,
            "met": {str(member): head for member, head in story.met.items()},
            "pending": None if kept is None else {"step": kept.step, "joint": kept.shares is not None},
        },
    )
    _require_accepted(charter, heard)
    coins = {message["coins"] for message in heard} - {""}
    if len(coins) > 1:
        raise Refused("the members' records belong to different runs: every member needs the folder of the same run.")
    opened = [_opened(charter, member, message["proof"]) for member, message in enumerate(heard)]
    low, high = min(opened), max(opened)

    complaint = ""
    # lock step: whoever lags by more than one sum, or has not seen what it signed, has lost what it once had
    behind = len(story.sums) < high - (story.seen_at(high - 1) is not None)
    if behind or not all(record.extends(m["met"].get(str(me), "")) for m in heard):
        complaint = (
            "its record is missing or was put back to an earlier state, so what it added to the last sum is not known; "
            "restore the folder, or agree on a new plan"
        )
    elif len(story.sums) == high and pending.lacks(story):
        complaint = LOST
    common = hashlib.sha256(b"".join(np.asarray(total, dtype="<i8").tobytes() for total in story.sums[:low]))
    answers = talk(aggregation, charter, {"complaint": complaint, "common": common.hexdigest()})
    require_no_complaint(charter, answers)
    if len({answer["common"] for answer in answers}) > 1:
        raise Refused("the members' records contradict each other on sums that were opened: compare them by hand.")
    again = _joint_again(charter, heard, high)
    if len(story.sums) < high:
        _take_signatures(record, heard[opened.index(high)]["proof"])
    return Meeting(next(iter(coins), ""), any(m["seeded"] for m in heard), again)


def talk(aggregation: Aggregation, charter: Charter, message: dict[str, Any]) -> list[dict[str, Any]]:
    """Everybody's message; what is not one is a sentence with its sender's name."""
    heard = aggregation.tell([json.dumps(message, allow_nan=False).encode()])
    found = []
    for content, member in zip(heard, charter.members, strict=True):
        try:
            plain = json.loads(content)
        except (ValueError, RecursionError):
            plain = None
        if not isinstance(plain, dict) or plain.keys() != message.keys():
            raise Refused(f"{member.name} sent a message that this version does not know: install the same versions.")
        found.append(plain)
    return found


def require_ready(charter: Charter, aggregation: Aggregation, failure: Exception | None, what: str) -> None:
    """Everybody could do its part alone. Who could not reads why; the others only that it could not."""
    complaint = "" if failure is None else f"its {what}; it knows why"
    answers = talk(aggregation, charter, {"complaint": complaint})
    if failure is not None:
        raise failure
    require_no_complaint(charter, answers)


def note_heads(charter: Charter, me: int, aggregation: Aggregation, record: Record, seeded: bool) -> None:
    """The last word before the first step: everybody notes where the others' records end."""
    answers = talk(aggregation, charter, {"head": record.head})
    heads = {str(member): str(answer["head"]) for member, answer in enumerate(answers) if member != me}
    record.append("met", {"heads": heads, "seeded": seeded})


def require_no_complaint(charter: Charter, messages: Sequence[dict[str, Any]]) -> None:
    for message, member in zip(messages, charter.members, strict=True):
        if message["complaint"]:
            raise Refused(f"{member.name} stops: {message['complaint']}.")


def _require_accepted(charter: Charter, heard: Sequence[dict[str, Any]]) -> None:
    others = [m.name for m, message in zip(charter.members, heard, strict=True) if message["charter"] != charter.digest]
    if others:
        raise Refused(
            f"{', '.join(others)} accepted another plan than the one with the hash {charter.digest[:16]} here: owners, "
            "bounds, schema, budget, method, addresses and certificates must be the same for all; compare the plans' "
            "files, and join again. No record was touched."
        )
    for member, message in zip(charter.members, heard, strict=True):
        if not member.face.signed("acceptance", charter.digest.encode(), str(message["acceptance"])):
            raise Refused(
                f"{member.name} has not accepted the plan: its signature does not hold. No record was touched."
            )


def _joint_again(charter: Charter, heard: Sequence[dict[str, Any]], step: int) -> bool:
    if charter.plan.mode != "joint":
        return False
    drawn = [m["pending"] is not None and m["pending"]["step"] == step and m["pending"]["joint"] for m in heard]
    if any(drawn) and not all(drawn):
        raise Refused(
            f"step {step + 1} was cut off when some members had drawn its joint noise and others had not: it counts as "
            "opened, and cannot be opened again within this plan. The run ends here; agree on a new plan for what is "
            "left of the budget."
        )
    return all(drawn)


def _opened(charter: Charter, member: int, proof: Any) -> int:
    """How many sums a member has opened, by everybody's signatures of the last one."""
    if proof is None:
        return 0
    faces = [one.face for one in charter.members]
    fits = isinstance(proof, dict) and proof.keys() == {"step", "event", "sum", "signatures"}
    if not fits or not isinstance(proof["step"], int) or unsigned(proof, faces, charter.digest):
        raise Refused(
            f"{charter.members[member].name} claims a sum that not every member signed; nothing of it was taken."
        )
    return int(proof["step"]) + 1


def _take_signatures(record: Record, proof: Fact) -> None:
    """Everybody's signatures of the sum that this member has seen, and was cut off before it had them all."""
    seen = record.story.seen_at(proof["step"])
    if seen is None or proof_of(seen, proof["signatures"]) != proof:
        raise Refused(
            f"this record holds another sum of step {proof['step'] + 1} than the one that this member signed: it was "
            "altered; restore the folder, or agree on a new plan."
        )
    record.append("opened", {"step": proof["step"], "signatures": proof["signatures"]})
