"""How far a member has come, read from its folder alone, also while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.federation.record import LOCK, Story, is_locked, journal_of, read
from sordino.federation.seat import Seat
from sordino.privacy.accountants import guarantee
from sordino.privacy.events import flatten


@dataclass(frozen=True)
class Status:
    """`epsilon` is what was opened so far costs at the plan's delta, with a step under way counted as opened."""

    name: str
    story: Story
    planned: int
    epsilon: float
    peers: dict[str, str]
    """Every other member's name, and the head of its record when it was met last; empty for never."""
    running: bool
    """Whether a process runs the party now."""

    @property
    def opened(self) -> int:
        return len(self.story.sums)

    @property
    def finished(self) -> bool:
        return self.story.finished is not None

    @property
    def words(self) -> str:
        if self.running:
            return "under way" if self.story.sessions else "waiting for the others"
        if self.story.finished is not None:
            others = self.story.finished["differs"]
            return f"finished, with other weights than {', '.join(others)}" if others else "finished"
        if self.story.stopped:
            return f"stopped: {self.story.stopped}"
        return "cut off; run goes on from here" if self.story.sessions else "not begun"


def status_of(seat: Seat) -> Status:
    charter, plan = seat.charter, seat.charter.plan
    story = read(journal_of(seat.identity.folder, charter.digest).glance(), seat.identity.face, charter.digest)
    event = story.event
    epsilon = 0.0 if event is None else guarantee(event, plan.budget.delta, plan.relation).epsilon
    peers = {
        member.name: story.met.get(number, "") for number, member in enumerate(charter.members) if number != seat.number
    }
    planned = sum(flatten(plan.planned.event)[0].values())
    return Status(seat.name, story, planned, epsilon, peers, is_locked(seat.identity.folder / LOCK))
