"""How wide least squares are clipped by default: twice as wide where records are many for their budget."""

import math

import numpy as np
import pytest

from sordino import PrivateLinearRegression
from sordino.budget import Budget
from sordino.methods.schedule import gaussian_allowance
from sordino.prepare.choice import MANY
from sordino.problem import PersonUnit


def clip_of(budget, records, person=None, **settings):
    task = PrivateLinearRegression(row_norm=1.0, target_bound=4.0, **settings).task()
    return task.problem(records, 3, person, budget).loss.clip


def test_it_doubles_where_noise_weighs_little():
    budget = Budget(3.0, 1e-8)
    least = int(MANY * math.sqrt(3) / gaussian_allowance(4, budget))
    assert clip_of(budget, least - 1) == 0.25
    assert clip_of(budget, least + 1) == 0.5
    assert clip_of(budget, least + 1, clip=1.0) == 0.25
    assert clip_of(Budget(3.0), 10 * least) == 0.25
    assert clip_of(budget, least + 1, PersonUnit(2)) == 0.25


def test_a_skewed_target_keeps_more_of_its_mean():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(30_000, 2))
    y = np.where(rng.random(30_000) < 0.15, 0.9, -0.9)
    settings = {"epsilon": 8.0, "row_norm": 2.0, "target_bound": 1.0, "random_state": 0}
    many = PrivateLinearRegression(**settings).fit(X, y)
    narrow = PrivateLinearRegression(**settings, clip=0.25).fit(X, y)
    assert many.certificate_.problem.loss.clip == 0.5
    assert narrow.certificate_.problem.loss.clip == 0.25
    errors = [np.mean((model.predict(X) - y) ** 2) for model in (many, narrow)]
    assert errors[0] < errors[1] - 0.01
    assert errors[0] == pytest.approx(y.var(), abs=0.1)
