"""The page on scale says what the committed results say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def scaling(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import scaling

    yield scaling
    sys.modules.pop("scaling")


def test_the_page_is_the_one_that_the_script_writes(scaling: Any) -> None:
    figures = json.loads((ROOT / "benchmarks" / "results" / "scaling.json").read_text())
    assert (ROOT / "docs" / "scale.md").read_text() == scaling.page(figures)


def test_the_constants_are_those_of_the_points(scaling: Any) -> None:
    figures = json.loads((ROOT / "benchmarks" / "results" / "scaling.json").read_text())
    for name, model in scaling.analysed(figures["points"])["models"].items():
        kept = figures["models"][name]["constants"]
        # a constant of nothing is what rounding leaves of the others, on another processor something else
        assert model["constants"] == pytest.approx(kept, rel=1e-6, abs=1e-9 * max(kept))


def test_what_is_left_out_has_no_say(scaling: Any) -> None:
    rows = [
        {"workers": count, "records": n, "columns": d, "megabytes of a worker": 100.0}
        for count in (*scaling.WORKERS, *scaling.WORKERS_LEFT_OUT)
        for n, d in scaling.TABLES
    ]
    for row in rows:
        row["CPU seconds of the driver"] = float(np.dot([1e-3, 2e-3, 1e-6], scaling._of_step(row)))
    told = scaling.analysed({"workers": rows})["models"]
    for row in rows:
        if row["workers"] in scaling.WORKERS_LEFT_OUT:
            row["CPU seconds of the driver"] *= 3
    untold = scaling.analysed({"workers": rows})["models"]
    name = "driver, CPU seconds of a step"
    assert told[name]["constants"] == untold[name]["constants"]
    for before, after in zip(told[name]["left out"], untold[name]["left out"], strict=True):
        assert before["predicted"] == pytest.approx(before["measured"], rel=1e-6)
        assert after["measured"] == pytest.approx(3 * after["predicted"], rel=1e-6)
