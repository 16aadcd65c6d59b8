"""PyTorch's own threads, for loops that are not its own."""

import os

import numpy as np
import pytest
import torch
from torch import nn

from children import ended, in_a_child
from sordino.oracle.query import Difference, Gradient, Recursion
from sordino.oracle.torch import TorchOracle, network_problem, openmp, parameter_vector
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.privacy.team import ALONE, LEAST, beside, present
from teams import made_up

needs_threads = pytest.mark.skipif(not openmp._entry(), reason="this PyTorch has no threads of OpenMP")


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)


@needs_threads
def test_they_are_as_many_as_pytorch_may_use(monkeypatch):
    for threads in (2, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert openmp.team().threads == threads
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert openmp.team() is ALONE


def test_without_openmp_there_is_one_thread(monkeypatch, two_threads):
    monkeypatch.setattr(openmp, "_entry", lambda: 0)
    assert openmp.team() is ALONE


@needs_threads
@pytest.mark.parametrize("dim", [LEAST, 300_001])
def test_they_draw_the_bits_of_one(two_threads, dim):
    noise, value = GaussianNoise.at(1.0, 2.0, dim), np.linspace(-3, 3, dim)
    expected = noise.perturb(value, Randomness.seeded(5))
    with beside(openmp.team()):
        np.testing.assert_array_equal(noise.perturb(value, Randomness.seeded(5)), expected)


def released(monkeypatch, team, query):
    """The release of a network whose batch has two blocks."""
    monkeypatch.setattr(openmp, "team", lambda: team)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(200, 180), nn.Tanh(), nn.Linear(180, 3))
    X, y = torch.randn(300, 200), torch.arange(300) % 3
    problem = network_problem(model, 300)
    assert problem.dim >= LEAST
    oracle = TorchOracle(model, nn.CrossEntropyLoss(reduction="none"), (X, y), problem)
    w = parameter_vector(model)
    gradient = Gradient(w, 1.0)
    if query == "recursion":
        gradient = Recursion(Difference(w, w + 0.01, 1.0), gradient, 0.1)
    # rows are compared in every piece of the norms, of the grid, of the weights and of the noise
    return oracle.release(gradient, GaussianNoise.at(1.0, 2.0, problem.dim), Randomness.seeded(2))


@pytest.mark.parametrize("query", ["gradient", "recursion"])
def test_a_release_does_not_depend_on_them(monkeypatch, query):
    used = []
    monkeypatch.setattr("sordino.privacy.noise.present", lambda size: used.append(present(size)) or used[-1])
    alone = released(monkeypatch, ALONE, query)
    for team in (made_up(2), made_up(7)):
        np.testing.assert_array_equal(released(monkeypatch, team, query), alone)
        assert used[-1] is team
    assert present(LEAST) is ALONE


@needs_threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_wait_for_its_parents_threads(two_threads):
    noise = GaussianNoise.at(1.0, 2.0, LEAST)
    value = np.zeros(LEAST)
    with beside(openmp.team()):
        noise.perturb(value, Randomness.seeded(1))

    def work():
        with beside(openmp.team()):
            assert openmp.team() is ALONE
            assert noise.perturb(value, Randomness.seeded(1)).any()

    assert ended([in_a_child(work)]) == [0]
