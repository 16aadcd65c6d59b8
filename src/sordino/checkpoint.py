r"""Stop and go on: a run's state between its steps, kept on the disk and shown to callbacks.

    train(problem, budget, method, oracle, recorder=RunRecorder(Checkpoint("run")))

A run that is killed loses at most the steps since its last checkpoint. What nobody saw of them was never released and
costs nothing; the steps that a callback has looked at, or that were written to the disk, are paid for although they are
lost. The run never uses more than was planned (`privacy.stepwise`): the steps it has to repeat are missing at its end,
so the event in the certificate, and what a ledger reserved, cover everything that was ever seen.

Only methods that are accounted for step by step can be kept or watched. Correlated noise is not: a run that went on
without what it had added would release the same steps with other noise, and that is a secret which belongs on no disk
(`privacy.correlated_noise`). A folder must not be copied and resumed twice,
nor put back to an earlier copy: both forget what was shown meanwhile.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sordino import wire
from sordino.budget import Budget
from sordino.checkpoint_folder import Held, LogSummary, held, read_summary
from sordino.ledger.ledger import new_reference
from sordino.methods.protocol import AnyMethod, AnyProblem, Plan
from sordino.privacy.accountants import guarantee
from sordino.privacy.randomness import Randomness
from sordino.privacy.stepwise import Stepwise, Used, as_event
from sordino.progress import recorded_by
from sordino.sentences import STEPS_LOST, WENT_ON, times

Resume = bool | Literal["auto"]


@dataclass(frozen=True)
class Checkpoint:
    """Where a run is kept, and how often.

    `resume` is False for a run that begins, True for one that goes on, and "auto" for whichever there is to do.
    `every` counts steps; None keeps about a hundred states in a run.
    """

    folder: Path
    every: int | None = None
    resume: Resume = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))
        if self.every is not None and not self.every >= 1:
            raise ValueError(f"every is {self.every}: a checkpoint is written every so many steps, at least one.")
        if self.resume not in (True, False, "auto"):
            raise ValueError(f"resume is {self.resume!r}: it must be True, False or 'auto'.")

    @property
    def resumes(self) -> int:
        """How often the run in the folder was begun and gone on with before."""
        summary = read_summary(self.folder)
        return 0 if summary.facts is None else summary.resumes + 1


class RecordedMoment:
    """A run between two of its steps. Looking at the weights releases them, and the run is charged for it."""

    def __init__(self, recorder: RunRecorder, state: Any, step: int) -> None:
        self._recorder, self._state, self.step = recorder, state, step

    @property
    def planned(self) -> int:
        return self._recorder.last

    @property
    def epsilon(self) -> float:
        """What the steps so far cost at the budget's delta if all of them were seen: from public numbers alone."""
        return self._recorder.spent(self.step)

    def weights(self) -> NDArray[np.float64]:
        """A copy of the present weights, which are released from now on."""
        return self._recorder.show(self._state, self.step)


MomentCallback = Callable[[RecordedMoment], None]


