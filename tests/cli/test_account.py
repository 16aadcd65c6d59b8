"""`sordino account` and `sordino plan`: numbers from public facts."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest


def epsilons(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"^ *(\w+) +([0-9.e+-]+|inf) *$", text, re.MULTILINE)}


# q = 0.01, 1000 steps, delta = 1e-5: composed on two grids by dp-accounting 0.6 (the fixed-size pair by connecting the
# dots of its profile, Zhu, Dong & Wang 2022), agreeing to five digits and with prv_accountant to its bars of 0.005.
# The multiplier is std / clipping norm, so the fixed-size run with std = 2 clipping norms has multiplier 2.
@pytest.mark.parametrize(
    ("sampling", "relation", "multiplier", "golden"),
    [
        ("poisson", "add_remove", 1, 1.82824),
        ("poisson", "replace_one", 1, 2.84344),
        ("fixed", "replace_one", 2, 2.19891),
    ],
)
def test_sampled_runs(sordino: Any, sampling: str, relation: str, multiplier: float, golden: float) -> None:
    run = sordino(
        *("account", "--steps", 1000, "--delta", 1e-5, "--noise-multiplier", multiplier, "--sampling", sampling),
        *("--batch-size", 10, "--records", 1000, "--relation", relation),
    )
    assert run.code == 0, run.errors
    found = epsilons(run.text)
    assert min(found.values()) == pytest.approx(golden, rel=1e-4)
    assert found


# sigma(1, 1e-5) of the analytic Gaussian mechanism (Balle & Wang 2018), computed with mpmath at 50 digits
SIGMA = 3.730631634815942


@pytest.mark.parametrize(("relation", "distance"), [("add_remove", 1), ("replace_one", 2)])
@pytest.mark.parametrize("steps", [1, 16])
def test_full_batches_both_ways(sordino: Any, relation: str, distance: int, steps: int) -> None:
    multiplier = SIGMA * distance * math.sqrt(steps)
    described = ("account", "--steps", steps, "--delta", 1e-5, "--relation", relation)
    run = sordino(*described, "--noise-multiplier", repr(multiplier))
    assert run.code == 0, run.errors
    assert all(0.999 < epsilon < 1.2 for epsilon in epsilons(run.text).values())
    assert min(epsilons(run.text).values()) == pytest.approx(1.0, rel=1e-5)
    run = sordino(*described, "--epsilon", 1)
    assert run.code == 0, run.errors
    stated = re.search(r"Noise multiplier ([0-9.]+): .* times the clipping norm on each sum", run.text)
    assert stated is not None
    assert float(stated[1]) == pytest.approx(multiplier, rel=1e-4)


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        ((), "give either --noise-multiplier"),
        (("--noise-multiplier", 1, "--epsilon", 1), "give either --noise-multiplier"),
        (("--noise-multiplier", 0), "the noise multiplier is 0.0"),
        (("--noise-multiplier", "nan"), "the noise multiplier is nan"),
        (("--noise-multiplier", 1, "--steps", 0), "steps is 0"),
        (("--noise-multiplier", 1, "--delta", 1), "delta is 1.0"),
        (("--epsilon", 0), "epsilon is 0.0"),
        (("--noise-multiplier", 1, "--rate", 0.1), "--sampling is full"),
        (("--noise-multiplier", 1, "--sampling", "poisson"), "needs either --rate, or --batch-size and --records"),
        (("--noise-multiplier", 1, "--sampling", "poisson", "--batch-size", 5), "needs either --rate"),
        (("--noise-multiplier", 1, "--sampling", "poisson", "--rate", 0.1, "--records", 5), "needs either --rate"),
        (("--noise-multiplier", 1, "--sampling", "poisson", "--rate", 1.5), "rate is 1.5"),
        (("--noise-multiplier", 1, "--sampling", "fixed", "--rate", 0.1, "--relation", "add_remove"), "add_remove"),
    ],
)
def test_descriptions_that_do_not_fit(sordino: Any, extra: Any, sentence: str) -> None:
    defaults = {"--steps": 10, "--delta": 1e-5}
    given = [item for name, value in defaults.items() if name not in extra for item in (name, value)]
    run = sordino("account", *given, *extra)
    assert run.code == 2, run.text
    assert sentence in run.errors
    assert run.errors.count("\n") == 1


def test_a_plan_shows_every_number(sordino: Any) -> None:
    run = sordino("plan", "--records", 32561, "--features", 109, "--epsilon", 1, "--delta", 1e-5)
    assert run.code == 0, run.errors
    rows = dict(re.findall(r"^ *(\S.*?\S)  +(\S+) *$", run.text, re.MULTILINE))
    assert rows["records"] == "32561"
    assert rows["parameters"] == "110"
    # rows scaled to norm 1: L = 1, beta = 1/4, and one record of 32561 moves the mean gradient by 2/n
    assert rows["largest gradient of a record, L"] == "1"
    assert rows["smoothness, beta"] == "0.25"
    assert rows["one record moves the mean gradient by"] == f"{2 / 32561:.6g}"
    assert {"inner: noise", "inner: noise: std"} <= rows.keys()
    for name in ("noisy gradient descent", "objective perturbation", "output perturbation", "noisy SGD"):
        assert name in run.text
    assert "under replace_one; 1 was asked for" in run.text


def test_a_plan_says_why_a_method_does_not_fit(sordino: Any, tmp_path: Any) -> None:
    plot = tmp_path / "plan.svg"
    options = ("--records", 5000, "--features", 10, "--epsilon", 1, "--classes", 3, "--plot", plot)
    run = sordino("plan", *options)
    assert run.code == 0, run.errors
    assert "rank-one Hessian: Softmax has rank 2" in run.text
    assert "<svg" in plot.read_text()


def test_a_plan_is_the_one_that_fit_follows(sordino: Any, model: Any) -> None:
    from sordino.model_file import read_model

    certificate = read_model(model).certificate
    run = sordino("plan", "--records", 1237, "--features", 5, "--epsilon", 2, "--delta", 1e-5)
    rows = dict(re.findall(r"^ *(\S.*?\S)  +(\S+) *$", run.text, re.MULTILINE))
    assert f"Plan of {type(certificate.method).__name__}" in run.text
    assert rows["inner: noise: std"] == f"{certificate.plan['inner']['noise']['std']:.6g}"


@pytest.mark.parametrize(
    "extra",
    [
        ("--loss", "huber"),
        ("--loss", "squared"),
        ("--loss", "poisson", "--target-range", 0, 20),
        ("--classes", 4),
        ("--l2", 0.01),
        ("--delta", 0, "--l2", 0.01),
        ("--method", "output-perturbation", "--l2", 0.1),
        ("--relation", "add_remove"),
    ],
)
def test_other_plans(sordino: Any, extra: Any) -> None:
    run = sordino("plan", "--records", 5000, "--features", 10, "--epsilon", 1, *extra)
    assert run.code == 0, run.errors
    assert "accountant finds epsilon" in run.text


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        (("--loss", "huver"), "loss is 'huver': it must be logistic, hinge, huber, squared, quantile, insensitive"),
        (("--loss", "huver"), "Did you mean huber?"),
        (("--loss", "poisson"), "--target-range is required with poisson"),
        (("--loss", "gamma", "--target-range", 0, 5), "costs are positive"),
        (("--classes", 1), "classes is 1"),
        (("--records", 0), "records is 0"),
        (("--features", -1), "features is"),
        (("--epsilon", -2), "epsilon is -2.0"),
        (("--method", "magic"), "method is 'magic'"),
    ],
)
def test_plans_that_cannot_be(sordino: Any, extra: Any, sentence: str) -> None:
    defaults = {"--records": 5000, "--features": 10, "--epsilon": 1}
    given = [item for name, value in defaults.items() if name not in extra for item in (name, value)]
    run = sordino("plan", *given, *extra)
    assert run.code == 2, run.text
    assert sentence in run.errors
