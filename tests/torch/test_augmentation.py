"""Copies of a record: one contribution, made of that record alone."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from sordino.budget import Budget, Relation
from sordino.certificate import verify
from sordino.methods import DPSGD
from sordino.oracle.query import Gradient
from sordino.oracle.torch import TorchOracle, parameter_vector
from sordino.privacy.randomness import Randomness
from sordino.problem import NetworkProblem
from sordino.torch import Copies, Mirror, Shift, fit
from sordino.torch.augmentation import WithCopies, mean_loss

LOSS = nn.CrossEntropyLoss(reduction="none")
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 1, 4, 5)).astype(np.float32), RNG.integers(0, 3, 6)


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3))


def oracle_of(copies, x=X, y=Y, model=None):
    model = model or small()
    problem = NetworkProblem(len(x), parameter_vector(model).size)
    return TorchOracle(WithCopies(model, copies), mean_loss(LOSS), (x, y), problem), parameter_vector(model)


def answers(copies, clip, x=X, y=Y, times=1, model=None):
    oracle, w = oracle_of(copies, x, y, model)
    stream = Randomness.seeded(0).sampling
    return np.array([oracle._answer(Gradient(w, clip), stream).copy() for _ in range(times)])


def gradient(x, y):
    model = small()
    LOSS(model(torch.from_numpy(x)), torch.from_numpy(y)).sum().backward()
    return np.concatenate([parameter.grad.numpy().ravel() for parameter in model.parameters()]).astype(float)


def clipped(g, clip):
    return g * min(1.0, clip / np.linalg.norm(g))


def test_the_mean_over_the_copies_is_clipped_as_one():
    """Each of three copies is mirrored or not: the answer is one of the eight that can be."""
    clip = 0.7 * np.linalg.norm(gradient(X[:1], Y[:1]))
    two = gradient(X[:1], Y[:1]), gradient(X[:1, ..., ::-1].copy(), Y[:1])
    possible = [clipped(sum(some) / 3, clip) for some in itertools.product(two, repeat=3)]
    found = answers(Copies(3, Mirror()), clip, X[:1], Y[:1], times=12)
    near = [min(range(8), key=lambda k: np.linalg.norm(possible[k] - one)) for one in found]
    for one, k in zip(found, near, strict=True):
        # clips leave room for the rounding of sums
        np.testing.assert_allclose(one, possible[k], rtol=0.03, atol=1e-3)
    assert len({round(float(np.linalg.norm(possible[k])), 9) for k in near}) > 1 or len(set(near)) > 1


@pytest.mark.parametrize("changes", [(Mirror(),), (Shift(2), Mirror())])
def test_no_record_adds_more_than_the_clip(changes):
    oracle, w = oracle_of(Copies(3, *changes))
    for clip in (1e-3, 0.1):
        for i in range(len(X)):
            norm = np.linalg.norm(oracle._answer(Gradient(w, clip, np.array([i]))))
            assert 0.9 * clip <= norm <= clip


def test_a_shift_is_one_of_the_shifts():
    x = torch.from_numpy(X)
    padded = nn.functional.pad(x, (2, 2, 2, 2))
    torch.manual_seed(0)
    seen = set()
    for _ in range(40):
        for number, picture in enumerate(Shift(2)(x)):
            which = [
                (r, c)
                for r, c in itertools.product(range(5), repeat=2)
                if torch.equal(picture, padded[number, :, r : r + 4, c : c + 5])
            ]
            assert len(which) >= 1
            seen.add(which[0])
    assert len(seen) == 25


def test_a_records_copies_are_its_own():
    """Beside other records, the sum differs by what they add: here nothing, as their numbers are none."""
    copies = Copies(2, Shift(1), Mirror())
    spoiled = X.copy()
    spoiled[1:] = np.nan
    assert np.all(np.linalg.norm(answers(copies, 0.01, spoiled, times=4), axis=1) <= 0.01)


class LooksAround:
    """Takes the mean over its batch off."""

    def __call__(self, x):
        return x - x.mean(dim=0, keepdim=True)


class Counts:
    """Adds how often it was asked."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x + self.calls / 100


def test_a_change_that_looks_at_its_batch_is_refused():
    with pytest.raises(ValueError, match="mixes records"):
        oracle_of(Copies(2, LooksAround()))


def test_a_random_change_that_looks_at_its_batch_sees_one_record():
    """With random numbers nobody can compare batches; each record is computed alone, whatever is meant."""
    far = X.copy()
    far[1:] = 1e3
    copies = Copies(1, LooksAround(), Mirror())
    # every picture less the mean of itself is nothing: all gradients are the same, whoever else is there
    one = answers(copies, 10.0, X, np.zeros(6, int))[0]
    np.testing.assert_allclose(answers(copies, 10.0, far, np.zeros(6, int))[0], one, rtol=1e-6)


def test_what_a_change_remembers_is_no_record():
    """One that goes by how often it was asked is refused; with random numbers, what it did once is repeated."""
    with pytest.raises(ValueError, match="mixes records"):
        oracle_of(Copies(2, Counts()))
    counts = Counts()
    oracle, w = oracle_of(Copies(1, counts, Mirror()))
    oracle._answer(Gradient(w, 0.1))
    before = counts.calls
    oracle._answer(Gradient(w, 0.1))
    assert counts.calls == before


@pytest.mark.parametrize("relation", Relation)
def test_a_fit_with_copies_is_certified(relation):
    budget = Budget(3.0, 1e-4, relation)
    given = {} if relation is Relation.REPLACE_ONE else {"records": 6}
    method = DPSGD(steps=2, batch_size=3, step_size=0.1, clip=1.0)
    result = fit(small(), LOSS, (X, Y), method=method, budget=budget, augment=Copies(2, Shift(1)), **given)
    assert "mean of 2 copies of every record by Shift(pixels=1)" in result.certificate.problem.model
    assert all(finding.holds for finding in verify(result.certificate))
    # copies cost nothing
    plain = fit(small(), LOSS, (X, Y), method=method, budget=budget, **given)
    assert plain.certificate.plan == result.certificate.plan
    assert plain.certificate.event == result.certificate.event


def test_sentences():
    with pytest.raises(ValueError, match="at least one"):
        Copies(0, Mirror())
    with pytest.raises(ValueError, match="name changes"):
        Copies(2)
    with pytest.raises(ValueError, match="at least 1"):
        Shift(0)
