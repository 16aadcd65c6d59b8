"""What a network's records may reveal: bounded shares, whatever a record holds, and noise on every answer."""

import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import torch_networks as nets
from sordino.budget import Relation
from sordino.oracle.query import Difference, Gradient, Recursion
from sordino.oracle.sampling import FixedSize, FullBatch, Poisson
from sordino.oracle.torch import TorchOracle, matrix, pairs, passes
from sordino.oracle.torch.norms import _Operations
from sordino.oracle.torch.rounding import pivot
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness

KINDS = ["gradient", "difference", "recursion", "automatic"]
# in double precision what is left is the grid of the sums
TOLERANCE = {torch.float32: 3e-6, torch.float64: 1e-6}


def oracle_of(model, data, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TorchOracle(model, nets.CROSS_ENTROPY, data, nets.problem_of(model, len(data[0])), **settings)


def query_of(kind, model, batch=None, clip=0.3, near=0.05, apart=0.1):
    at, since = nets.two_points(model, apart)
    gradient, difference = Gradient(at, clip, batch), Difference(at, since, near, batch)
    return {
        "gradient": gradient,
        "difference": difference,
        "recursion": Recursion(difference, gradient, 0.3),
        "automatic": Gradient(at, clip, batch, softening=0.01),
    }[kind]


def close(a, b, dtype):
    return np.linalg.norm(a - b) <= TOLERANCE[dtype] * max(np.linalg.norm(b), 1e-30)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", nets.named())
def test_no_record_counts_for_more_than_its_clip(name, dtype):
    network = nets.NETWORKS[name]
    model, data = network.model(dtype), network.data(dtype)
    oracle = oracle_of(model, data)
    for kind, (clip, near) in itertools.product(KINDS, ((1e-3, 1e-4), (0.3, 0.05), (1e3, 1e3))):
        query = query_of(kind, model, clip=clip, near=near)
        for record in range(nets.RECORDS):
            share = oracle._answer(query_of(kind, model, np.array([record]), clip, near))
            assert np.linalg.norm(share) <= query.clip


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
@pytest.mark.parametrize("name", nets.named(where=lambda network: not network.words))
def test_a_spoiled_record_stays_within_its_clip_and_spoils_no_other(name, bad):
    model, (X, y) = nets.NETWORKS[name].model(torch.float32), nets.NETWORKS[name].data(torch.float32)
    spoiled = X.clone()
    spoiled[6].view(-1)[::2] = bad
    others = np.delete(np.arange(nets.RECORDS), 6)
    oracle = oracle_of(model, (spoiled, y))
    for kind in KINDS:
        expected = oracle._answer(query_of(kind, model, others)).copy()
        assert np.isfinite(expected).all()
        alone = oracle._answer(query_of(kind, model, np.array([6]))).copy()
        assert np.isfinite(alone).all()
        assert np.linalg.norm(alone) <= query_of(kind, model).clip
        # an infinite number may pass through a bounded activation, and come out as an ordinary one
        if math.isnan(bad):
            assert not alone.any()
        assert close(oracle._answer(query_of(kind, model)), expected + alone, torch.float32)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", nets.named())
def test_a_record_whose_loss_is_not_finite_counts_for_nothing(name):
    """For words, which cannot hold a NaN themselves."""
    model, (X, y) = nets.NETWORKS[name].model(), nets.NETWORKS[name].data()
    y = y.double()
    y[4] = math.nan

    def loss(outputs, targets):
        return nets.CROSS_ENTROPY(outputs, targets.nan_to_num(0).long()) * (1 + 0 * targets)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = TorchOracle(model, loss, (X, y), nets.problem_of(model))
    others = np.delete(np.arange(nets.RECORDS), 4)
    for kind in KINDS:
        expected = oracle._answer(query_of(kind, model, others)).copy()
        assert close(oracle._answer(query_of(kind, model)), expected, torch.float64)


@pytest.mark.parametrize(
    "name",
    ["linear", "conv2d, twice", *(pytest.param(n, marks=pytest.mark.slow) for n in ("transformer", "lstm"))],
)
def test_passes_and_order_do_not_matter(name):
    """But for the clip, which leaves more room for the rounding of larger blocks."""
    model, (X, y) = nets.NETWORKS[name].model(), nets.NETWORKS[name].data()
    X, y = X.repeat(4, *[1] * (X.ndim - 1)), y.repeat(4)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(1))
    oracles = [oracle_of(model, (X, y), chunk=chunk) for chunk in (1, 64)]
    oracles.append(oracle_of(model, (X[order], y[order]), chunk=1))
    # automatic clipping scales everything, hence the room for rounding too
    for kind in KINDS[:3]:
        answers = [oracle._answer(query_of(kind, model, clip=100.0, near=100.0)).copy() for oracle in oracles]
        # blocks are rounded to a grid whose step is small beside the clip
        np.testing.assert_allclose(answers[1], answers[0], rtol=0, atol=100 * 2.0**-23)
        np.testing.assert_allclose(answers[2], answers[0], rtol=0, atol=100 * 2.0**-23)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in nets.NETWORKS if "positions" in name or "conv" in name])
