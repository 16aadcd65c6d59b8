"""The start of a session: the same plan, accepted by all, and one story of what was opened before.

Steps are taken in lock step, so the members' records differ by at most the last sum. Who missed it takes it from the
signed line of one who has it; nothing is opened a second time.
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
from sordino.federation.pending import Pending
from sordino.federation.record import Record, require_signed, unpack


@dataclass(frozen=True)
class Meeting:
    """What the members found out about each other."""

    coins: str
    """The coins of an earlier session; empty where there was none."""
    seeded: bool
    """Whether any member draws known noise."""
    again: bool
    """Whether all members still have the joint noise of the step that was cut off."""


class Refused(ValueError):
    """A member does not fit the others; all of them say so."""


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
            "opened": len(story.sums),
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
    low, high = min(m["opened"] for m in heard), max(m["opened"] for m in heard)
    again = _joint_again(charter, heard, high)

    complaint = ""
    # lock step: whoever lags by more than one sum has lost what it once had
    if len(story.sums) < high - 1 or not all(record.extends(m["met"].get(str(me), "")) for m in heard):
        complaint = (
            "its record is missing or was put back to an earlier state, so what it added to the last sum is not known; "
            "restore the folder, or agree on a new plan"
        )
    common = hashlib.sha256(b"".join(np.asarray(total, dtype="<i8").tobytes() for total in story.sums[:low]))
    answers = talk(
        aggregation, charter, {"complaint": complaint, "common": common.hexdigest(), "lines": story.lines[low:]}
    )
    require_no_complaint(charter, answers)
    if len({answer["common"] for answer in answers}) > 1:
        raise Refused("the members' records contradict each other on sums that were opened: compare them by hand.")
    _learn(charter, record, answers, low, high)
    return Meeting(next(iter(coins), ""), any(m["seeded"] for m in heard), again)


def talk(aggregation: Aggregation, charter: Charter, message: dict[str, Any]) -> list[dict[str, Any]]:
    """Everybody's message; what is not one is a sentence with its sender's name."""
    heard = aggregation.tell([json.dumps(message).encode()])
    found = []
    for content, member in zip(heard, charter.members, strict=True):
        try:
            plain = json.loads(content)
        except ValueError:
            plain = None
        if not isinstance(plain, dict) or plain.keys() != message.keys():
            raise Refused(f"{member.name} sent a message that this version does not know: install the same versions.")
        found.append(plain)
    return found


def be_ready(charter: Charter, me: int, aggregation: Aggregation, record: Record, complaint: str, seeded: bool) -> None:
    """The last word before the first step: everybody has opened its records, and notes where the others' ends."""
    answers = talk(aggregation, charter, {"complaint": complaint, "head": record.head})
    if complaint:
        return
    require_no_complaint(charter, answers)
    heads = {str(member): answer["head"] for member, answer in enumerate(answers) if member != me}
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


def _learn(charter: Charter, record: Record, answers: Sequence[dict[str, Any]], low: int, high: int) -> None:
    """Every sum that some member has and this one does not, from the lines their owners signed."""
    for step in range(low, high):
        lines = {i: a["lines"][step - low] for i, a in enumerate(answers) if len(a["lines"]) > step - low}
        sums = set()
        for member, line in lines.items():
            name = charter.members[member].name
            require_signed(line, charter.members[member].face, charter.digest, f"what {name} sent of its record")
            if line["fact"].get("step") != step:
                raise Refused(f"{name} sent another step of its record than it was asked for.")
            sums.add(unpack(line["fact"]["sum"]).tobytes())
        if len(sums) != 1:
            raise Refused(f"the members' records contradict each other on step {step + 1}: compare them by hand.")
        if step == len(record.story.sums):
            member, line = next(iter(lines.items()))
            fact = line["fact"]
            learnt = {"step": step, "event": fact["event"], "sum": fact["sum"], "from": member, "line": line}
            record.append("learnt", learnt)
