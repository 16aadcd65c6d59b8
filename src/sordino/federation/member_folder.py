"""A member's folder: who it is, and which plan it has accepted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from sordino import outputs
from sordino.federation import record, unopened
from sordino.federation.signed_plan import SignedPlan
from sordino.identity import CERTIFICATE, KEY, Identity

PLAN, ACCEPTANCE, AUTHORITIES = "plan.json", "acceptance.json", "members.pem"
FILES = (PLAN, ACCEPTANCE, AUTHORITIES, KEY, CERTIFICATE, record.FILE, record.LOCK, unopened.FILE)
"""What a member's folder is for, and no result may take the place of."""
_ACCEPTED = outputs.Kind("an accepted plan", rb'\{\s*"format": "sordino federation acceptance"')


@dataclass(frozen=True)
class MemberFolder:
    """A member's folder with a plan that it has accepted."""

    identity: Identity
    signed_plan: SignedPlan
    acceptance: str

    @property
    def number(self) -> int:
        return self.signed_plan.number_of(self.identity.face)

    @property
    def name(self) -> str:
        return self.signed_plan.members[self.number].name

    @property
    def is_owner(self) -> bool:
        return self.number < len(self.signed_plan.plan.owners)

    @staticmethod
    def load(folder: Path) -> MemberFolder:
        identity = Identity.load(folder)
        if not (folder / PLAN).is_file() or not (folder / ACCEPTANCE).is_file():
            raise FileNotFoundError(f"{folder} holds no accepted plan: sordino federation join shows and accepts one.")
        signed_plan = SignedPlan.load(folder / PLAN)
        try:
            acceptance = json.loads((folder / ACCEPTANCE).read_text())["signature"]
        except (ValueError, KeyError, TypeError, RecursionError):
            acceptance = ""
        if not identity.face.signed("acceptance", signed_plan.digest.encode(), str(acceptance)):
            raise ValueError(
                f"{folder / PLAN} is not the plan that was accepted here: join the right one again, with its hash."
            )
        return MemberFolder(identity, signed_plan, acceptance)


def accept(signed_plan: SignedPlan, folder: Path) -> MemberFolder:
    """Sign the plan's hash with this member's key, and keep both. A plan that was begun cannot be changed."""
    identity = Identity.load(folder)
    signed_plan.number_of(identity.face)
    signed_plan.require_valid_certificates()
    if (folder / PLAN).is_file() and (folder / record.FILE).exists():
        before = SignedPlan.load(folder / PLAN)
        if before.digest != signed_plan.digest:
            raise FileExistsError(
                f"{folder} holds the record of another plan ({before.digest[:16]}): take a new folder with a new "
                "identity, and mind that what both plans open adds up."
            )
    signature = identity.sign("acceptance", signed_plan.digest.encode())
    signed_plan.save(folder / PLAN)
    content = {"format": "sordino federation acceptance", "plan": signed_plan.digest, "signature": signature}
    outputs.write(folder / ACCEPTANCE, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode(), _ACCEPTED)
    return MemberFolder(identity, signed_plan, signature)
