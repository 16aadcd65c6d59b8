"""Every answer about records in files is the answer about the same records in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import plain_gradients as plain
import stored
from sordino.domains import Ball
from sordino.losses import Hinge, Logistic, MoreauSmoothed, Softmax, Squared
from sordino.oracle import linear_oracle
from sordino.oracle.files import source as source_module
from sordino.oracle.files.partition import StreamedBlocks
from sordino.oracle.query import ClippedLoss, Difference, Gradient, Recursion
from sordino.oracle.rows import Rows
from sordino.penalties import Ridge
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

RECORDS, FEATURES = 1037, 5
SOME = np.array([0, 1, 255, 256, 300, 301, 511, 700, 1036])
MANY = np.arange(3, RECORDS, 2)
NOBODY = np.empty(0, dtype=np.intp)


@dataclass(frozen=True)
class Silence:
    """Noise that adds nothing, to look at the sum itself."""

    sensitivity: float

    def perturb(self, value, randomness):
        return value


def records(loss, kind=np.float64):
    """With rows too long, features and targets that are missing, and numbers that are the same in either precision."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(RECORDS, FEATURES)) * rng.choice([0.3, 1.0, 30.0], (RECORDS, 1))
    X[[7, 400], 2], X[8, 0] = np.nan, np.inf
    y = plain.targets(loss, RECORDS, rng)
    y[[9, 600]] = np.nan
    return X.astype(np.float32).astype(kind), y


def public(loss, rho=0.4, mu=0.1):
    return Problem(RECORDS, FEATURES + 1, loss, penalty=Ridge(mu), domain=Ball(4.0)), Rows(2.0, intercept=rho)


def answers(oracle, loss, dim):
    """One of everything that can be asked."""
    stack = np.random.default_rng(1).normal(size=(9, dim)) * 0.5
    far, nothing = stack + 0.1, Randomness.seeded(0)
    found = {}
    for name, at, since in (("one", stack[0], far[0]), ("two", stack[:2], far[:2]), ("nine", stack, far)):
        for which, batch in (("all", None), ("some", SOME), ("many", MANY), ("nobody", NOBODY)):
            gradient, moved = Gradient(at, 0.3, batch), Difference(at, since, 0.05, batch)
            for query in (gradient, moved, Recursion(moved, gradient, 0.25)):
                found[type(query).__name__, name, which] = oracle.release(query, Silence(1e9), nothing)
            found["gradient", name, which] = oracle.gradient(at, batch)
        found["value", name] = oracle.value(at)
        found["loss", name] = oracle.release(ClippedLoss(at, 0.7), Silence(1e9), nothing)
    if loss.outputs == 1:
        found["curvature"] = oracle.curvature_product(stack[0])(far[0])
    outside, inside = oracle.divide(
        MANY,
        replace(oracle.model.problem, records=RECORDS - len(MANY)),
        replace(oracle.model.problem, records=len(MANY)),
    )
    for name, part in (("outside", outside), ("inside", inside)):
        found[name, "all"] = part.release(Gradient(stack, 0.3), Silence(1e9), nothing)
        found[name, "some"] = part.gradient(stack[0], np.array([0, 128, 129, 500]))
        found[name, "value"] = part.value(stack)
        again = part.divide(
            np.arange(0, len(part), 3),
            replace(oracle.model.problem, records=len(part) - -(-len(part) // 3)),
            replace(oracle.model.problem, records=-(-len(part) // 3)),
        )
        found[name, "again"] = np.array([p.value(stack[0]) for p in again])
    return found


LOSSES = (Logistic(), Softmax(3), Squared(target_bound=0.8), MoreauSmoothed(Hinge(), 4.0))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("form", stored.FORMS)
@pytest.mark.parametrize("loss", LOSSES, ids=plain.label)
def test_one_block_has_the_bits_of_memory(tmp_path, form, loss, kind):
    X, y = records(loss, kind)
    problem, rows = public(loss)
    source = stored.FORMS[form](tmp_path, X, y)
    assert source.units.block > RECORDS
    streamed = linear_oracle(source, None, problem, rows)
    assert isinstance(streamed.blocks, StreamedBlocks)
    want = answers(linear_oracle(X, y, problem, rows), loss, problem.dim)
    for name, answer in answers(streamed, loss, problem.dim).items():
        np.testing.assert_array_equal(answer, want[name], err_msg=str(name))


@pytest.mark.parametrize("loss", LOSSES, ids=plain.label)
def test_many_blocks(tmp_path, loss, monkeypatch):
    """The same to rounding as in memory, and the same bits whatever the files look like."""
    monkeypatch.setattr(source_module, "_NUMBERS", 1)
    X, y = records(loss, np.float32)
    problem, rows = public(loss)
    memory, first = answers(linear_oracle(X, y, problem, rows), loss, problem.dim), None
    for name, form in stored.FORMS.items():
        (tmp_path / name).mkdir()
        source = form(tmp_path / name, X, y)
        assert source.units.block == 256
        found = answers(linear_oracle(source, None, problem, rows), loss, problem.dim)
        first = first or found
        for key, answer in found.items():
            np.testing.assert_allclose(answer, memory[key], rtol=1e-12, atol=1e-12, err_msg=str(key))
            np.testing.assert_array_equal(answer, first[key], err_msg=str((name, key)))
