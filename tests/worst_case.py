"""Neighbouring data sets on which a linear model moves as far as any can.

A Huber (or absolute) record whose target is far away has the constant gradient -+threshold * x: the loss is +-L w, the
extremal case of every sensitivity bound here. All other records are zero rows, which contribute nothing.
"""

from __future__ import annotations

import numpy as np

from sordino.budget import Budget, Relation
from sordino.domains import Everywhere
from sordino.losses import Huber, Logistic
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.penalties import Ridge
from sordino.problem import Problem

FAR = 1e9
RECORDS = 10


def problem(mu=0.0, domain=None, loss=None, features=1):
    """Of two features the second is the constant column."""
    return Problem(RECORDS, features, loss or Huber(), penalty=Ridge(mu), domain=domain or Everywhere())


def neighbours(problem, relation):
    """Two oracles: the last record pulls up or down (replace-one), or is there or not (add/remove)."""
    rows = Rows(1.0, 0.5 * (problem.features - 1))

    def oracle(pulls):
        X = np.zeros((RECORDS - 1 + len(pulls), 1))
        y = np.zeros(len(X))
        if pulls:
            # classes have no targets that are further away
            X[-1], y[-1] = 1.0, pulls[0] * (1.0 if isinstance(problem.loss, Logistic) else FAR)
        return linear_oracle(X, y, problem, rows, relation)

    return (oracle([+1]), oracle([-1])) if relation is Relation.REPLACE_ONE else (oracle([+1]), oracle([]))


def outputs(method, plan, problem, oracle, randomness, runs):
    """One number per independent run, for stacks of runs side by side."""
    weights = method.run(plan, problem, oracle, randomness, start=np.zeros((runs, problem.dim))).weights
    return (weights[-1] if weights.ndim == 3 else weights)[:, -1]


def budget(epsilon=1.0, delta=1e-2, relation=Relation.REPLACE_ONE):
    return Budget(epsilon, delta, relation)