class RunRecorder:
    """Keeps one run. Make a new one for every call of `train`."""

    def __init__(self, checkpoint: Checkpoint | None = None, callbacks: Sequence[MomentCallback] = ()) -> None:
        self.checkpoint, self.callbacks = checkpoint, tuple(callbacks)
        self.last = 0
        """The step at which the run will end."""
        self.reference = None if checkpoint is None else new_reference()
        """The name under which a ledger sets the run's budget aside, the same for every part of the run. A run that is
        only watched has none: nobody could tell afterwards what was seen of it."""
        self._held: Held | None = None
        self._summary = LogSummary()
        self._facts: dict[str, Any] = {}
        self._state: Any = None
        self._first = self._now = self._kept = 0

    @contextmanager
    def recording(
        self, problem: AnyProblem, budget: Budget, method: AnyMethod, plan: Plan, randomness: Randomness
    ) -> Iterator[None]:
        """The block in which `method` runs. What does not fit the folder is refused before anything else happens."""
        if self._facts:
            raise ValueError("this recorder has kept a run already: make a new one for every run.")
        self._stepwise = _stepwise(method, plan)
        self._budget, self.last, self._seeded = budget, self._stepwise.steps, randomness.is_seeded
        self._facts = facts(problem, budget, method, plan)
        if self.checkpoint is None:
            with recorded_by(self):
                yield
            return
        # once before the folder is created, and once when nobody else can change it
        _require_resumable(self.checkpoint, read_summary(self.checkpoint.folder))
        with held(self.checkpoint.folder) as self._held:
            self._summary = self._held.summary
            _require_resumable(self.checkpoint, self._summary)
            if self._summary.facts is not None:
                _require_same(self.checkpoint.folder, self._summary.facts, self._facts)
            self._note_reference()
            with recorded_by(self):
                yield
            # what a run returns is seen: a run that stopped at a round it drew is kept as it is then
            if self._kept < self._now:
                self._write(self._state, self._now)

    @property
    def seeded(self) -> bool:
        """Whether any part of the run drew known noise."""
        return self._summary.seeded

    @property
    def notes(self) -> tuple[str, ...]:
        """What a certificate should say about the course of the run."""
        summary = self._summary
        if not summary.resumes:
            return ()
        again = sum(seen - step for step, seen in summary.lost)
        if again:
            lost = {"lost": again, "steps": self._stepwise.steps, "last": self.last}
            return (STEPS_LOST(times=times(summary.resumes), **lost),)
        return (WENT_ON(times=times(summary.resumes)),)

    def restore(self, state: Any, planned: int) -> range:
        kept = self._summary.kept
        if self._held is not None and kept is not None:
            self._held.restore(kept, state)
            self._first = self._kept = kept.step
        self._note_begin()
        self.last = min(planned, self._stepwise.reach(self._used(self._first), self._first))
        if self.last < planned:
            warnings.warn(
                f"the run ends at step {self.last} of {planned}: steps that were seen before it was interrupted had to "
                "be repeated, and they count.",
                RuntimeWarning,
                stacklevel=2,
            )
        return range(self._first, self.last)

    def keep(self, state: Any, done: int, planned: int) -> None:
        self._now, self._state = done, state
        every = self._every(planned)
        if self._held is not None and (done == self.last or done - self._kept >= every):
            self._write(state, done)
        for callback in self.callbacks:
            callback(RecordedMoment(self, state, done))

    def show(self, state: Any, step: int) -> NDArray[np.float64]:
        if step != self._now:
            raise ValueError(f"step {step} has passed: look at the weights while the callback is called.")
        if self._held is not None:
            if self._kept == 0:
                # the first time: a run that had to begin anew could not take its first step again
                self._write(state, step)
            elif self._kept < step:
                self._held.note({"kind": "shown", "step": step})
        return np.array(state.w)

    def spent(self, step: int) -> float:
        event = as_event(self._used(step))
        return 0.0 if event is None else guarantee(event, self._budget.delta, self._budget.relation).epsilon

    def _used(self, step: int) -> Used:
        used = self._stepwise.between(0, step)
        for first, last in self._summary.lost:
            used += self._stepwise.between(first, last)
        return used

    def _write(self, state: Any, step: int) -> None:
        assert self._held is not None
        self._held.keep(state, step)
        self._kept = step

    def _every(self, planned: int) -> int:
        asked = None if self.checkpoint is None else self.checkpoint.every
        return asked or max(1, planned // 100)

    def _note_begin(self) -> None:
        if self._held is None:
            return
        if self._summary.facts is None:
            self._held.note({"kind": "begun", "facts": self._facts, "seeded": self._seeded})
        else:
            line = {"kind": "resumed", "step": self._first, "seen": self._summary.seen, "seeded": self._seeded}
            self._held.note(line)
        self._summary = self._held.summary

    def _note_reference(self) -> None:
        """Before anything is reserved, so that a run cut off between the two finds its reservation again."""
        assert self._held is not None
        mark = wire.digest(self._facts)
        if self._summary.reference is not None and self._summary.reference[1] == mark:
            self.reference = self._summary.reference[0]
        else:
            self._held.note({"kind": "reserving", "reference": self.reference, "facts": mark})


def facts(problem: AnyProblem, budget: Budget, method: AnyMethod, plan: Plan) -> dict[str, Any]:
    """What a run must have in common with the one it goes on with. All of it is public."""
    named = {"problem": problem, "budget": budget, "method": method, "plan": plan}
    return {name: wire.to_plain(value) for name, value in named.items()}


def _stepwise(method: AnyMethod, plan: Plan) -> Stepwise:
    if not plan.step_events:
        raise ValueError(
            f"{type(method).__name__} cannot be kept or watched between its steps: its guarantee is about what it "
            "releases at the end, and would not cover what is shown before, or its noise remembers what it added, a "
            "secret that belongs on no disk. Use a method that is accounted for step by step, such as NoisySGD, DPSGD "
            "or DPAdam with independent noise on drawn batches, or leave the checkpoint and the callbacks out."
        )
    return Stepwise(plan.step_events)


def _require_resumable(checkpoint: Checkpoint, summary: LogSummary) -> None:
    if checkpoint.resume is True and summary.facts is None:
        raise FileNotFoundError(
            f"there is no checkpoint in {checkpoint.folder} to go on from: name its folder, or begin a run with "
            "resume=False."
        )
    if checkpoint.resume is False and summary.facts is not None:
        raise FileExistsError(
            f"{checkpoint.folder} holds a run already: resume=True goes on with it; for a new run name another folder, "
            "and mind that what both show adds up."
        )


def _require_same(folder: Path, kept: Any, given: dict[str, Any]) -> None:
    before, now = kept["problem"], given["problem"]
    if before.get("records") != now.get("records"):
        different = f"{before.get('records')} records, and there are {now.get('records')} now"
    elif before != now:
        different = "another model or problem"
    elif kept["budget"] != given["budget"]:
        different = "another budget"
    elif kept["method"] != given["method"]:
        different = "another method or other settings"
    elif kept["plan"] != given["plan"]:
        different = "a plan with other numbers, perhaps by another version of Sordino or of its accountants"
    else:
        return
    raise ValueError(
        f"the checkpoint in {folder} belongs to a run with {different}: go on with what it was begun with, or begin a "
        "run in another folder."
    )
