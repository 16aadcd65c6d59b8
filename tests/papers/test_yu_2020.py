"""Theorem 2 of Yu, Zhang, Chen, Yin & Liu 2020 as `sordino.papers.rates_002` runs it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sordino.budget import Budget
from sordino.methods import Inverse, InverseRoot
from sordino.methods.plan import LastStep
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import FixedSize
from sordino.papers import rates, rates_002
from sordino.papers.catalogue import find
from sordino.papers.reproduction import cells_of, kept
from sordino.privacy.randomness import Randomness

ROWS = {row.name: row for row in rates_002._RATES.rows if row.name.startswith("DP-SGD")}


def test_the_kept_plans_are_those_that_table_4_was_made_of():
    """`make stale` makes the plans of every row again, and trains a few alone."""
    known = cells_of(kept(find("002", "table4")[0]))
    of_descents = 0
    for row, plan in known["plans"].items():
        made = {key: known[row][key] for key in ("steps", "step size", "clip", "batch") if key in known[row]}
        assert made == {key: pytest.approx(plan[key]) if key != "batch" else plan[key] for key in made}
        of_descents += bool(made)
    # two of Adult and RCV1 and one of MNIST, at four budgets
    assert of_descents == 20


@pytest.mark.parametrize("name", ROWS)
def test_theorem_2_has_one_record_in_each_of_n_squared_epsilon_squared_steps(name):
    n, p, e = 600, 10, 0.5
    row = ROWS[name]
    problem, budget = row.problem(n, p), Budget(e, rates.DELTA)
    plan = row.method(problem, budget).plan(problem, budget)
    assert (plan.steps, plan.sampling, plan.clip, plan.release) == (n**2 * e**2, FixedSize(1), 1.0, "last")
    assert plan.stop == LastStep()
    sigma = plan.noise.std
    if name.endswith("strongly convex"):
        # 1/(nu t), nu = mu
        assert (plan.step_size, plan.rate) == (pytest.approx(1 / 0.1), Inverse())
    else:
        # D / (G sqrt(t)), G = L sqrt(1 + p sigma^2), D = |w0|
        G = math.sqrt(1 + p * sigma**2)
        assert (plan.step_size, plan.rate) == (pytest.approx(3 / G), InverseRoot())
    # c_2 of Lemma 1, which is not printed: sigma = c_2 sqrt(T log(1/delta)) / (n epsilon)
    assert 2 < sigma / math.sqrt(math.log(1 / rates.DELTA)) < 2.6


@pytest.mark.parametrize("name", ROWS)
def test_its_own_loop_ends_where_the_librarys_does(name):
    """The same mean and the same spread around it; batches are other ones, and noise drowns them."""
    n, d, runs = 60, 3, 400
    row = ROWS[name]
    problem, budget = row.problem(n, d), Budget(0.5, rates.DELTA)
    method = row.method(problem, budget)
    plan = method.plan(problem, budget)
    X, y = rates.records(n, d, 0)
    oracle = linear_oracle(X, y, problem, Rows(1.0))
    slow = method.run(plan, problem, oracle, Randomness.seeded(1), np.zeros((runs, d))).weights
    fast = row.ends(plan, problem, X, y, 0, runs)
    assert fast.std(axis=0) == pytest.approx(slow.std(axis=0), rel=0.2)
    assert np.all(np.abs(fast.mean(axis=0) - slow.mean(axis=0)) < 5 * slow.std(axis=0) * math.sqrt(2 / runs))


def test_a_row_of_its_own_sizes_is_measured_at_these():
    row = ROWS["DP-SGD, convex"]
    assert {at["n"] for axis, at in rates.places(row, False) if axis == "n"} == {250, 500, 1000, 2000, 4000}
    assert {at["n"] for axis, at in rates.places(row, False) if axis != "n"} == {1000}
