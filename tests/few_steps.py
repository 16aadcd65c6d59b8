"""Every method with settings that make short runs of it, to be compared between oracles."""

from __future__ import annotations

import numpy as np

from sordino.budget import Budget
from sordino.domains import Ball
from sordino.losses import Hinge, Logistic, Squared
from sordino.methods import (
    DPSGD,
    AdaptiveGradientDescent,
    ApproximateMinimaPerturbation,
    BassilySmithThakurta,
    ConstantModel,
    DPAdam,
    DPRMSProp,
    NoisyGradientDescent,
    NoisyNewton,
    NoisySGD,
    ObjectivePerturbation,
    OutputPerturbation,
    PermutationSGD,
    PhasedSGD,
    ProximalSmoothing,
    RandomRoundSGD,
    RecursiveMomentum,
    RepeatedSelection,
    Setting,
    SpiderBoost,
    SufficientStatistics,
)
from sordino.oracle.rows import Rows
from sordino.penalties import Ridge
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

SETTINGS = {
    type(method).__name__: method
    for method in (
        OutputPerturbation(5),
        ObjectivePerturbation(),
        NoisyGradientDescent(5),
        NoisySGD(5, 50),
        RandomRoundSGD(5, 50),
        DPSGD(5, 50, momentum=0.5),
        DPRMSProp(5, 50),
        DPAdam(5, 50, sampling="fixed_size"),
        RecursiveMomentum(5, 50),
        SpiderBoost(5, 50, period=2),
        SufficientStatistics(),
        NoisyNewton(2),
        ConstantModel(),
        ProximalSmoothing(NoisyGradientDescent(5)),
        BassilySmithThakurta(50, 5),
        ApproximateMinimaPerturbation(),
        PermutationSGD(1, 100),
        PhasedSGD(25),
        AdaptiveGradientDescent(3, candidates=3, loss_clip=1.0, longest_step=1.0),
        RepeatedSelection((Setting(NoisyGradientDescent(3)), Setting(NoisyGradientDescent(4), l2=0.2)), 3.0),
    )
}

ROWS = Rows(2.0, intercept=0.4)


def problem(method, records, features):
    losses = {ProximalSmoothing: Hinge(), SufficientStatistics: Squared(1.0)}
    loss = losses.get(type(method), Logistic())
    return Problem(records, features + 1, loss, penalty=Ridge(0.5), domain=Ball(4.0))


def data(records, features, kind=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(records, features)).astype(kind)
    return X, np.where(X[:, 0] + rng.logistic(size=records) > 0, 1.0, -1.0)


def weights(method, problem, oracle, seed=3):
    plan = method.plan(problem, Budget(1.0, 1e-5))
    return method.run(plan, problem, oracle, Randomness.seeded(seed)).weights
