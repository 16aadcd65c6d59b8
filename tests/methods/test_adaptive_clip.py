"""DP-SGD whose clip follows the median norm: one release of gradients and of a count."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sordino.budget import Budget, Relation
from sordino.losses import Logistic
from sordino.methods import DPSGD
from sordino.methods.updates import QuantileClip
from sordino.oracle.query import CountedGradient, Gradient
from sordino.penalties import Ridge
from sordino.problem import NetworkProblem, PersonUnit, Problem

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from sordino.certificate import verify  # noqa: E402
from sordino.oracle.torch import TorchOracle, parameter_vector  # noqa: E402
from sordino.privacy.noise import GaussianNoise  # noqa: E402
from sordino.privacy.randomness import Randomness  # noqa: E402
from sordino.torch import fit  # noqa: E402

LOSS = nn.CrossEntropyLoss(reduction="none")
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(7, 4)).astype(np.float32) * np.arange(1, 8, dtype=np.float32)[:, None], RNG.integers(0, 3, 7)


def model():
    torch.manual_seed(0)
    return nn.Linear(4, 3)


def oracle_of(x=X, y=Y, relation="replace_one"):
    return TorchOracle(model(), LOSS, (x, y), NetworkProblem(len(x), 15), relation), parameter_vector(model())


def norms():
    found = []
    for x, y in zip(X, Y, strict=True):
        one = model()
        LOSS(one(torch.from_numpy(x[None])), torch.tensor([y])).sum().backward()
        found.append(math.sqrt(sum(float((parameter.grad**2).sum()) for parameter in one.parameters())))
    return np.array(found)


@pytest.mark.parametrize(
    ("z", "batch", "add_remove", "replace_one"),
    [(1.0, 256, 1.00076381, 1.00306580), (0.7, 4096, 0.70000102, 0.70000409), (2.0, 512, 2.00152763, 2.00613160)],
)
def test_the_gradients_have_the_noise_that_the_count_leaves_them(z, batch, add_remove, replace_one):
    """(z^-2 - sigma_b^-2)^(-1/2) under replace-one, with 2 sigma_b under add/remove; sigma_b = batch/20."""
    for relation, expected in (("add_remove", add_remove), ("replace_one", replace_one)):
        budget = Budget(1e6, 1e-5, relation)
        multiplier = z * budget.relation.distance
        method = DPSGD(1, batch, 0.1, 3.0, clipping="adaptive", noise_multiplier=multiplier)
        plan = method.plan(NetworkProblem(60_000, 100), budget)
        a = math.sqrt(1 - plan.update.count_weight**2 / 4)
        assert plan.noise.std / a / plan.noise.sensitivity == pytest.approx(expected, rel=1e-6)
        # of the count, in records
        assert plan.noise.std / plan.update.count_weight == pytest.approx(batch / 20, rel=1e-6)
        assert plan.noise.dim == 101
        # the event is that of the whole
        assert plan.noise.multiplier == pytest.approx(z, rel=1e-6)


@pytest.mark.parametrize("relation", Relation)
def test_a_count_that_leaves_nothing_is_refused(relation):
    method = DPSGD(1, 32, 0.1, 3.0, clipping="adaptive", noise_multiplier=4.0)
    with pytest.raises(ValueError, match="use larger batches"):
        method.plan(NetworkProblem(60_000, 100), Budget(1e6, 1e-5, relation))
    enough = replace(method, noise_multiplier=3.0).plan(NetworkProblem(60_000, 100), Budget(1e6, 1e-5, relation))
    assert 0 < enough.update.count_weight < 2


@pytest.mark.parametrize(
    "problem", [Problem(100, 3, Logistic()), NetworkProblem(100, 3, person=PersonUnit(2))], ids=["linear", "persons"]
)
def test_what_it_is_not_for(problem):
    with pytest.raises(ValueError, match="clipping is 'adaptive'"):
        DPSGD(5, 50, 0.1, 1.0, clipping="adaptive").plan(problem, Budget(1.0, 1e-5))


def test_the_count_is_that_of_gradients_within_the_clip():
    oracle, w = oracle_of()
    for clip in (0.5 * norms().min(), float(np.median(norms())) * 1.05, 2 * norms().max()):
        query = CountedGradient(Gradient(w, clip), 0.4)
        found = oracle._counted(query)
        # clips leave room for the rounding of sums
        near = np.abs(norms() / clip - 1) < 0.03
        within = (norms() <= clip).sum()
        assert not near.any()
        assert found[-1] / 0.4 == pytest.approx(within - 3.5, abs=1e-5)
        plain = oracle._answer(Gradient(w, clip)).copy()
        np.testing.assert_allclose(found[:-1], math.sqrt(1 - 0.04) / clip * plain, rtol=1e-5)


def test_a_record_moves_the_release_by_one():
    """Searched for among records of all lengths: what one adds, and what replacing one changes."""
    oracle, w = oracle_of()
    for weight in (0.1, 1.0, 1.9):
        farthest = longest = 0.0
        for clip in (0.3, 5.0, 1e3):
            queries = [CountedGradient(Gradient(w, clip, np.array([i])), weight) for i in range(7)]
            alone = [oracle._counted(query).copy() for query in queries]
            longest = max(longest, *(np.linalg.norm(one) for one in alone))
            farthest = max(farthest, *(np.linalg.norm(one - other) for one in alone for other in alone))
        assert 0.95 < longest <= queries[0].sensitivity(Relation.ADD_REMOVE) == 1
        assert farthest <= queries[0].sensitivity(Relation.REPLACE_ONE) == 2


def test_noise_for_less_is_refused():
    oracle, w = oracle_of()
    query = CountedGradient(Gradient(w, 5.0), 0.4)
    with pytest.raises(ValueError, match="calibrate the noise to the query"):
        oracle.release(query, GaussianNoise.at(1.0, 1.9, 16), Randomness.seeded(0))
    assert oracle.release(query, GaussianNoise.at(1.0, 2.0, 16), Randomness.seeded(0)).shape == (16,)
    for wrong in (0.0, 2.0, -1.0):
        with pytest.raises(ValueError, match="count_weight"):
            CountedGradient(Gradient(w, 5.0), wrong)


def test_the_clip_finds_the_median():
    """By the update alone, on norms 1, .., 100 without noise."""
    update, memory, w = QuantileClip(0.0, 1e-2, 0.5), np.zeros((2, 3)), np.zeros(3)
    for t in range(200):
        C = update.query(Gradient(w, 99.0), memory, t).gradient.clip
        share = np.mean(np.arange(1, 101) <= C)
        g = np.array([0.0, 0.0, 0.0, 0.5 * (share - 0.5)])
        update.move(w, g, Ridge(), 0.1, memory, t)
    assert 45 <= C <= 56
    # and no farther than 10^4 of the first
    for t in range(2000):
        update.move(w, np.array([0.0, 0.0, 0.0, -0.25]), Ridge(), 0.1, memory, t)
    assert update.query(Gradient(w, 99.0), memory, 0).gradient.clip == pytest.approx(100.0)


@pytest.mark.parametrize("relation", Relation)
def test_a_run_is_certified(relation):
    given = {} if relation is Relation.REPLACE_ONE else {"records": 700}
    data = np.tile(X, (100, 1)), np.tile(Y, 100)
    method = DPSGD(step_size=0.1, clip=1.0, clipping="adaptive", momentum=0.5)
    result = fit(
        model(), LOSS, data, method=method, budget=Budget(3.0, 1e-4, relation), steps=3, batch_size=400, **given
    )
    assert all(finding.holds for finding in verify(result.certificate))
    assert np.isfinite(parameter_vector(result.model)).all()
