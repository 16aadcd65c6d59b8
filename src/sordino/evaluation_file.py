"""How good a model is, as a small file that a report shows: `--evaluation evaluation.json`.

    {"format": "sordino evaluation", "version": 1,
     "model": "3f..",                        the digest in the certificate of what was evaluated
     "records": "1,592 held-out records of the same survey, treated as public",
     "measures": [{"name": "accuracy", "value": 0.71, "low": 0.69, "high": 0.73, "level": 0.95,
                   "how": "Wilson's interval: other held-out records", "group": ""}],
     "remarks": ["Measured once."],
     "released": null, "certificate": null}

`low`, `high` and `level` may be null where no error is known, and the report then says so. Of public records the last
two are null, and who writes the file answers for it. Of private ones `evaluate` writes it: `released` are sums with
noise, `certificate` says what they cost, and `verify_evaluation` finds every measure in them again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sordino import outputs, wire
from sordino.budget import Budget
from sordino.certificate import Certificate, Finding, verify, weights_digest
from sordino.evaluation import Measure, Outcomes, Statistic, Sums
from sordino.formatting import card
from sordino.privacy.events import Event
from sordino.privacy.randomness import Randomness
from sordino.problem import HeldOut
from sordino.release import release
from sordino.train import certify, warn_of_large

if TYPE_CHECKING:
    from sordino.identity import Identity

FORMAT, VERSION = "sordino evaluation", 1
EVALUATION = outputs.Kind("an evaluation", rb'\{\s*"format": "sordino evaluation"')


@dataclass(frozen=True)
class Evaluation:
    """Measures of the model with this digest, on the records that `records` describes in words."""

    model: str
    records: str
    measures: tuple[Measure, ...]
    remarks: tuple[str, ...] = ()
    released: Sums | None = None
    certificate: Certificate | None = None
    """Both where the records are private."""

    @property
    def threshold(self) -> float | None:
        """Above which the positive class is to be predicted, where one was asked for and found."""
        return next((one.value for one in self.measures if one.group == "threshold"), None)

    def _repr_html_(self) -> str:
        rows = [(one.name, f"{one.value:.4g}{_interval(one)}") for one in self.measures]
        return card("An evaluation", [("records", self.records), *rows, *(("note", one) for one in self.remarks)])

    def sign(self, identity: Identity) -> Evaluation:
        """With the signature of whoever vouches that it was made as stated."""
        if self.certificate is None:
            raise ValueError("an evaluation on public records has no certificate to sign.")
        return replace(self, certificate=self.certificate.sign(identity))

    def to_json(self) -> str:
        body = {
            "format": FORMAT,
            "version": VERSION,
            "model": self.model,
            "records": self.records,
            "measures": [_without_kind(one) for one in self.measures],
            "remarks": list(self.remarks),
            "released": None if self.released is None else _without_kind(self.released),
            "certificate": None if self.certificate is None else json.loads(self.certificate.to_json()),
        }
        return json.dumps(body, indent=1, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        outputs.write(path, self.to_json().encode(), EVALUATION)

    @staticmethod
    def from_json(text: str) -> Evaluation:
        """The evaluation, or a sentence on why this is none."""
        body = wire.parse(text)
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            raise ValueError(f"it is not an evaluation: its 'format' is not {FORMAT!r}.")
        if body.get("version") != VERSION:
            raise ValueError(f"it has version {wire.shown(body.get('version'))}, and version {VERSION} is known here.")
        try:
            plain: dict[str, Any] = {name: item for name, item in body.items() if name not in ("format", "version")}
            stated, sums = plain.pop("certificate", None), plain.pop("released", None)
            measures = [{"kind": "Measure", **one} for one in plain.pop("measures")]
            released = None if sums is None else {"kind": "Sums", **sums}
            kinds = {"Measure": Measure, "Sums": Sums, "Evaluation": Evaluation}
            found = wire.from_plain({"kind": "Evaluation", "measures": measures, "released": released, **plain}, kinds)
        except (KeyError, TypeError, AttributeError):
            raise ValueError("it is incomplete: an evaluation has a model, records and measures.") from None
        assert isinstance(found, Evaluation)
        if (stated is None) != (found.released is None):
            raise ValueError("it is incomplete: what was released and its certificate go together.")
        return (
            found
            if stated is None
            else replace(found, certificate=Certificate.from_json(json.dumps(stated, allow_nan=False)))
        )

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Evaluation:
        try:
            return Evaluation.from_json(Path(path).read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not an evaluation: it is not text.") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def evaluate(
    problem: HeldOut,
    budget: Budget,
    statistic: Statistic,
    outcomes: Outcomes,
    randomness: Randomness,
    records: str,
    assumed: tuple[str, ...] = (),
) -> Evaluation:
    """Plan, release and certify sums over held-out records, and say what follows from them.

    `records` says in words which they are, and `assumed` are sentences for the certificate.
    """
    warn_of_large(budget, problem)
    plan = statistic.plan(problem, budget)

    def run(asked: Any) -> _Outcome:
        sums = statistic.run(plan, problem, asked, randomness)
        digest = weights_digest(_arrays(sums, records))
        if asked.reservation is not None:
            asked.reservation.model = digest
        return _Outcome(sums, digest, plan.event)

    note = f"evaluation by {type(statistic).__name__}, epsilon {budget.epsilon:.6g}"
    outcome, earned = release(plan.event, budget, note, outcomes, run, unit=problem.unit)
    certificate = certify(
        problem,
        budget,
        statistic,
        plan,
        plan.event,
        earned,
        outcome.digest,
        randomness.describe(),
        assumed=assumed,
    )
    found = statistic.found(problem, budget, outcome.sums)
    return Evaluation(problem.model, records, found.measures, found.remarks, outcome.sums, certificate)


def verify_evaluation(evaluation: Evaluation) -> tuple[Finding, ...]:
    """Whether the certificate is about what was released and about this model, holds, and gives these measures."""
    certificate, sums = evaluation.certificate, evaluation.released
    if certificate is None or sums is None:
        raise ValueError("this evaluation has no certificate: whoever wrote it treated its records as public.")
    findings = verify(certificate, _arrays(sums, evaluation.records))
    if not isinstance(certificate.problem, HeldOut):
        return (Finding(False, "the certificate is that of a model, and not of an evaluation."), *findings)
    same = certificate.problem.model == evaluation.model
    named = Finding(same, f"the certificate {'is' if same else 'is not'} about an evaluation of this model.")
    return (*findings, named, _follows(evaluation, certificate.problem, certificate, sums))


def _follows(evaluation: Evaluation, problem: HeldOut, certificate: Certificate, sums: Sums) -> Finding:
    statistic: Any = certificate.method
    try:
        found = statistic.found(problem, certificate.requested, sums)
        same = found.remarks == evaluation.remarks
        same = same and wire.close(wire.to_plain(found.measures), wire.to_plain(evaluation.measures))
    except (ValueError, TypeError, ArithmeticError, LookupError):
        same = False
    return Finding(same, f"its measures and remarks {'follow' if same else 'do not follow'} from what was released.")


@dataclass(frozen=True)
class _Outcome:
    sums: Sums
    digest: str
    event: Event


def _arrays(sums: Sums, records: str) -> Mapping[str, NDArray[Any]]:
    """What a certificate is about: what was released, and which records it is said to be of."""
    edges = (*sums.edges, *(() if sums.threshold is None else (sums.threshold,)))
    return {"sums": np.array(sums.sums), "edges": np.array(edges), "records": np.array(records)}


def _interval(measure: Measure) -> str:
    """With a comma before it, or nothing where there is none."""
    return "" if measure.low is None else f", {measure.low:.4g} to {measure.high:.4g}"


def _without_kind(value: Any) -> dict[str, Any]:
    return {name: item for name, item in wire.to_plain(value).items() if name != "kind"}
