"""Figure 1 of Zhou, Chen, Hong, Wu & Banerjee 2020 in small; `sordino.papers.figure1_001` draws it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sordino.papers import figure1_001 as figure, figure1_report as report, networks
from sordino.torch import Moment


def stripes(records=1100, side=28):
    """Pictures with one bright row, at two places: any method tells them apart in an epoch or two."""
    torch.manual_seed(0)
    y = torch.arange(records) % 2
    X = 0.1 * torch.randn(records, 1, side, side)
    X[torch.arange(records), 0, 5 + 10 * y] += 1
    return networks.Pictures(X[100:], y[100:], X[:100], y[:100])


# printed in Figure 1 with two digits; with four, by dp_accounting 0.6 (RDP, and PLD with a step of 1e-4)
@pytest.mark.parametrize(
    ("z", "printed", "loss"), [(2.0, 1.2192, 0.9152), (4.0, 0.5714, 0.4063), (8.0, 0.2802, 0.1883)]
)
def test_printed_budgets_are_moments_of_poisson_batches(z, printed, loss):
    costs = figure.costs(z, 1.0)
    assert costs["moments, 100 epochs"] == pytest.approx(printed, abs=2e-4)
    assert costs["ours, 100 epochs"] == pytest.approx(loss, abs=2e-4)
    assert costs["ours, 1 epochs"] < costs["ours, 100 epochs"]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "step_size"), [("DP-SGD", 0.5), ("DP-RMSProp", 0.01), ("DP-Adam", 0.01)])
def test_every_method_learns_and_says_what_it_cost(method, step_size):
    run = figure.one_run(stripes(), method, 4.0, step_size, epochs=10, seed=0)
    assert run["accuracy"][-1] > 0.9
    assert run["noise multiplier"] == pytest.approx(4.0, rel=1e-5)
    assert 0 < run["epsilon"] < figure.AMPLE.epsilon
    assert run["steps"][-1] == 79  # 10 epochs of 1000 records in batches of 128
    assert len(run["steps"]) == len(run["accuracy"])


def test_the_average_is_of_the_iterates():
    pictures, network = stripes(), torch.nn.Linear(1, 1, bias=False)
    curve = networks.Curve(pictures, network, every=10, decay=0.5)
    curve._score = curve._score_training = lambda w: float(w[0])

    class Now(Moment):
        def __init__(self, step):
            self._step = step

        step, planned = property(lambda self: self._step), 3

        def weights(self):
            return np.array([float(2**self._step)])

    for step in (1, 2, 3):
        curve(Now(step))
    # a_1 = 2,  a_2 = (2/12) 2 + (10/12) 4 = 11/3,  a_3 = (3/13) 11/3 + (10/13) 8 = 7
    assert curve.averaged == pytest.approx(7)
    assert curve.steps == [3]


def test_the_report_compares_the_methods(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "EPOCHS", 2.0)
    monkeypatch.setattr(report, "PRINTED", {"8": 0.28})

    def runs(level):
        return {"steps": [10, 20], "accuracy": [level - 0.1, level], "averaged": level, "step size": 0.1}

    names = {"DP-SGD": 0.5, "DP-RMSProp": 0.75, "DP-Adam": 0.7}
    known = {
        "epsilon of noise 8": {f"{way}, {length} epochs": 0.1 for way in ("ours", "moments") for length in (2, 100)},
        **{f"{name}, 8, run {i}": runs(level + 0.01 * i) for name, level in names.items() for i in range(2)},
    }
    text = report.tables(known)
    assert "After 1 epoch DP-RMSProp is 25.0 points above DP-SGD (65.5 against 40.5), after 2 DP-RMSProp is" in text
    assert "after 100" not in text
    whole = {f"{name}, 8, in full, run 0": {"accuracy": [0.1, end], "training accuracy": [0.1, 0.9]}
             for name, end in (("DP-SGD", 0.9), ("DP-RMSProp", 0.8), ("DP-Adam", 0.85))}  # fmt: skip
    assert "after 100 DP-Adam is 5.0 points below DP-SGD (85.0 against 90.0)." in report.tables({**known, **whole})
    assert "| 8 | DP-Adam | 0.1 | 2 | 60.5 ± 0.7 | 70.5 ± 0.7 | 70.5 ± 0.7 |" in text
    report.draw(known, tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000