def test_gradients_that_are_too_large_to_keep_are_measured_in_blocks(name, kind, monkeypatch):
    model, data = nets.NETWORKS[name].model(torch.float32), nets.NETWORKS[name].data(torch.float32)
    query = query_of(kind, model)
    expected = oracle_of(model, data)._answer(query).copy()
    for module in ("matrix", "patches"):
        monkeypatch.setattr(f"sordino.oracle.torch.{module}.KEEP", 0)
    monkeypatch.setattr(pairs, "TEMPORARY", 300)
    answer = oracle_of(model, data)._answer(query)
    assert np.linalg.norm(answer - expected) <= 1e-4 * np.linalg.norm(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_many_positions_are_kept_where_there_is_room(kind, monkeypatch):
    """Where there is none, inner products tell their norms, and they are computed for the sum alone."""
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Flatten(), nn.Linear(16 * 64, nets.CLASSES)).float()
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(20, 16, 64, generator=generator), torch.randint(nets.CLASSES, (20,), generator=generator)
    query, answers = query_of(kind, model), []
    for room in (1 << 26, 0):
        monkeypatch.setattr(matrix, "ROOM", room)
        oracle = oracle_of(model, data)
        answers.append(oracle._answer(query).copy())
        (clipping,) = oracle._clippings.values()
        assert all((found[0, 64 * 64].rows is not None) == (room > 0) for found in clipping._parts)
        # what they are made of need not stay
        kept = [each for memory, _ in oracle._books for each in memory.results if each.shape[1:] == (16, 64)]
        assert bool(kept) == (room == 0)
    assert np.linalg.norm(answers[1] - answers[0]) <= 1e-3 * np.linalg.norm(answers[0])


def test_passes_are_short_where_records_leave_much_behind(monkeypatch):
    model, (X, y) = nets.NETWORKS["linear"].model(), nets.NETWORKS["linear"].data()
    X, y = X.repeat(8, 1)[:100], y.repeat(8)[:100]
    whole = oracle_of(model, (X, y), chunk=100)
    query, each = query_of("gradient", model, clip=100.0), 8 * whole._passes._layout.numbers
    # the input and the gradient at the output, of every layer
    assert each == 8 * sum(layer.in_features + layer.out_features for layer in model if isinstance(layer, nn.Linear))
    assert whole._passes.rows == 112
    # equal ones, and never fewer rows than 16
    for room, rows in ((64 * each, 64), (40 * each, 32), (1, 16)):
        monkeypatch.setattr(passes, "TOGETHER", room)
        short = oracle_of(model, (X, y), chunk=100)
        assert short._passes.rows == short._block == rows
        np.testing.assert_allclose(short._answer(query), whole._answer(query), rtol=0, atol=100 * 2.0**-23)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_automatic_clipping_scales_every_gradient(dtype, monkeypatch):
    """To clip |g| / (|g| + softening), but for the room that rounding takes; by loops and by PyTorch's operations."""
    network = nets.NETWORKS["linear"]
    model, data = network.model(dtype), network.data(dtype)
    at, _ = nets.two_points(model)
    exact = nets.gradients(network.model(), network.data(), at)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    expected = (5.0 * exact / (lengths + 0.5)).sum(0)
    for loops in (True, False):
        if not loops:
            monkeypatch.setattr("sordino.oracle.torch.norms._Loops", _Operations)
        answer = oracle_of(model, data)._answer(Gradient(at, 5.0, softening=0.5))
        assert np.linalg.norm(answer - expected) <= 2e-2 * np.linalg.norm(expected)
    # shorter ones than the clip are scaled too
    assert (lengths < 5.0).any()


