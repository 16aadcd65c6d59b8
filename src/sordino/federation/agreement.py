"""Before a record is touched: does everybody follow the same plan, and can it be followed at all?"""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import blake2b

from sordino.federation.aggregation import Aggregation
from sordino.federation.plan import FederationPlan


@dataclass(frozen=True, eq=False)
class Agreement:
    """A plan that every member has, the way they add up, and coins that all of them see."""

    plan: FederationPlan
    aggregation: Aggregation
    coins: bytes


def agree(plan: FederationPlan, aggregation: Aggregation) -> Agreement:
    """Compare plans with all members; a sentence names those who have another one."""
    trust = plan.trust
    if aggregation.members != trust.members:
        servers = "" if trust.members == trust.owners else f" and {trust.members - trust.owners} servers"
        raise ValueError(
            f"{aggregation.members} members are connected, but the plan is for {trust.owners} owners{servers}."
        )
    if aggregation.tolerates < trust.colluders and len(aggregation.local) < aggregation.members:
        raise ValueError(
            f"the secure sum hides its parts from {aggregation.tolerates} colluding members, and the plan from "
            f"{trust.colluders}: connect with a threshold of at least {trust.colluders}."
        )
    plan.require_room(aggregation.limit)
    digest = plan.digest.encode()
    heard = aggregation.tell(digest + os.urandom(32))
    others = [_name(plan, i) for i, message in enumerate(heard) if message[:-32] != digest]
    if others:
        raise ValueError(
            f"{', '.join(others)} follow another plan: owners, bounds, schema, budget, method and versions must be the "
            "same for all; compare the plans' files. No record was touched."
        )
    return Agreement(plan, aggregation, blake2b(b"".join(heard), digest_size=32, person=b"common coins").digest())


def _name(plan: FederationPlan, member: int) -> str:
    m = len(plan.owners)
    return plan.owners[member].name if member < m else f"server {member - m + 1}"
