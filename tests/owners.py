"""A small federation for tests: records divided among owners, their parties, and a run of all members in threads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from in_the_open import InTheOpen
from rehearsal import Rehearsal, together
from sordino.budget import Budget
from sordino.federation.agreement import agree
from sordino.federation.mpyc_engine import MpycAggregation
from sordino.federation.party import RecordHolder, Server
from sordino.federation.plan import FederationPlan, Owner
from sordino.federation.secure_oracle import SecureOracle
from sordino.losses import Logistic
from sordino.methods import NoisyGradientDescent
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.train import train

ROWS = Rows(1.0)
BUDGET = Budget(2.0, 1e-5)
METHOD = NoisyGradientDescent(steps=3, step_size=1.0, release="average")


def data(records=60, features=4, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(records, features))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X @ generator.normal(size=features) > 0).astype(float)


def shares_of(records, owners):
    """Unequal parts: the k-th owner has about k times as many records as the first."""
    weights = np.arange(1, owners + 1)
    edges = np.concatenate([[0], np.cumsum(weights) * records // weights.sum()])
    return [slice(int(a), int(b)) for a, b in pairwise(edges)]


def plan_for(owners, method=METHOD, records=60, features=4, budget=BUDGET, **settings):
    parts = shares_of(records, owners)
    named = tuple(Owner(f"owner {i}", part.stop - part.start) for i, part in enumerate(parts))
    return FederationPlan(named, Problem(records, features, Logistic()), budget, method, rows=ROWS, **settings)


def party(plan, member, X, y, seed=None, convert=np.asarray):
    # a server's bits do not depend on how many owners there are
    number = member if member < len(plan.owners) else 500 + member - len(plan.owners)
    randomness = Randomness.system() if seed is None else Randomness.seeded(1000 * seed + number)
    if member >= len(plan.owners):
        return Server(randomness)
    part = shares_of(len(X), len(plan.owners))[member]
    oracle = linear_oracle(convert(X[part]), y[part], plan.local_problem(member), plan.rows, plan.relation)
    return RecordHolder(oracle, randomness)


def take_part(agreement, open_party):
    """Follow the agreed method in lock step with the other members. Nobody's records are opened before all agreed."""
    plan, oracle = agreement.plan, SecureOracle(agreement, [open_party()])
    randomness = oracle.common_randomness()
    return train(plan.problem, plan.budget, plan.method, oracle, randomness, plan.rows, assumed=plan.assumed)


def train_together(plan, X, y, seed=None, convert=np.asarray):
    """Every member in a thread of its own, adding up by shares."""
    meshes = Rehearsal(plan.trust.members).meshes()

    def member(mesh):
        agreement = agree(plan, MpycAggregation.among(plan.trust, mesh))
        return take_part(agreement, lambda: party(plan, mesh.me, X, y, seed, convert))

    try:
        return together([lambda mesh=mesh: member(mesh) for mesh in meshes])
    finally:
        for mesh in meshes:
            mesh.close()


def in_the_open(plan, X, y, seed=0):
    """One oracle that speaks for all members."""
    members = plan.trust.members
    agreement = agree(plan, InTheOpen(members, Randomness.seeded(77).noise))
    return SecureOracle(agreement, [party(plan, member, X, y, seed) for member in range(members)])
