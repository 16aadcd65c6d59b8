"""A run that can be cut off at any instant: sums are opened once, recorded, and read from the record ever after.

A method is a function of the sums it was given. To go on, it simply runs again: the sums of the record answer its first
questions, without records, noise or messages, and the first question that the record does not know is the next step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from sordino.arrays import Array, Whole
from sordino.federation.aggregation import Witnessed
from sordino.federation.agreement import Agreement
from sordino.federation.joint import JointSampler
from sordino.federation.mesh import Refused, Traffic
from sordino.federation.party import RecordHolder, Server, SumQuery, query_batch
from sordino.federation.record import Fact, Record, pack_sum, proof_of, unsigned
from sordino.federation.secure_oracle import SecureOracle
from sordino.federation.signed_plan import SignedPlan
from sordino.federation.unopened import LOST, Contribution, KeptSampler, UnopenedContribution
from sordino.oracle.allowed import allow
from sordino.oracle.query import CountedGradient, StepQuery
from sordino.oracle.sampling import Batch
from sordino.privacy.events import Event, to_json
from sordino.privacy.noise import Noise
from sordino.privacy.randomness import Randomness
from sordino.release import KeptAnswers


class RecordedSum:
    """A secure sum whose every opening is announced and kept in the record."""

    def __init__(
        self,
        inner: Witnessed,
        signed_plan: SignedPlan,
        record: Record,
        unopened: UnopenedContribution,
        again: bool = False,
    ) -> None:
        """`again` says that all members still have the joint noise of the step that was cut off."""
        self._inner, self._signed_plan, self._record, self._unopened = inner, signed_plan, record, unopened
        self._again = again
        self._step = 0
        self.event: Event | None = None
        """What the next opening is, for the record."""

    @property
    def members(self) -> int:
        return self._inner.members

    @property
    def local(self) -> tuple[int, ...]:
        return self._inner.local

    @property
    def limit(self) -> int:
        return self._inner.limit

    @property
    def holders(self) -> tuple[int, ...]:
        return self._inner.holders

    @property
    def tolerates(self) -> int:
        return self._inner.tolerates

    @property
    def traffic(self) -> Traffic:
        return self._inner.traffic

    def tell(self, messages: Sequence[bytes], largest: int = 1 << 20) -> tuple[bytes, ...]:
        return self._inner.tell(messages, largest)

    def pass_on(self, outgoing: Mapping[int, bytes], senders: Sequence[int], largest: int) -> dict[int, bytes]:
        return self._inner.pass_on(outgoing, senders, largest)

    @property
    def begun(self) -> bool:
        """Whether an earlier session went as far as to make a contribution to a sum."""
        return bool(self._record.summary.events) or self._unopened.kept is not None

    @property
    def knows(self) -> bool:
        """Whether the next sum is in the record."""
        return self._step < len(self._record.summary.sums)

    def recall(self) -> Whole:
        """The next sum of the record, if it is what the plan asks for here."""
        summary = self._record.summary
        total, event = summary.sums[self._step], summary.events[self._step]
        if event != self.event:
            raise ValueError(
                f"step {self._step + 1} of the record is another release than the plan's: it was opened under another "
                "plan, or by another version of Sordino."
            )
        self._step += 1
        return total

    def open_sum(self, values: Whole, joint: JointSampler | None = None) -> Whole:
        if self.knows:
            return self.recall()
        assert self.event is not None
        step, event, summary = self._step, to_json(self.event), self._record.summary
        if self._unopened.lacks(summary):
            raise Refused(f"this member stops: {LOST}.")
        kept = self._unopened.at(step)
        if kept is None:
            kept = Contribution(step, np.asarray(values, dtype=np.int64))
            self._unopened.keep(kept)
        if not summary.in_flight:
            self._record.append("opening", {"step": step, "event": event, "commitment": kept.commitment})
        sampler = None
        if joint is not None:
            again = self._again and kept.shares is not None
            sampler = cast(JointSampler, KeptSampler(joint, self._unopened, again))

        def witness(total: Whole) -> bytes:
            return bytes.fromhex(self._record.signature(self._see(step, event, total)))

        total, signatures = self._inner.witnessed_sum(kept.values, sampler, witness)
        self._open(step, [signature.hex() for signature in signatures])
        self._again = False
        self._step += 1
        return total

    def _see(self, step: int, event: Fact, total: Whole) -> Fact:
        """The sum in the record; a second attempt of a step must open the sum of the first."""
        packed, before = pack_sum(total), self._record.summary.seen_at(step)
        if before is None:
            self._record.append("seen", {"step": step, "event": event, "sum": packed})
        elif before["sum"] != packed:
            raise Refused(
                f"step {step + 1} opened another sum than before it was cut off: a member did not add the same numbers "
                "again. This sum was not signed; agree on a new plan."
            )
        seen = self._record.summary.seen_at(step)
        assert seen is not None
        return seen

    def _open(self, step: int, signatures: list[str]) -> None:
        seen = self._record.summary.seen_at(step)
        assert seen is not None
        faces = [member.face for member in self._signed_plan.members]
        missing = unsigned(proof_of(seen, signatures), faces, self._signed_plan.digest)
        if missing:
            raise Refused(
                f"member {', '.join(map(str, missing))} did not sign the sum of step {step + 1}; it was not used."
            )
        self._record.append("opened", {"step": step, "signatures": signatures})

    def close(self) -> None:
        self._inner.close()


class FederatedOracle(SecureOracle, KeptAnswers):
    """A secure oracle that answers from the record as far as it reaches."""

    def __init__(self, agreement: Agreement, recorded: RecordedSum, party: RecordHolder | Server) -> None:
        super().__init__(agreement, [party])
        if recorded.begun and not self._plan.goes_on:
            raise Refused(
                "this member stops: the run was cut off, and the noise it added before, which it would take back in "
                "part, is not kept. What was opened stays paid for; agree on another plan."
            )
        self._recorded = recorded
        # known noise must fall as in a run that was never cut off, so a rehearsal draws all of it again
        self._skips = not party.randomness.is_seeded

    @property
    def knows_next(self) -> bool:
        return self._recorded.knows

    def release(self, query: StepQuery, noise: Noise, randomness: Randomness) -> Array:
        if not (self._skips and self._recorded.knows) or isinstance(query, CountedGradient):
            return super().release(query, noise, randomness)
        allow(query, noise, self._plan.relation)
        shared = self._plan.trust.realise(noise)
        self._spend(query, noise)
        total = self._recorded.recall()
        if total.shape != np.shape(query.at):
            raise ValueError(f"a sum of the record has the shape {total.shape}, and the model {np.shape(query.at)}.")
        return np.asarray(total * shared.step, dtype=np.float64)

    def _spend(self, query: SumQuery, noise: Noise) -> tuple[Batch, ...]:
        drawn: Any = query_batch(query)
        event = noise.event if drawn is None else drawn.sampling.event(noise.event, self._plan.problem.records)
        batches = super()._spend(query, noise)
        self._recorded.event = event
        return batches
