"""How far a member has come, read from its folder alone, also while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.federation.member_folder import MemberFolder
from sordino.federation.record import LOCK, RecordSummary, is_locked, journal_of, read_record
from sordino.federation.unopened import UnopenedContribution
from sordino.privacy.accountants import guarantee


@dataclass(frozen=True)
class Status:
    """`epsilon` is what was opened so far costs at the plan's delta, with a step under way counted as opened."""

    name: str
    summary: RecordSummary
    planned: int
    epsilon: float
    peers: dict[str, str]
    """Every other member's name, and the head of its record when it was met last; empty for never."""
    running: bool
    """Whether a process runs the party now."""
    goes_on: bool = True
    """Whether what was begun can be taken up again."""

    @property
    def opened(self) -> int:
        return len(self.summary.sums)

    @property
    def finished(self) -> bool:
        return self.summary.finished is not None

    @property
    def words(self) -> str:
        if self.running:
            return "under way" if self.summary.sessions else "waiting for the others"
        if self.summary.finished is not None:
            others = self.summary.finished["differs"]
            return f"finished, with other weights than {', '.join(others)}" if others else "finished"
        if self.summary.stopped:
            return f"stopped: {self.summary.stopped}"
        if not self.summary.sessions:
            return "not begun"
        return "cut off; run goes on from here" if self.goes_on else "cut off; agree on another plan"


def status_of(member_folder: MemberFolder) -> Status:
    signed_plan, plan = member_folder.signed_plan, member_folder.signed_plan.plan
    summary = read_record(
        journal_of(member_folder.identity.folder, signed_plan.digest).glance(),
        member_folder.identity.face,
        signed_plan.digest,
    )
    event = summary.event
    epsilon = 0.0 if event is None else guarantee(event, plan.budget.delta, plan.relation).epsilon
    peers = {
        member.name: summary.met.get(number, "")
        for number, member in enumerate(signed_plan.members)
        if number != member_folder.number
    }
    planned = sum(count for _, _, count in plan.planned.sums)
    folder = member_folder.identity.folder
    goes_on = plan.goes_on or not (summary.events or UnopenedContribution(folder).kept)
    return Status(member_folder.name, summary, planned, epsilon, peers, is_locked(folder / LOCK), goes_on)
