from __future__ import annotations

import numpy as np
import pytest

from sordino.budget import Budget, Relation
from sordino.certificate import verify
from sordino.losses import Logistic, Softmax
from sordino.methods import ApproximateMinimaPerturbation, ObjectivePerturbation
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.penalties import Ridge
from sordino.privacy.accountants import epsilon
from sordino.problem import Problem
from sordino.train import train

R1 = Relation.REPLACE_ONE
ADULT = Problem(32561, 110, Logistic(), penalty=Ridge(0.1))


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "ratios"), [(1e-3, (2.59, 2.02, 1.84, 1.66)), (1e-5, (1.91, 1.69, 1.60, 1.51))])
def test_noise_against_the_certified(delta, ratios):
    """Standard deviation of b over the least that the profile allows, epsilon .1 .5 1 2; the split leaves some room."""
    for e, ratio in zip((0.1, 0.5, 1.0, 2.0), ratios, strict=True):
        budget = Budget(e, delta)
        printed = ApproximateMinimaPerturbation().plan(ADULT, budget)
        certified = ObjectivePerturbation().plan(ADULT, budget)
        assert printed.noise.std / certified.noise.std == pytest.approx(ratio, rel=0.06)
        assert epsilon(printed.event, delta, R1) < e


def test_runs_and_is_certified_for_what_it_gives():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.choice([-1.0, 1.0], 300)
    problem, budget = Problem(300, 2, Logistic(), penalty=Ridge(0.05)), Budget(1.0, 1e-4)
    oracle = linear_oracle(X, y, problem, Rows(1.0), R1)
    certificate = train(problem, budget, ApproximateMinimaPerturbation(), oracle, rows=Rows(1.0)).certificate
    assert all(finding.holds for finding in verify(certificate))
    assert "truly give" in certificate.notes[0]


def test_what_is_refused():
    with pytest.raises(ValueError, match="ObjectivePerturbation"):
        ApproximateMinimaPerturbation("tight").plan(ADULT, Budget(1.0, 1e-5))
    with pytest.raises(ValueError, match="rank-one"):
        ApproximateMinimaPerturbation().plan(Problem(50, 2, Softmax(3)), Budget(1.0, 1e-5))
    with pytest.raises(ValueError, match="replace_one"):
        ApproximateMinimaPerturbation().plan(ADULT, Budget(1.0, 1e-5, Relation.ADD_REMOVE))
