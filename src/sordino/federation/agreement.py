"""Before a record is touched: does everybody follow the same plan, and can it be followed at all?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from sordino.federation.aggregation import Aggregation
from sordino.federation.identifiers import Identifiers, common_identifiers
from sordino.federation.plan import FederationPlan


@dataclass(frozen=True, eq=False)
class Agreement:
    """A plan that every member has, the way they add up, and coins that all of them see."""

    plan: FederationPlan
    aggregation: Aggregation
    coins: bytes


def agree(
    plan: FederationPlan, aggregation: Aggregation, identifiers: Sequence[Identifiers | None] | None = None
) -> Agreement:
    """Compare plans with all members, and identifiers where owners have them; a sentence says who does not fit.

    `identifiers` has an entry for each local member. Two owners with a common one are refused: their record would count
    twice, and be protected half as well.
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
    digest = plan.digest.encode()
    heard = aggregation.tell([digest + os.urandom(32) for _ in aggregation.local])
    others = [_name(plan, i) for i, message in enumerate(heard) if message[:-32] != digest]
    if others:
        raise ValueError(
            f"{', '.join(others)} follow another plan: owners, bounds, schema, budget, method and versions must be the "
            "same for all; compare the plans' files. No record was touched."
        )
    given = [None] * len(aggregation.local) if identifiers is None else list(identifiers)
    shared = common_identifiers(aggregation, given, [owner.records for owner in plan.owners])
    pairs = [f"{_name(plan, i)} and {_name(plan, j)} ({count})" for (i, j), count in shared.items() if count]
    if pairs:
        raise ValueError(
            f"some records belong to two owners: {', '.join(pairs)}. A person in both would be protected half as well; "
            "agree on who keeps which record. No record was touched."
        )
    return Agreement(plan, aggregation, blake2b(b"".join(heard), digest_size=32, person=b"common coins").digest())


def _name(plan: FederationPlan, member: int) -> str:
    m = len(plan.owners)
    return plan.owners[member].name if member < m else f"server {member - m + 1}"
