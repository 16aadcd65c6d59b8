"""How good a model is, as a small file that a report shows: `--evaluation evaluation.json`.

    {"format": "sordino evaluation", "version": 1,
     "model": "3f..",                        the digest in the certificate of what was evaluated
     "records": "1,592 held-out records of the same survey, treated as public",
     "measures": [{"name": "correct answers", "value": 0.71, "low": 0.69, "high": 0.73, "level": 0.95,
                   "how": "Wilson's interval: other held-out records"}],
     "remarks": ["Measured once."]}

`low`, `high` and `level` may be null where no error is known, and the report then says so. Who writes the file answers
for it: a measure of private records that nobody paid for is one more release.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino import outputs, wire

FORMAT, VERSION = "sordino evaluation", 1
EVALUATION = outputs.Kind("an evaluation", rb'\{\s*"format": "sordino evaluation"')


@dataclass(frozen=True)
class Measure:
    """One number with its interval, which covers the truth with probability `level` as `how` says."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    level: float | None = None
    how: str = ""

    def __post_init__(self) -> None:
        ends = (self.low, self.high, self.level)
        if not math.isfinite(self.value) or not all(end is None or math.isfinite(end) for end in ends):
            raise ValueError(f"{self.name!r} has a number that is not finite: leave a measure out that has none.")
        if len({end is None for end in ends}) > 1:
            raise ValueError(f"{self.name!r} has half an interval: give low, high and level, or none of them.")
        if self.low is not None and self.high is not None and self.level is not None:
            if not self.low <= self.value <= self.high:
                raise ValueError(f"{self.name!r} lies outside its own interval: low <= value <= high is needed.")
            if not 0 < self.level < 1:
                raise ValueError(f"{self.name!r} has level {self.level}: a probability between 0 and 1 is needed.")


@dataclass(frozen=True)
class Evaluation:
    """Measures of the model with this digest, on the records that `records` describes in words."""

    model: str
    records: str
    measures: tuple[Measure, ...]
    remarks: tuple[str, ...] = ()

    def to_json(self) -> str:
        measures = [
            {name: value for name, value in wire.to_plain(one).items() if name != "kind"} for one in self.measures
        ]
        body = {"format": FORMAT, "version": VERSION, "model": self.model, "records": self.records}
        return (
            json.dumps({**body, "measures": measures, "remarks": list(self.remarks)}, indent=1, allow_nan=False) + "\n"
        )

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
            measures = [{"kind": "Measure", **one} for one in plain.pop("measures")]
            kinds = {"Measure": Measure, "Evaluation": Evaluation}
            found = wire.from_plain({"kind": "Evaluation", "measures": measures, **plain}, kinds)
        except (KeyError, TypeError, AttributeError):
            raise ValueError("it is incomplete: an evaluation has a model, records and measures.") from None
        assert isinstance(found, Evaluation)
        return found

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Evaluation:
        try:
            return Evaluation.from_json(Path(path).read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not an evaluation: it is not text.") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