def test_near_points_lose_little_to_cancellation():
    """At a step of 1e-5 in single precision, what is left is in the output gradients themselves."""
    network = nets.NETWORKS["linear"]
    model, data = network.model(torch.float32), network.data(torch.float32)
    at, since = nets.two_points(model, 1e-5)
    exact = nets.gradients(model, data, at) - nets.gradients(model, data, since)
    clip = float(np.median(np.linalg.norm(exact, axis=1)))
    expected = nets.clipped(exact, clip).sum(0)
    answer = oracle_of(model, data)._answer(Difference(at, since, clip))
    assert np.linalg.norm(answer - expected) <= 5e-3 * np.linalg.norm(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_batch_releases_noise_alone(kind):
    model, data = nets.NETWORKS["linear"].model(), nets.NETWORKS["linear"].data()
    oracle = oracle_of(model, data)
    oracle._answer(query_of(kind, model))
    query = query_of(kind, model, np.array([], dtype=np.intp))
    noise = GaussianNoise.at(1.0, 2 * query.clip, query.at.size)
    released = oracle.release(query, noise, Randomness.seeded(4))
    assert np.array_equal(released, noise.perturb(np.zeros(query.at.size), Randomness.seeded(4)))


@pytest.mark.parametrize("kind", KINDS)
def test_one_block_is_answered_as_it_was_summed_and_several_on_the_grid(kind):
    model, (X, y) = nets.NETWORKS["linear"].model().float(), nets.NETWORKS["linear"].data(torch.float32)
    oracle = oracle_of(model, (X.repeat(5, 1)[:40], y.repeat(5)[:40]), chunk=16)
    query = query_of(kind, model, np.arange(16))
    one = oracle._answer(query).copy()
    shares = oracle._shares(query)
    step = pivot(sum(share.clip * share.factor for share in shares)) / (1.5 * 2.0**52)
    assert one.dtype == np.float32
    assert not np.array_equal(one, np.rint(one / step) * step)
    several = [oracle._answer(query_of(kind, model, np.arange(n))).copy() for n in (17, 40)]
    for answer in several:
        assert answer.dtype == np.float64
        assert np.array_equal(answer, np.rint(answer / step) * step)
    # the seventeenth record, and what rounding adds
    assert np.linalg.norm(several[0] - one) <= query.clip


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_is_the_answer_with_the_librarys_noise(kind):
    model, data = nets.NETWORKS["linear"].model(), nets.NETWORKS["linear"].data()
    oracle = oracle_of(model, data)
    query = query_of(kind, model)
    noise = GaussianNoise.at(1.0, 2 * query.clip, query.at.size)
    expected = noise.perturb(oracle._answer(query).copy(), Randomness.seeded(2))
    released = oracle.release(query, noise, Randomness.seeded(2))
    assert released.dtype == np.float64
    assert np.array_equal(released, expected)
    # the caller may keep it: the next answer is written elsewhere
    kept = released.copy()
    oracle.release(query, noise, Randomness.seeded(3))
    assert np.array_equal(released, kept)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("kind", KINDS)
def test_noise_for_a_smaller_sensitivity_is_refused(kind, relation):
    model, data = nets.NETWORKS["linear"].model(), nets.NETWORKS["linear"].data()
    oracle = oracle_of(model, data, relation=relation)
    query = query_of(kind, model)
    needed = query.sensitivity(relation)
    oracle.release(query, GaussianNoise(needed, 1.0, query.at.size), Randomness.seeded(0))
    with pytest.raises(ValueError, match="calibrate the noise to the query"):
        oracle.release(query, GaussianNoise(0.99 * needed, 1.0, query.at.size), Randomness.seeded(0))


def test_batches_are_drawn_as_from_any_oracle():
    model, data = nets.NETWORKS["linear"].model(), nets.NETWORKS["linear"].data()
    oracle = oracle_of(model, data)
    assert oracle.draw(FullBatch(), Randomness.seeded(1)) is None
    assert len(oracle.draw(FixedSize(4), Randomness.seeded(1))) == 4
    batch = oracle.draw(Poisson(0.5), Randomness.seeded(1))
    assert np.array_equal(batch, oracle.draw(Poisson(0.5), Randomness.seeded(1)))
    with pytest.raises(ValueError, match="each at most once"):
        oracle._answer(query_of("gradient", model, np.array([2, 2])))


def test_the_model_and_the_records_are_left_alone():
    network = nets.NETWORKS["linear, in-place activation"]
    model, (X, y) = network.model(), network.data()
    model = nn.Sequential(nn.ReLU(inplace=True), model)
    before = [parameter.detach().clone() for parameter in model.parameters()], X.clone()
    hooks = [len(module._forward_hooks) for module in model.modules()]
    oracle = oracle_of(model, (X, y))
    at, since = nets.two_points(model)
    expected = nets.gradients(model, (X, y), at) - nets.gradients(model, (X, y), since)
    X_given = X.clone()
    for batch in (None, np.arange(nets.RECORDS)):
        assert close(oracle._answer(Difference(at, since, 100.0, batch)), expected.sum(0), torch.float64)
    assert torch.equal(X, X_given)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before[0], strict=True))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert [len(module._forward_hooks) for module in model.modules()] == hooks


