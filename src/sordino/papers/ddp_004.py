r"""Distributed DP-SRM (Wang, Jayaraman, Evans & Gu 2019, Algorithm 2): ten owners against one who has all records.

    sordino reproduce 004 distributed [--only a9a]

`RecursiveMomentum` is the same in both; only the oracle differs. Problem, penalty, clips, batches and steps are those
of `table2_004`, with the settings that do best there on a fifth of the training records held out (for ijcnn1 at
both budgets those found at .2). delta = 1e-5, replace-one, Poisson batches. Records are dealt to ten owners of equal
size at random. Against t colluders the owners' noise is sqrt(10 / (10 - t)) times the planned one: with t = 0 it is
the planned one, and the guarantee holds against everybody outside the federation only.

    accuracy    all owners in one process, added up in the open: the sums are those of a secure sum, bit for bit
    processes   a9a by ten processes with certificates and MPyC, compared with the same run in one process
    network     MNIST CNN by 1 to 16 owners (t = 0) of all pictures, 468 steps, four epochs of two gradients; and its
                beginning, 30 steps on 8,000 of the pictures

Seeds are fixed: nothing here is private.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sordino.budget import Budget
from sordino.federation.agreement import agree
from sordino.federation.party import RecordHolder
from sordino.federation.plan import FederationPlan, Owner
from sordino.federation.secure_oracle import SecureOracle
from sordino.methods import Cosine, RecursiveMomentum
from sordino.oracle import linear_oracle
from sordino.oracle.protocol import Oracle
from sordino.papers.ddp_report import (
    DISTRIBUTED,
    READING as READING,
    WAYS,
    draw as draw,
    networks_in_full,
    tables as tables,
)
from sordino.papers.experiment import Cell, Known, Value, cell
from sordino.papers.in_the_open import InTheOpen
from sordino.papers.passes import addresses, issue
from sordino.papers.table2_004 import DELTA, PRINTED, Task, load as load, srm
from sordino.privacy.randomness import Randomness

SEEDS = "runs 0 to 11; an owner's noise by 1000 run + owner; records are dealt by 4; networks by 0 and 1000 + owner"
STALE = ("a9a, 0.2, one owner of all", "a9a, 0.2, t = 1")
WHOLE = False
RUNS = 12
OWNERS = 10
# step size times beta, clip over L, mix: the best of the grid of table2_004 on held-out training records
CHOSEN = {
    ("a9a", 0.2): (1.5, 0.75, 0.1),
    ("a9a", 0.5): (3.0, 0.75, 0.3),
    ("ijcnn1", 0.2): (12.0, 0.5, 0.3),
    ("ijcnn1", 0.5): (12.0, 0.5, 0.3),
}


def method_for(task: Task, epsilon: float) -> Any:
    L, beta, _ = task.problem.constants
    stride, clip, mix = CHOSEN[task.name, epsilon]
    passes = int(PRINTED[task.name, epsilon]["DP-SRM"][1])
    C = clip * L
    return srm(len(task.y), passes, 200, stride / beta, C, C / 100, mix, rate=Cosine())


def parts(records: int, owners: int) -> list[np.ndarray]:
    order = np.random.default_rng(4).permutation(records)
    return [np.sort(part) for part in np.array_split(order, owners)]


def plan_for(task: Task, epsilon: float, colluders: int) -> FederationPlan:
    named = tuple(Owner(f"owner {i}", len(part)) for i, part in enumerate(parts(len(task.y), OWNERS)))
    budget = Budget(epsilon, DELTA)
    return FederationPlan(named, task.problem, budget, method_for(task, epsilon), colluders=colluders, rows=task.rows)


def holder(plan: FederationPlan, task: Task, owner: int, seed: int) -> RecordHolder:
    part = parts(len(task.y), OWNERS)[owner]
    problem: Any = plan.local_problem(owner)
    oracle = linear_oracle(task.X[part], task.y[part], problem, task.rows)
    return RecordHolder(oracle, Randomness.seeded(1000 * seed + owner))


def together(plan: FederationPlan, task: Task, seed: int) -> np.ndarray:
    """All owners in this process."""
    holders = [holder(plan, task, owner, seed) for owner in range(OWNERS)]
    oracle = SecureOracle(agree(plan, InTheOpen(OWNERS)), holders)
    weights: np.ndarray = plan.method.run(plan.planned, plan.problem, oracle, oracle.common_randomness()).weights
    return weights


def accuracy(task: Task, epsilon: float, way: str, runs: int) -> dict[str, Any]:
    """Test losses by one owner of all records, or by ten of whom t may collude."""
    method = method_for(task, epsilon)
    plan = method.plan(task.problem, Budget(epsilon, DELTA))
    if way == WAYS[0]:
        oracle = task.oracle()
        seeds = (Randomness.seeded(seed) for seed in range(runs))
        weights = [method.run(plan, task.problem, oracle, randomness).weights for randomness in seeds]
        noise = 1.0
    else:
        federation = plan_for(task, epsilon, int(way.removeprefix("t = ")))
        noise = federation.trust.realise(federation.planned.noise).std / plan.noise.std
        weights = [together(federation, task, seed) for seed in range(runs)]
    facts = {"noise": noise, "steps": plan.steps, "multiplier": plan.noise.multiplier}
    return {"losses": [task.test_loss(w) for w in weights], **facts}


def processes(folder: Path, epsilon: float = 0.5, colluders: int = 4) -> dict[str, Any]:
    """Ten processes, each with its own part of a9a; the digest of their weights, and of the run in one process."""
    task = load(folder, "a9a")
    alone = together(plan_for(task, epsilon, colluders), task, 0)
    with tempfile.TemporaryDirectory() as passes:
        issue(Path(passes), OWNERS)
        setting = json.dumps(
            {"data": str(folder), "epsilon": epsilon, "colluders": colluders, "folder": passes,
             "addresses": addresses(OWNERS)},
            allow_nan=False,
        )  # fmt: skip
        command = [sys.executable, "-m", "sordino.papers.ddp_member"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        members = [
            subprocess.Popen([*command, str(me), setting], stdout=subprocess.PIPE, env=environment)
            for me in range(OWNERS)
        ]
        found = [json.loads(member.communicate()[0].splitlines()[-1]) for member in members]
    digests = {one["weights"] for one in found}
    return {
        "epsilon": epsilon, "colluders": colluders, "test loss": found[0]["test loss"],
        "seconds": max(one["seconds"] for one in found), "sums": found[0]["sums"],
        "bytes by an owner": max(one["bytes"] for one in found),
        "same weights everywhere": len(digests) == 1,
        "bit for bit those of one process": digests == {hashlib.sha256(alone.tobytes()).hexdigest()},
        "certified": found[0]["certified"], "assumed": found[0]["assumed"],
    }  # fmt: skip


def network(folder: Path, m: int, records: int = 8000, steps: int = 30) -> dict[str, Any]:
    """Test accuracy after a few steps of the MNIST CNN by m owners; one owner is the run without a federation."""
    import torch
    from torch import nn

    from sordino.oracle.torch import TorchOracle, load_parameters, network_problem, parameter_vector
    from sordino.papers.networks import accuracy as scored, mnist, small_cnn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    pictures, model = mnist(folder), small_cnn()
    X, y = pictures.X[:records], pictures.y[:records]
    problem, start = network_problem(model, records), parameter_vector(model)
    budget = Budget(7.0, DELTA)
    method = RecursiveMomentum(steps, 256, 1024, step_size=1.0, clip=1.0, difference_clip=0.1, mix=0.1)
    loss = nn.CrossEntropyLoss(reduction="none")
    plan = method.plan(problem, budget)
    if m == 1:
        oracle: Oracle = TorchOracle(model, loss, (X, y), problem)
        randomness = Randomness.seeded(0)
    else:
        dealt = parts(records, m)
        named = tuple(Owner(f"owner {i}", len(part)) for i, part in enumerate(dealt))
        federation = FederationPlan(named, problem, budget, method, colluders=0)
        locals_: list[Any] = [federation.local_problem(i) for i in range(m)]
        holders = [
            RecordHolder(TorchOracle(model, loss, (X[part], y[part]), locals_[i]), Randomness.seeded(1000 + i))
            for i, part in enumerate(dealt)
        ]
        secure = SecureOracle(agree(federation, InTheOpen(m)), holders)
        oracle, randomness = secure, secure.common_randomness()
    load_parameters(model, method.run(plan, problem, oracle, randomness, start).weights)
    right = scored(model, pictures.X_test, pictures.y_test)
    return {"accuracy": right, "records": records, "steps": steps, "epsilon": budget.epsilon}


def cells(folder: Path, quick: bool) -> dict[str, Cell]:
    """Quick: two runs of a9a, all owners in this process."""

    @cache
    def read(name: str) -> Task:
        return load(folder, name)

    def run(name: str, epsilon: float, way: str) -> dict[str, Any]:
        return accuracy(read(name), epsilon, way, 2 if quick else RUNS)

    found: dict[str, Cell] = {}
    for name, epsilon in CHOSEN:
        for way in WAYS:
            if not quick or name == "a9a":
                found[f"{name}, {epsilon:g}, {way}"] = cell(run, name, epsilon, way)
    if not quick:
        found["a9a, ten processes"] = cell(processes, folder)
        for m in (1, 2, 4, 8):
            found[f"MNIST, {m} owners"] = cell(network, folder, m)
        for m in (1, 2, 4, 8, 16):
            found[f"MNIST, {m} owners, in full"] = cell(network, folder, m, 60_000, 468)
    return found


def values(known: Known) -> dict[str, Value]:
    """Test losses, the paper's of DDP-SRM beside those against nobody who colludes; and test errors of the network."""
    found = {}
    for name, epsilon in CHOSEN:
        for way in WAYS:
            if one := known.get(place := f"{name}, {epsilon:g}, {way}"):
                losses = one["losses"]
                error = float(np.std(losses, ddof=1) / len(losses) ** 0.5) if len(losses) > 1 else None
                printed = DISTRIBUTED[name, epsilon] if way == "t = 0" else None
                found[place] = Value(float(np.mean(losses)), error, len(losses), printed)
    for m, one in networks_in_full(known).items():
        found[f"MNIST, {m} owners: test error, %"] = Value(100 - 100 * one["accuracy"], None, 1)
    return found
