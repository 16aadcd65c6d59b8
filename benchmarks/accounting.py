"""How long accounting takes: calibrating a long run, and composing a thousand different noise levels.

    python benchmarks/accounting.py

Prints a table and writes results/accounting.json.  Imports are not counted; every figure is the median of some runs.
Where the machine does other work too, time on the processor is what to look at.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from _results import keep, table

from sordino.budget import Budget, Relation
from sordino.privacy import accountants, calibrate as calibration
from sordino.privacy.accountants.pld import LossAccountant
from sordino.privacy.events import Composed, Event, FixedSizeSampled, Gaussian, PoissonSampled, repeat

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
STEPS, RATE, DELTA = 46_900, 128 / 60_000, 1e-5


def timed(task: Callable[[], float], runs: int) -> tuple[float, dict[str, float]]:
    """The result, and the median time on the clock and on the processor."""
    clock, processor = [], []
    for _ in range(runs):
        # what was found before is not looked for again
        calibration._found.clear()
        start = time.perf_counter(), time.process_time()
        result = task()
        clock.append(time.perf_counter() - start[0])
        processor.append(time.process_time() - start[1])
    return result, {"seconds": statistics.median(clock), "processor_seconds": statistics.median(processor)}


def calibrations() -> dict[str, dict[str, float]]:
    figures = {}
    for name, kind, relation in (
        ("Poisson, add_remove", PoissonSampled, ADD),
        ("Poisson, replace_one", PoissonSampled, REPLACE),
        ("fixed size, replace_one", FixedSizeSampled, REPLACE),
    ):
        for epsilon in (0.1, 1.0, 8.0):
            build = partial(run, kind)
            multiplier, seconds = timed(partial(calibration.calibrate, build, Budget(epsilon, DELTA, relation)), 5)
            spent = accountants.epsilon(build(multiplier), DELTA, relation)
            figures[f"{name}, epsilon {epsilon:g}"] = {"multiplier": multiplier, "spent": spent, **seconds}
    return figures


def run(kind: type, multiplier: float) -> Event:
    return repeat(kind(Gaussian(multiplier), RATE), STEPS)


def compositions() -> dict[str, dict[str, float]]:
    levels = np.linspace(1.0, 3.0, 1000).tolist()
    schedule = Composed(tuple((PoissonSampled(Gaussian(z), 0.01), 1) for z in levels))
    long = repeat(PoissonSampled(Gaussian(1.0), 1e-3), 10**6)
    accountant, figures = LossAccountant(), {}
    for name, event, relation in (
        ("1,000 noise levels, add_remove", schedule, ADD),
        ("1,000 noise levels, replace_one", schedule, REPLACE),
        ("1,000,000 steps, add_remove", long, ADD),
    ):
        epsilon, seconds = timed(partial(accountant.epsilon, event, DELTA, relation), 3)
        error = accountant.error(event, DELTA, relation, epsilon)
        figures[name] = {"epsilon": epsilon, "error": error or 0.0, **seconds}
    return figures


def main() -> None:
    settings = {"steps": STEPS, "rate": RATE, "delta": DELTA, "levels": "1 to 3, rate 0.01"}
    found, composed = calibrations(), compositions()
    rows = [("calibration, 46,900 steps", "seconds (processor)", "goal")]
    rows += [(name, _shown(figure), "0.5") for name, figure in found.items()]
    rows += [("composition", "seconds (processor)", "goal")]
    rows += [
        (f"{name}: {figure['epsilon']:.5f}, at most {figure['error']:.1e} above exact", _shown(figure), "10")
        for name, figure in composed.items()
    ]
    table(rows)
    keep("accounting", {"settings": settings, "calibration": found, "composition": composed}, "dp-accounting")


def _shown(figure: dict[str, float]) -> str:
    return f"{figure['seconds']:.2f} ({figure['processor_seconds']:.2f})"


if __name__ == "__main__":
    main()