def test_dropout_draws_the_same_at_both_points_and_anew_for_every_release():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 40), nn.Dropout(0.5), nn.Linear(40, nets.CLASSES)).double()
    data = nets.NETWORKS["linear"].data()
    oracle = oracle_of(model, data)
    at, _ = nets.two_points(model)
    assert not oracle._answer(Difference(at, at.copy(), 1.0)).any()
    first, second = (oracle._answer(Gradient(at, 1.0)).copy() for _ in range(2))
    assert not np.allclose(first, second)
    evaluated = oracle_of(model.eval(), data)
    first, second = (evaluated._answer(Gradient(at, 1.0)).copy() for _ in range(2))
    assert np.array_equal(first, second)


def test_gradients_of_single_records_are_not_stored(monkeypatch):
    """No tensor of a pass is as large as the records' gradients would be."""
    from torch.utils._python_dispatch import TorchDispatchMode

    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            out = function(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple | list) else (out,):
                if isinstance(tensor, torch.Tensor):
                    largest = max(largest, tensor.numel())
            return out

    records = 64
    model = nn.Sequential(nn.Linear(100, 80), nn.ReLU(), nn.Linear(80, 3))
    X, y = torch.randn(records, 100), torch.randint(3, (records,))
    oracle = TorchOracle(model, nets.CROSS_ENTROPY, (X, y), nets.problem_of(model, records))
    # the first answer tries out how the processor multiplies, on matrices of its own
    oracle._answer(query_of("recursion", model))
    with Watch():
        oracle._answer(query_of("recursion", model))
    assert 0 < largest <= 2 * records * 100 < records * 100 * 80 // 10
