"""An evaluation survives its file, and a file that is none gets a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sordino.reporting import Evaluation, Measure

EVALUATION = Evaluation(
    "ab" * 32,
    "100 public records",
    (Measure("correct answers", 0.7, 0.6, 0.8, 0.95, "Wilson"), Measure("error", 12.5)),
    ("Measured once.",),
)


def test_it_survives_a_file(tmp_path: Path) -> None:
    EVALUATION.save(tmp_path / "evaluation.json")
    assert Evaluation.load(tmp_path / "evaluation.json") == EVALUATION


def test_the_documented_form_is_read() -> None:
    body = {
        "format": "sordino evaluation",
        "version": 1,
        "model": "3f",
        "records": "some",
        "measures": [{"name": "correct answers", "value": 1, "low": 0.5, "high": 1, "level": 0.95, "how": ""}],
    }
    assert Evaluation.from_json(json.dumps(body)).measures == (Measure("correct answers", 1.0, 0.5, 1.0, 0.95),)


def altered(**changes: Any) -> str:
    return json.dumps({**json.loads(EVALUATION.to_json()), **changes})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "not JSON"),
        ("[]", "'format' is not"),
        (altered(version=2), "version 2, and version 1 is known"),
        (altered(measures=None), "incomplete"),
        (altered(measures=[1]), "incomplete"),
        (altered(measures=[{"value": 1.0}]), "do not fit"),
        (altered(measures=[{"name": "x", "value": "1"}]), "another type"),
        (altered(measures=[{"name": "x", "value": 1.0, "low": 0.5}]), "half an interval"),
        (altered(measures=[{"name": "x", "value": 1.0, "low": 0.5, "high": 0.9, "level": 0.9}]), "outside its own"),
        (altered(measures=[{"name": "x", "value": 1.0, "low": 0.5, "high": 2.0, "level": 95.0}]), "between 0 and 1"),
        (altered(surprise=1), "do not fit"),
        (altered(records=3), "another type"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "evaluation.json").write_text(text)
    with pytest.raises(ValueError, match=sentence) as told:
        Evaluation.load(tmp_path / "evaluation.json")
    assert "evaluation.json" in str(told.value)


def test_what_is_not_text_is_no_evaluation(tmp_path: Path) -> None:
    (tmp_path / "evaluation.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not text"):
        Evaluation.load(tmp_path / "evaluation.json")
