"""Before a record is touched: does everybody follow the same plan, and can it be followed at all?"""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import blake2b

from sordino.federation.aggregation import Aggregation
from sordino.federation.identifiers import Identifiers, common_identifiers, distinct, of_persons
from sordino.federation.plan import FederationPlan

_COINS = 32


@dataclass(frozen=True, eq=False)
class Agreement:
    """A plan that every member has, the way they add up, and coins that all of them see."""

    plan: FederationPlan
    aggregation: Aggregation
    coins: bytes


def agree(plan: FederationPlan, aggregation: Aggregation, identifiers: Identifiers | None = None) -> Agreement:
    """Compare plans with all members, and identifiers where owners have them; a sentence says who does not fit.

    `identifiers` are this member's own, one for every record. Two owners with a common one are refused: their record
    would count twice, and be protected half as well. So would a record that one owner has twice, unless persons are
    protected, whose records have one identifier; then every owner must bring them.
    """
    trust = plan.trust
    if aggregation.members != trust.members:
        servers = "" if trust.members == trust.owners else f" and {trust.members - trust.owners} servers"
        raise ValueError(
            f"{aggregation.members} members are connected, but the plan is for {trust.owners} owners{servers}."
        )
    needed = trust.coalition(aggregation.holders)
    if len(aggregation.local) < aggregation.members and aggregation.tolerates < needed:
        raise ValueError(
            f"the secure sum hides its parts from {aggregation.tolerates} colluding members, and the plan asks for "
            f"{needed}: connect with a threshold of at least {needed}."
        )
    plan.require_room(aggregation.limit)
    told_apart = distinct if plan.problem.person is None else of_persons
    digest, mine = plan.digest.encode(), None if identifiers is None else told_apart(identifiers)
    own = digest + bytes([mine is not None])
    heard = aggregation.tell([own + os.urandom(_COINS) for _ in aggregation.local])
    others = [_name(plan, i) for i, message in enumerate(heard) if message[: len(digest)] != digest]
    if others:
        raise ValueError(
            f"{', '.join(others)} follow another plan: owners, bounds, schema, budget, method and versions must be the "
            "same for all; compare the plans' files. No record was touched."
        )
    comparing = [i for i in range(trust.owners) if heard[i][len(digest) :][:1] == b"\1"]
    silent = [_name(plan, i) for i in range(trust.owners) if i not in comparing]
    if plan.problem.person is not None and silent and len(aggregation.local) < aggregation.members:
        raise ValueError(
            f"{', '.join(silent)} bring no identifiers: a person whose records are at several owners would count at "
            "each of them, so the owners compare whose records they have. No record was touched."
        )
    if comparing:
        _require_own_records(plan, aggregation, mine, comparing)
    return Agreement(plan, aggregation, blake2b(b"".join(heard), digest_size=32, person=b"common coins").digest())


def _require_own_records(
    plan: FederationPlan, aggregation: Aggregation, mine: list[bytes] | None, comparing: list[int]
) -> None:
    """No two owners have the same record, or person. A pair learns how many they share, the others only whether."""
    counts = common_identifiers(aggregation, mine, comparing, [owner.records for owner in plan.owners])
    shared = {peer: count for peer, count in counts.items() if count}
    heard = aggregation.tell([bytes([bool(shared)])])
    pairs = [f"{_name(plan, peer)} ({count})" for peer, count in shared.items()]
    others = [_name(plan, i) for i, message in enumerate(heard) if message != b"\0"]
    unit = plan.problem.unit
    why = f"A person in both would be protected half as well; agree on who keeps which {unit}. No record was used."
    if pairs:
        raise ValueError(f"some {unit}s here belong to another owner as well: {', '.join(pairs)}. {why}")
    if others:
        raise ValueError(f"some {unit}s belong to two owners, {', '.join(others)}, who know how many. {why}")


def _name(plan: FederationPlan, member: int) -> str:
    m = len(plan.owners)
    return plan.owners[member].name if member < m else f"server {member - m + 1}"
