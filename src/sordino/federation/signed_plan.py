"""The file that all members accept: the plan, the public schema, and who the members are, under one hash.

What can be found out about the plan without a record is found out when the file is written and again when it is read:
that the method lives on noisy sums, that enough members are there, and that no sum overflows.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from sordino import outputs, wire
from sordino.federation.mpyc_engine import MpycAggregation
from sordino.federation.plan import FederationPlan
from sordino.identity import Face, Identity, common_name
from sordino.tabular.schema import Schema

_FORMAT = "sordino federation signed plan"
_VERSION = 2
PLAN = outputs.Kind("a federation's plan", rb'\{\s*"format": "sordino federation signed plan"')
_LONGEST = 1 << 24
"""Characters of a plan, most of them its schema's."""


@dataclass(frozen=True)
class Member:
    """An owner, or behind the owners a server of a committee."""

    name: str
    address: str
    face: Face


@dataclass(frozen=True)
class SignedPlan:
    """`identifiers` names the column by which the owners make sure that no record belongs to two of them, or is empty.
    Where persons are protected, it says whose a record is, and no person belongs to two.

    `signature` is that of the member `by`, who proposes the plan; it says who wrote the file, not who accepts it.
    """

    plan: FederationPlan
    schema: Schema
    members: tuple[Member, ...]
    identifiers: str = ""
    by: int = 0
    signature: str = ""

    def __post_init__(self) -> None:
        if self.plan.schema != self.schema.digest:
            raise ValueError("the plan was made for another schema than the one beside it.")
        if self.plan.problem.person is not None and not self.identifiers:
            raise ValueError(
                "the plan protects persons and names no column that says whose a record is: the owners need one, to "
                "put a person's records together and to see that nobody has records at two of them."
            )
        trust = self.plan.trust
        if len(self.members) != trust.members:
            raise ValueError(
                f"{len(self.members)} members are listed, and {self.plan.mode} noise of {trust.owners} owners needs "
                f"{trust.members}: the owners{', and three servers' if trust.members > trust.owners else ''}."
            )
        names = [member.name for member in self.members]
        if names[: trust.owners] != [owner.name for owner in self.plan.owners] or len(set(names)) < len(names):
            raise ValueError(
                f"the members are named {wire.shown(names)}: every one needs a name of its own, the owners first."
            )
        numbered = [name for name in names if re.search(r"\bmember \d", name)]
        if numbered:
            raise ValueError(
                f"a member is named {numbered[0]!r}, which would be taken for a number in the list where another is "
                "meant: choose another name."
            )
        for number, member in enumerate(self.members):
            if member.face.names != (common_name(number),):
                raise ValueError(
                    f"the certificate of {member.name} does not say that it is number {number + 1} in the list: list "
                    "the members in the order of their numbers, or make that identity again with the right --number."
                )
        prints = [member.face.fingerprint for member in self.members]
        if len(set(prints)) < len(prints):
            raise ValueError("two members have the same certificate: each needs a key of its own.")
        self.plan.require_room(MpycAggregation.limit)

    def number_of(self, face: Face) -> int:
        """Which member has this certificate."""
        for number, member in enumerate(self.members):
            if member.face.fingerprint == face.fingerprint:
                return number
        known = ", ".join(f"{member.name} ({member.face.fingerprint[:16]})" for member in self.members)
        raise ValueError(
            f"the certificate {face.fingerprint[:16]} is in no place of this plan; it lists {known}. Send your "
            "certificate.pem to whoever writes the plan."
        )

    def require_valid_certificates(self) -> None:
        for member in self.members:
            if not member.face.is_valid_at(datetime.now(UTC)):
                raise PermissionError(
                    f"the certificate of {member.name} is valid until {member.face.expires:%Y-%m-%d %H:%M} UTC, which "
                    "is not now: make a new identity, and agree on a plan that has it."
                )

    @property
    def body(self) -> dict[str, Any]:
        members = [{"name": m.name, "address": m.address, "certificate": m.face.pem} for m in self.members]
        return {
            "plan": json.loads(self.plan.to_json()),
            "planned": self.plan.digest,
            "schema": self.schema.to_toml(),
            "members": members,
            "identifiers": self.identifiers,
            "by": self.by,
        }

    @cached_property
    def digest(self) -> str:
        """The hash that everybody accepts."""
        return wire.digest(self.body)

    def signed_by(self, identity: Identity) -> SignedPlan:
        """The same, proposed by one of its members."""
        from dataclasses import replace

        mine = replace(self, by=self.number_of(identity.face), signature="")
        return replace(mine, signature=identity.sign("plan", mine.digest.encode()))

    def save(self, path: str | os.PathLike[str]) -> None:
        content = {"format": _FORMAT, "version": _VERSION, "body": self.body, "signature": self.signature}
        outputs.write(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode(), PLAN)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> SignedPlan:
        try:
            return SignedPlan.from_json(Path(path).read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not a federation's plan: it is not text.") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    @staticmethod
    def from_json(text: str) -> SignedPlan:
        """The signed plan, if its author signed it and this version of Sordino plans the same numbers."""
        try:
            content = wire.parse(text, _LONGEST)
        except ValueError as error:
            raise ValueError(f"this is not a federation's plan: {error}") from None
        if not isinstance(content, dict) or content.get("format") != _FORMAT or content.get("version") != _VERSION:
            raise ValueError(
                f"this is not a federation's plan of version {_VERSION}: its 'format' must be {_FORMAT!r}."
            )
        try:
            body = content["body"]
            signed_plan = SignedPlan(
                plan=FederationPlan.from_json(json.dumps(body["plan"], allow_nan=False)),
                schema=Schema.from_toml(body["schema"]),
                members=tuple(Member(m["name"], m["address"], Face(m["certificate"])) for m in body["members"]),
                identifiers=body["identifiers"],
                by=body["by"],
                signature=content["signature"],
            )
            author, planned = signed_plan.members[signed_plan.by], body["planned"]
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(f"this plan is incomplete: {wire.shown(error)} is missing or malformed.") from None
        if planned != signed_plan.plan.digest:
            raise ValueError(
                "this version of Sordino, or of its libraries, plans other numbers than the one that wrote the plan: "
                "let all members install the same versions."
            )
        if signed_plan.body != body or not author.face.signed(
            "plan", signed_plan.digest.encode(), signed_plan.signature
        ):
            raise ValueError(f"this plan was altered or damaged: it is not what {author.name} signed. Get it again.")
        return signed_plan
