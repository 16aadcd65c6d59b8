"""A member's folder: who it is, and which plan it has accepted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from sordino import outputs
from sordino.federation import pending, record
from sordino.federation.charter import Charter
from sordino.identity import CERTIFICATE, KEY, Identity

PLAN, ACCEPTANCE, AUTHORITIES = "plan.json", "acceptance.json", "members.pem"
FILES = (PLAN, ACCEPTANCE, AUTHORITIES, KEY, CERTIFICATE, record.FILE, record.LOCK, pending.FILE)
"""What a member's folder is for, and no result may take the place of."""
_ACCEPTED = outputs.Kind("an accepted plan", rb'\{\s*"format": "sordino federation acceptance"')


@dataclass(frozen=True)
class Seat:
    """A member's folder with a plan that it has accepted."""

    identity: Identity
    charter: Charter
    acceptance: str

    @property
    def number(self) -> int:
        return self.charter.number_of(self.identity.face)

    @property
    def name(self) -> str:
        return self.charter.members[self.number].name

    @property
    def is_owner(self) -> bool:
        return self.number < len(self.charter.plan.owners)

    @staticmethod
    def load(folder: Path) -> Seat:
        identity = Identity.load(folder)
        if not (folder / PLAN).is_file() or not (folder / ACCEPTANCE).is_file():
            raise FileNotFoundError(f"{folder} holds no accepted plan: sordino federation join shows and accepts one.")
        charter = Charter.load(folder / PLAN)
        try:
            acceptance = json.loads((folder / ACCEPTANCE).read_text())["signature"]
        except (ValueError, KeyError, TypeError, RecursionError):
            acceptance = ""
        if not identity.face.signed("acceptance", charter.digest.encode(), str(acceptance)):
            raise ValueError(
                f"{folder / PLAN} is not the plan that was accepted here: join the right one again, with its hash."
            )
        return Seat(identity, charter, acceptance)


def accept(charter: Charter, folder: Path) -> Seat:
    """Sign the plan's hash with this member's key, and keep both. A plan that was begun cannot be changed."""
    identity = Identity.load(folder)
    charter.number_of(identity.face)
    charter.require_valid_certificates()
    if (folder / PLAN).is_file() and (folder / record.FILE).exists():
        before = Charter.load(folder / PLAN)
        if before.digest != charter.digest:
            raise FileExistsError(
                f"{folder} holds the record of another plan ({before.digest[:16]}): take a new folder with a new "
                "identity, and mind that what both plans open adds up."
            )
    signature = identity.sign("acceptance", charter.digest.encode())
    charter.save(folder / PLAN)
    content = {"format": "sordino federation acceptance", "plan": charter.digest, "signature": signature}
    outputs.write(folder / ACCEPTANCE, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode(), _ACCEPTED)
    return Seat(identity, charter, signature)
