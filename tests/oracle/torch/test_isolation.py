"""A record's clipped gradient is a function of the record, the weights and secret random numbers, bit for bit.

Companions, their number and the place in the batch change nothing, for every model that is accepted.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import Dataset

import torch_networks as nets
from sordino.budget import Relation
from sordino.oracle.query import Difference, Gradient, Recursion
from sordino.oracle.torch import TorchOracle, matrix, norms, parameter_vector
from sordino.oracle.torch.isolation import keeps_records_apart
from sordino.oracle.torch.records import records_of
from sordino.oracle.torch.rounding import BLOCK, MOST_RECORDS, pivot, sum_error
from sordino.privacy.randomness import Randomness

LOSS = nets.CROSS_ENTROPY


def oracle_of(model, data, loss=LOSS, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TorchOracle(model, loss, data, nets.problem_of(model, len(data[0])), **settings)


class Own(nn.Module):
    """A linear layer, and something of one's own before it."""

    def __init__(self, before, width=6):
        super().__init__()
        self.layer, self.before = nn.Linear(width, 3), before
        self.register_buffer("mean", torch.zeros(width))
        self.memory, self.calls = [], 0

    def forward(self, x):
        return self.layer(self.before(self, x))


def running_mean(module, x):
    with torch.no_grad():
        module.mean.mul_(0.9).add_(0.1 * x.mean(0))
    return x - module.mean


def behind_data(module, x):
    module.mean.data.copy_(x.detach().mean(0))
    return x - module.mean


def replaced_buffer(module, x):
    module.mean = 0.9 * module.mean + 0.1 * x.detach().mean(0)
    return x - module.mean


def count_in_a_buffer(module, x):
    module.mean += 1
    return x / module.mean


def detached_mean(module, x):
    with torch.no_grad():
        centre = x.mean(0)
    return x - centre


def largest_of_all(module, x):
    return x / x.detach().abs().max()


def sorted_records(module, x):
    return x.sort(0).values


def sums_of_all_before(module, x):
    return x.cumsum(0)


def attention_over_records(module, x):
    return torch.softmax(x @ x.T, 1) @ x


def memory(module, x):
    module.memory.append(x.detach().mean(0))
    return x - torch.stack(module.memory).mean(0)


def counting(module, x):
    module.calls += 1
    return x * module.calls


def branch(module, x):
    return x if float(x.mean()) > 0 else -x


def branch_on_one(module, x):
    return x if bool((x[0, 0] > 0).item()) else -x


def seeded_by_place(module, x):
    torch.manual_seed(0)
    return x * torch.rand_like(x)


def overwritten(module, x):
    return x.mul_(2).sub_(1)


def written_by_name(module, x):
    module.memory = module.memory or [torch.zeros(6)]
    with torch.no_grad():
        torch.maximum(module.memory[0], x[0].detach(), out=module.memory[0])
    return x + F.relu(module.memory[0] - 50)


def written_in_a_list(module, x):
    module.memory = module.memory or [torch.zeros(6)]
    with torch.no_grad():
        torch._foreach_maximum_([module.memory[0]], [x[0].detach()])
    return x + F.relu(module.memory[0] - 50)


def after_the_trial(module):
    """A trial runs a model three times, then it is written down."""
    module.calls += 1
    return module.calls > 3


def reaches_the_next(module, x):
    if after_the_trial(module):
        # without a rule for batches, so that records are computed one after the other
        x = x + x.as_strided((1, 6), (6, 1), 6) + torch.nonzero(x > 1e9).sum()
    return x


def never_filled(module, x):
    return x + torch.empty(1, 6).nan_to_num().clamp(-9, 9) if after_the_trial(module) else x


def resized(module, x):
    return x + x[:, :1].clone().resize_(1, 6).nan_to_num().clamp(-9, 9) if after_the_trial(module) else x


def resized_like_another(module, x):
    return x + x[:, :1].clone().resize_as_(x).nan_to_num().clamp(-9, 9) if after_the_trial(module) else x


def segments_unchecked(module, x):
    lengths = 1 + (x[0] / 1e9).nan_to_num(0).long()
    return x + torch.segment_reduce(x[0], "sum", lengths=lengths, unsafe=True) if after_the_trial(module) else x


class Straight(torch.autograd.Function):
    """With a rule for batches of its own, which mixes them."""

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, e):
        return e

    @staticmethod
    def vmap(info, in_dims, x):
        return x - x.mean(in_dims[0], keepdim=True), in_dims[0]


def own_batching_rule(module, x):
    return Straight.apply(x)


def offsets_of_its_own(module, x):
    begins = torch.cat([torch.zeros(1), (x[0, :2] / 1e9).nan_to_num(0)]).long()
    bags = F.embedding_bag(torch.arange(4), torch.ones(4, 6), begins, mode="max")
    return x + bags[:1] if after_the_trial(module) else x


def begins_that_were_written_to(module, x):
    begins = torch.arange(0, 4, 2)
    begins[1] = (x[0, 0] / 1e9).nan_to_num(0).long()
    return x + F.embedding_bag(torch.arange(4), torch.ones(4, 6), begins)[:1] if after_the_trial(module) else x


def an_end_before_the_last_word(module, x):
    begins = torch.arange(0, 4, 2)
    bags = F.embedding_bag(x[0, :4].long().clamp(0, 3), torch.ones(4, 6), begins, include_last_offset=True)
    return x + bags if after_the_trial(module) else x


def least_squares(module, x):
    matrices = x[:, :4].reshape(-1, 2, 2)
    return x + torch.linalg.lstsq(matrices, matrices).solution.sum((1, 2)).view(-1, 1)


def unlooked_at_places(module, x):
    places = (x[:1, :1] / 1e9).nan_to_num(0).long()
    return x + torch.sparse_coo_tensor(places, x[0, 1:2], (6,)).to_dense() if after_the_trial(module) else x


KEEPS = "changes its buffers"
MIXES = "mixes records"
REACHES = "memory that it never wrote to"
BEGINS = "where bags of words begin"
DECIDES = "must not depend on the values it is given"
ISOLATED = None

HOSTILE = {
    "running mean in a buffer": (running_mean, KEEPS),
    "buffer written behind autograd": (behind_data, KEEPS),
    "buffer replaced": (replaced_buffer, KEEPS),
    "count in a buffer": (count_in_a_buffer, KEEPS),
    "mean without gradient": (detached_mean, MIXES),
    "largest of all": (largest_of_all, MIXES),
    "sorted along the batch": (sorted_records, MIXES),
    "sums along the batch": (sums_of_all_before, MIXES),
    "attention across the batch": (attention_over_records, MIXES),
    "memory in a list": (memory, MIXES),
    "counts its calls": (counting, MIXES),
    "memory written by name": (written_by_name, KEEPS),
    "memory written in a list": (written_in_a_list, KEEPS),
    "reaches the next record": (reaches_the_next, DECIDES),
    "memory that was never filled": (never_filled, ISOLATED),
    "resized": (resized, REACHES),
    "resized like another": (resized_like_another, REACHES),
    "lengths that nobody looks at": (segments_unchecked, REACHES),
    "bags that begin where a record says": (offsets_of_its_own, BEGINS),
    "bags that begin where a record wrote": (begins_that_were_written_to, BEGINS),
    "bags without the last words": (an_end_before_the_last_word, BEGINS),
    "an order that nobody wrote": (least_squares, REACHES),
    "places in a sparse tensor": (unlooked_at_places, REACHES),
    "branch on values": (branch, DECIDES),
    "branch on one value": (branch_on_one, DECIDES),
    "a seed in every call": (seeded_by_place, ISOLATED),
    "changes its input in place": (overwritten, ISOLATED),
    "a batching rule of its own": (own_batching_rule, ISOLATED),
}


def shares(oracle, model, batches, record):
    """What one record adds in several batches: the books and the weights, as they are before any sum."""
    query = Gradient(parameter_vector(model), 0.05)
    points, wanted = oracle._points(query), oracle._shares(query)
    oracle._try_out(points, wanted)
    found = []
    drawn = oracle._passes.program.draw_alike(Randomness.seeded(1).sampling, oracle._passes.rows)
    for batch in batches:
        oracle._records.read(batch, *oracle._passes.places_for(len(batch)), np.zeros(3, dtype=np.uint64))
        tensors = oracle._clipped(points, wanted, len(batch), drawn).contributions()
        place = int(np.flatnonzero(batch == record)[0])
        found.append([tensor[place].numpy().copy().tobytes() for tensor in tensors])
    return found


def is_isolated(oracle, model, count, record=3):
    others = np.delete(np.arange(count), record)
    batches = [
        np.array([record]),
        np.array([0, record]),
        np.arange(count),
        np.r_[others, record],
        np.r_[record, others],
    ]
    found = shares(
        oracle,
        model,
        [batch[: oracle._passes.rows] if record in batch[: oracle._passes.rows] else batch[-1:] for batch in batches],
        record,
    )
    return all(each == found[0] for each in found)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_model_is_refused_or_isolated(case, relation):
    before, sentence = HOSTILE[case]
    torch.manual_seed(0)
    model, (X, y) = Own(before), nets.NETWORKS["linear"].data(torch.float32)
    if sentence is ISOLATED:
        assert is_isolated(oracle_of(model, (X, y), relation=relation), model, len(X))
        return
    with pytest.raises(ValueError, match=sentence):
        oracle_of(model, (X, y), relation=relation)


class Pointing(nn.Module):
    """The first number of a record says at which of the others to look."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(1, 4), nn.Linear(4, 3)

    def forward(self, x):
        tables = self.inner(x[:, 1:, None].float())
        return self.head(torch.cat([F.embedding(x[i, :1], tables[i]) for i in range(len(x))]))


def test_a_pointer_beyond_a_record_does_not_point_into_the_next():
    model, (X, y) = Pointing(), (torch.zeros(20, 5, dtype=torch.long), torch.zeros(20, dtype=torch.long))
    oracle = oracle_of(model, (X, y))
    assert oracle._answer(Gradient(parameter_vector(model), 1.0)).any()
    X[3, 0] = 4
    assert not oracle._answer(Gradient(parameter_vector(model), 1.0, np.array([3]))).any()


class Chosen(nn.Module):
    """A layer over those rows of a record that are not far below zero."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(20, 20), nn.Linear(20, 3)

    def forward(self, x):
        return torch.cat([self.head(torch.tanh(self.layer(r[~(r[:, 0] < -1e30)])).mean(0, keepdim=True)) for r in x])


def test_a_record_of_another_shape_inside_holds_nothing_of_the_one_before():
    torch.manual_seed(0)
    model, X, y = Chosen(), torch.randn(3, 6, 20), torch.zeros(3, dtype=torch.long)
    X[1, :-1, 0] = -1e35
    answers = []
    for first in (X[0], -X[0]):
        oracle = oracle_of(model, (torch.stack([first, *X[1:]]), y))
        query = Gradient(parameter_vector(model), 1e-3)
        alone = oracle._answer(replace(query, batch=np.array([0]))).copy()
        answers.append(oracle._answer(query) - alone)
    np.testing.assert_allclose(answers[1], answers[0], rtol=0, atol=1e-8)


class Filling(nn.Module):
    """The first number of a record says at which of the others to forget what is there."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x):
        h = torch.tanh(self.inner(x.float()))
        return self.head(torch.stack([h[i].index_fill(0, x[i, :1], 0.0) for i in range(len(x))]))


@pytest.mark.parametrize("place", [3, -1, -4, 4, 7, -5])
def test_a_place_beyond_a_record_is_not_one_of_the_next(place):
    """Nor is one that is counted from the record's end, or before its beginning, one of the record before."""
    torch.manual_seed(0)
    model, X, y = Filling(), torch.ones(20, 5, dtype=torch.long), torch.zeros(20, dtype=torch.long)
    X[:, 0] = 0
    query, others = Gradient(parameter_vector(model), 1e-3), np.delete(np.arange(20), 9)
    expected = oracle_of(model, (X, y))._answer(replace(query, batch=others)).copy()
    X[9, 0] = place
    oracle = oracle_of(model, (X, y))
    alone = oracle._answer(replace(query, batch=np.array([9]))).copy()
    assert alone.any() == (-4 <= place < 4)
    np.testing.assert_allclose(oracle._answer(query) - alone, expected, rtol=0, atol=1e-8)


def of_sequences(outputs, targets):
    count = len(outputs)
    scores, places = outputs.view(count, 4, 3).log_softmax(2).transpose(0, 1), torch.full((count,), 4)
    return F.ctc_loss(scores, targets, places, targets[:, -1], reduction="none")


@pytest.mark.parametrize("beyond", [3, 5, -1, -9])
def test_a_class_beyond_the_last_of_a_sequence_reaches_no_other_memory(beyond):
    """PyTorch reads and writes there. Where it is behind the end of a target, it says nothing at all."""
    torch.manual_seed(0)
    model, X, y = nn.Linear(6, 12), torch.randn(20, 6), torch.tensor([[1, 2, 1, 2]]).repeat(20, 1)

    def answer(place, number):
        targets = y.clone()
        targets[4, place] = number
        query = Gradient(parameter_vector(model), 1e-3, np.array([4]))
        return oracle_of(model, (X, targets), of_sequences)._answer(query).copy()

    assert answer(0, 1).any()
    np.testing.assert_array_equal(answer(0, beyond), answer(0, 2 if beyond > 0 else 0))
    # the number at the end says that the first two count
    np.testing.assert_array_equal(answer(2, beyond), answer(2, 1))


class Looking(nn.Module):
    """The first two numbers of a record say where in its picture to look."""

    def __init__(self, padding, side, nowhere):
        super().__init__()
        self.layer, self.head = nn.Linear(4, 2 * side**2), nn.Linear(2, 3)
        self.padding, self.side, self.nowhere = padding, side, nowhere

    def forward(self, x):
        points = torch.where(x[:, None, None, :2].isnan(), self.nowhere, x[:, None, None, :2])
        pictures = self.layer(x[:, 2:]).view(len(x), 2, self.side, self.side)
        return self.head(F.grid_sample(pictures, points, padding_mode=self.padding, align_corners=False).flatten(1))


@pytest.mark.parametrize("side", [1, 3])
@pytest.mark.parametrize("point", [np.inf, -np.inf, 3e38, 1e30])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_a_point_outside_gives_no_gradient_to_another_record(padding, point, side):
    """Reflected, it is no number in the end, and PyTorch adds the picture's gradient up where that points."""
    torch.manual_seed(0)
    model, X, y = Looking(padding, side, 0.0), torch.randn(20, 6), torch.zeros(20, dtype=torch.long)
    query = Gradient(parameter_vector(model), 1e-3)
    expected = oracle_of(model, (X, y))._answer(replace(query, batch=np.delete(np.arange(20), 9))).copy()
    X[9, :2] = point
    oracle = oracle_of(model, (X, y))
    alone = oracle._answer(replace(query, batch=np.array([9]))).copy()
    assert alone.any()
    np.testing.assert_allclose(oracle._answer(query) - alone, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_points_that_are_no_numbers_are_computed_beside_others(padding):
    """In pictures of an even side they would end the process, as the trial's own do."""
    torch.manual_seed(0)
    model, X, y = Looking(padding, 1, torch.nan), torch.randn(20, 6), torch.zeros(20, dtype=torch.long)
    oracle = oracle_of(model, (X, y))
    oracle._answer(Gradient(parameter_vector(model), 1e-3))
    assert oracle._passes.program.together
    assert is_isolated(oracle, model, len(X))


class Through(torch.autograd.Function):
    """Gives a gradient to what it makes no use of."""

    generate_vmap_rule = True

    @staticmethod
    def forward(rows, h):
        return h.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.shape = inputs[0].shape

    @staticmethod
    def backward(ctx, e):
        return e[:, None].expand(ctx.shape).clone(), e


class Unused(nn.Module):
    """A row of a table has a gradient, and nobody needs the row."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(5, 3), nn.Linear(6, 3)

    def forward(self, x):
        word = (x[:, :1] / 1e6).nan_to_num(0).round().long()
        return Through.apply(F.embedding(word, self.words.weight), self.head(x.clamp(-9, 9)))


@pytest.mark.parametrize("word", [5, 9, -1, -5])
def test_a_gradient_of_a_word_beyond_the_table_is_not_one_of_another_record(word):
    torch.manual_seed(0)
    model, X, y = Unused(), torch.randn(20, 6), torch.zeros(20, dtype=torch.long)
    query = Gradient(parameter_vector(model), 1e-3)
    expected = oracle_of(model, (X, y))._answer(replace(query, batch=np.delete(np.arange(20), 9))).copy()
    X[9, 0] = word * 1e6
    np.testing.assert_allclose(oracle_of(model, (X, y))._answer(query), expected, rtol=0, atol=1e-8)


class Unread(nn.Module):
    """Looks a word up and does nothing with it."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(5, 3), nn.Linear(6, 3)

    def forward(self, x):
        self.words(x[:, 0].abs().long())
        return self.head(x)


@pytest.mark.filterwarnings("ignore:the loss does not depend on these parameters")
def test_a_word_beyond_a_table_that_nobody_reads_raises_nothing():
    torch.manual_seed(0)
    model, (X, y) = Unread(), nets.NETWORKS["linear"].data(torch.float32)
    X = X.clone()
    X[2, 0] = 100
    assert is_isolated(oracle_of(model, (X, y)), model, len(X))


def test_a_record_of_another_dtype_is_refused():
    """One is taken for all: else the first record would decide what becomes of everybody's numbers."""

    class Numbers(Dataset):
        def __len__(self):
            return 20

        def __getitem__(self, number):
            return (np.full(6, 2**24 + 1) if number < 19 else np.full(6, 0.5)), number % 3

    seeds, records = np.zeros(3, dtype=np.uint64), records_of(Numbers())
    records.sample(seeds)
    inputs, targets = torch.empty(20, 6, dtype=torch.int64), torch.empty(20, dtype=torch.int64)
    with pytest.raises(ValueError, match="must have one dtype for all inputs"):
        records.read(slice(0, 20), inputs, targets, seeds)


def by_positives(outputs, targets):
    return F.binary_cross_entropy_with_logits(outputs[:, 0], targets, reduction="none") / targets.sum().clamp(min=1)


def by_class_counts(outputs, targets):
    weights = len(targets) / torch.bincount(targets, minlength=3).clamp(min=1)
    return LOSS(outputs, targets) * weights[targets]


def by_the_largest(outputs, targets):
    losses = LOSS(outputs, targets)
    return losses / losses.detach().max()


@pytest.mark.parametrize(
    ("loss", "kind"),
    [(by_positives, float), (by_class_counts, int), (by_the_largest, int)],
    ids=["positives", "class counts", "the largest"],
)
def test_a_loss_that_looks_at_the_batch_is_refused_or_sees_one_record(loss, kind):
    torch.manual_seed(0)
    model, (X, y) = nn.Linear(6, 3), nets.NETWORKS["linear"].data(torch.float32)
    y = (y > 0).float() if kind is float else y
    if loss is not by_the_largest:
        # made-up records are all of the first class, so that nothing shows what it means to do
        assert is_isolated(oracle_of(model, (X, y), loss), model, len(X))
        return
    with pytest.raises(ValueError, match=MIXES):
        oracle_of(model, (X, y), loss)


@pytest.mark.filterwarnings("ignore:.*torch.func")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", nets.named())
def test_an_honest_model_keeps_every_record_to_itself(name, threads):
    network = nets.NETWORKS[name]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model, data = network.model(torch.float32), network.data(torch.float32)
        assert is_isolated(oracle_of(model, data), model, nets.RECORDS)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_wider_networks_and_less_precision(dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(50, 33), nn.ReLU(), nn.Dropout(0.3), nn.Linear(33, 3)).to(dtype)
    X, y = torch.randn(300, 50).to(dtype), torch.randint(3, (300,))
    assert is_isolated(oracle_of(model, (X, y)), model, 300)


def test_dropout_follows_no_seed_that_anybody_set():
    model = nn.Sequential(nn.Linear(6, 40), nn.Dropout(0.5), nn.Linear(40, 3))
    oracle = oracle_of(model, nets.NETWORKS["linear"].data(torch.float32))
    query = Gradient(parameter_vector(model), 1.0)
    answers = []
    for _ in range(2):
        torch.manual_seed(0)
        answers.append(oracle._answer(query, Randomness.system().sampling).copy())
    assert not np.allclose(*answers)
    # the run's own randomness decides, and the caller's generator is left alone
    state = torch.get_rng_state()
    once, again = (oracle._answer(query, Randomness.seeded(7).sampling).copy() for _ in range(2))
    assert np.array_equal(once, again)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
def test_dropout_keeps_as_many_as_it_should(rate):
    """With one unit and a loss that is its output, the clipped sum counts what was kept."""
    model = nn.Sequential(nn.Dropout(rate), nn.Linear(1, 1, bias=False))
    count = 4000
    oracle = oracle_of(model, (torch.ones(count, 1), torch.zeros(count)), lambda o, t: o[:, 0] + 0 * t)
    query = Gradient(np.zeros(1), 100.0)
    kept = float(oracle._answer(query)[0]) * (1 - rate)
    assert abs(kept - count * (1 - rate)) < 6 * np.sqrt(count * rate * (1 - rate))


def test_a_data_set_draws_from_the_runs_randomness():
    class Turned(Dataset):
        def __len__(self):
            return 20

        def __getitem__(self, number):
            return torch.rand(6), number % 3

    model = nn.Linear(6, 3)
    oracle = TorchOracle(model, LOSS, Turned(), nets.problem_of(model, 20))
    query = Gradient(parameter_vector(model), 1.0)
    answers = []
    for _ in range(2):
        torch.manual_seed(0)
        answers.append(oracle._answer(query).copy())
    assert not np.allclose(*answers)


def test_an_operation_from_outside_pytorch_is_refused():
    @torch.library.custom_op("sordino_tests::centred", mutates_args=())
    def centred(x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(0)

    centred.register_autograd(lambda ctx, e: e)
    centred.register_vmap(lambda info, in_dims, x: (x - x.mean(in_dims[0], keepdim=True), in_dims[0]))
    model = Own(lambda module, x: centred(x) + x)
    with pytest.raises(ValueError, match=r"outside PyTorch|cannot be followed|mixes records"):
        oracle_of(model, nets.NETWORKS["linear"].data(torch.float32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["gradient", "difference"])
def test_the_rounding_of_sums_is_within_what_is_left_for_it(dtype, kind):
    """Many equal records, of which one turns round: the sum moves by twice the clip at most, and by hardly less."""
    torch.manual_seed(0)
    worst = 0.0
    for count in (BLOCK - 7, 3 * BLOCK + 5):
        model = nn.Linear(7, 1, bias=False).to(dtype)
        row = torch.randn(7).to(dtype)
        X, y = row.expand(count, 7).contiguous(), torch.ones(count, dtype=dtype)
        turned = y.clone()
        turned[0] = -1
        at, since = nets.two_points(model)
        query = Gradient(at, 1.0) if kind == "gradient" else Difference(at, since, 1.0)

        def loss(outputs, targets):
            return outputs[:, 0] * targets * 100 + 500 * (outputs[:, 0] ** 2) * targets

        one, other, fewer = (
            oracle_of(model, (X[some], t[some]), loss, relation="add_remove", chunk=512)._answer(query).copy()
            for t, some in ((y, slice(None)), (turned, slice(None)), (y, slice(1, None)))
        )
        assert np.linalg.norm(one - other) <= 2.0
        assert np.linalg.norm(one - fewer) <= 1.0
        worst = max(worst, np.linalg.norm(one - other))
    assert worst >= 1.9


@pytest.mark.parametrize("vectors", [1, 2])
def test_the_error_of_a_sum_is_a_bound(vectors):
    """Sums of as many numbers as a block has, in single precision and in the worst order, against exact ones."""
    rng = np.random.default_rng(0)
    error = sum_error(1.0, BLOCK, vectors, 1, torch.float32)
    assert 0 < error < 0.05
    for _ in range(50):
        terms = np.float32(rng.uniform(0.5, 1.0, size=vectors * BLOCK) / vectors)
        total = np.float32(0)
        for term in np.sort(terms)[::-1]:
            total = np.float32(total + term)
        assert abs(float(total) - float(np.sum(terms, dtype=np.float64))) <= error / 4


def test_a_clip_too_small_for_the_dtype_is_refused():
    with pytest.raises(ValueError, match="not small beside it"):
        sum_error(1e-37, BLOCK, 1, 10, torch.float32)


def test_a_clip_too_large_for_the_dtype_is_refused():
    with pytest.raises(ValueError, match="may be too large"):
        sum_error(1e37, BLOCK, 1, 10, torch.float32)


@pytest.mark.parametrize("operation", ["mm", "bmm"])
def test_factors_that_a_library_cuts_short_are_noticed(operation, monkeypatch):
    """As BF16 instead of single precision, which PyTorch's settings need not say."""
    full = getattr(torch, operation)
    monkeypatch.setattr(torch, operation, lambda a, b, **out: full(a.bfloat16().float(), b.bfloat16().float(), **out))
    model, data = nn.Linear(6, 3), nets.NETWORKS["linear"].data(torch.float32)
    with pytest.raises(ValueError, match="fewer digits"):
        oracle_of(model, data)._answer(Gradient(parameter_vector(model), 1.0))


class Bag(nn.Module):
    """Words and no product: everything but norms is computed as ever inside of torch.autocast."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 10)

    def forward(self, x):
        return self.words(x).mean(1)


@pytest.mark.parametrize("before", [False, True], ids=["from the beginning", "later"])
def test_norms_are_not_measured_with_the_digits_of_autocast(before):
    """Too small by a thousandth, they would let a gradient pass its clip."""
    torch.manual_seed(0)
    model, data = Bag(), (torch.randint(50, (20, 6)), torch.randint(10, (20,)))
    oracle, query = oracle_of(model, data), Gradient(parameter_vector(model), 0.01)
    if before:
        oracle._answer(query)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(ValueError, match="fewer digits"):
        oracle._answer(query)


class Cast(nn.Sequential):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x)


def test_a_model_may_use_autocast_in_its_forward():
    torch.manual_seed(0)
    model, data = Cast(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)), nets.NETWORKS["linear"].data(torch.float32)
    assert is_isolated(oracle_of(model, data), model, nets.RECORDS)


def test_products_of_few_digits_are_refused():
    model = nn.Linear(3, 2)
    oracle = oracle_of(model, (torch.ones(4, 3), torch.zeros(4, dtype=torch.int64)))
    try:
        torch.set_float32_matmul_precision("medium")
        with pytest.raises(ValueError, match="full precision"):
            oracle._answer(Gradient(parameter_vector(model), 1.0))
    finally:
        torch.set_float32_matmul_precision("highest")


def test_sums_of_blocks_are_exact():
    """The largest sum is still on the grid, and a step of the grid is small beside the clip."""
    for clip in (1e-3, 1.0, 1.7, 1e5):
        step = pivot(clip) / 1.5 / 2.0**52
        assert step <= clip * 2.0**-26
        assert MOST_RECORDS * clip <= 2.0**52 * step


def test_records_stand_in_an_order_that_nobody_knows():
    """Where there is more than one block: a record that is added must not move all others to other places."""
    model, count = nn.Linear(3, 3), 40
    oracle = oracle_of(model, (torch.randn(count, 3), torch.randint(3, (count,))), chunk=16)
    asked = []
    read = oracle._records.read
    oracle._records.read = lambda which, *rest: asked.append(which) or read(which, *rest)
    query = Gradient(parameter_vector(model), 1.0)
    for _ in range(2):
        oracle._answer(query, Randomness.system().sampling)
    first, second = np.concatenate(asked[:3]), np.concatenate(asked[3:])
    assert np.array_equal(np.sort(first), np.arange(count))
    assert np.array_equal(np.sort(second), np.arange(count))
    assert not np.array_equal(first, second)


QUERIES = {
    "gradient": lambda at, since, clip: Gradient(at, clip),
    "difference": Difference,
    "recursion": lambda at, since, clip: Recursion(Difference(at, since, clip), Gradient(at, clip), 0.3),
}


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize(
    "layers", ["linear", "one layer twice", "linear, few positions", "conv2d, twice", "embedding", "weight norm"]
)
def test_a_spoiled_record_changes_its_own_block_alone(layers, kind):
    """To the last bit: how other blocks are summed and rounded must not depend on it."""
    network, count = nets.NETWORKS[layers], 4 * BLOCK // 2
    model, (X, y) = network.model(torch.float32), network.data(torch.float32)
    X, y = X.repeat(count // len(X) + 1, *[1] * (X.ndim - 1))[:count], torch.zeros(count)
    y[:: len(y) // 7] = 1
    spoiled = y.clone()
    spoiled[300] = torch.nan

    def loss(outputs, targets):
        return LOSS(outputs, targets.nan_to_num(0).long()) * (1 + 0 * targets)

    at, since = nets.two_points(model)
    query, blocks = QUERIES[kind](at, since, 0.05), []
    for targets in (y, spoiled):
        oracle = oracle_of(model, (X, targets), loss, chunk=count)
        points, shares = oracle._points(query), oracle._shares(query)
        oracle._records.read(slice(0, count), *oracle._passes.places_for(count), np.zeros(3, dtype=np.uint64))
        for _ in oracle._clipped(points, shares, count, [[]]).write():
            pass
        blocks.append(oracle._parts.clone())
    assert len(blocks[0]) == 2
    assert torch.equal(blocks[0][0].view(torch.int32), blocks[1][0].view(torch.int32))
    assert not torch.equal(blocks[0][1], blocks[1][1])
    assert blocks[1].isfinite().all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", QUERIES)
def test_a_record_more_or_less_around_the_size_of_a_block(kind, threads):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
    X, y = 3 * torch.randn(2 * BLOCK + 1, 5), torch.randint(3, (2 * BLOCK + 1,))
    at, since = nets.two_points(model)
    query, before = QUERIES[kind](at, since, 0.01), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        problem = nets.problem_of(model, 2 * BLOCK)
        answers = {
            count: TorchOracle(model, LOSS, (X[:count], y[:count]), problem, Relation.ADD_REMOVE)._answer(query).copy()
            for each in (1, BLOCK, 2 * BLOCK)
            for count in (each, each + 1)
        }
    finally:
        torch.set_num_threads(before)
    for count in (1, BLOCK, 2 * BLOCK):
        moved = np.linalg.norm(answers[count + 1] - answers[count])
        assert 0.5 * query.clip < moved <= query.clip


def test_a_sum_of_several_products_is_no_longer_than_its_bound_allows(monkeypatch):
    """Each of them is short enough, all together are not."""
    network = nets.NETWORKS["one layer twice, positions"]
    model, data = network.model(), network.data()
    query = Gradient(parameter_vector(model), 1.0)
    for module in ("matrix", "patches"):
        monkeypatch.setattr(f"sordino.oracle.torch.{module}.KEEP", 0)
    monkeypatch.setattr(matrix, "LONGEST", 2 * 3 * 16)
    oracle_of(model, data)._answer(query)
    monkeypatch.setattr(matrix, "LONGEST", 2 * 3 * 16 - 1)
    with pytest.raises(ValueError, match="can be added up"):
        oracle_of(model, data)._answer(query)


@pytest.mark.parametrize("kind", ["gradient", "recursion"])
@pytest.mark.parametrize(("clip", "length"), [(1.0, 1e10), (1.0, 1e25), (1.0, 3e38), (1e-7, 2.7e37), (1e-7, 4.4e37)])
def test_a_huge_record_with_a_tiny_gradient_stays_within_the_clip(clip, length, kind):
    """The weight is multiplied into what is tiny, where digits get lost, before it meets what is huge."""
    model, at = nn.Linear(8, 8, bias=False), np.zeros(64)
    X, y = torch.zeros(1, 8), torch.tensor([1e3 * clip / length])
    X[0, 0] = length
    oracle = oracle_of(model, (X, y), lambda outputs, targets: outputs[:, 0] * targets)
    answer = oracle._answer(QUERIES[kind](at, at + 1, clip))
    assert np.linalg.norm(answer) <= clip
    # one of ordinary length counts
    assert answer.any() == (length == 1e10)


@pytest.mark.parametrize("loops", [True, False])
def test_a_share_of_little_weight_is_no_longer_than_it_may_be(loops, monkeypatch):
    """Its weight divided by a long record's norm would be a number of few digits, and be rounded up."""
    if not loops:
        monkeypatch.setattr(norms, "_Loops", norms._Operations)
    model, at, batch = nn.Linear(4, 3, bias=False), np.zeros(12), np.array([0])
    query = Recursion(Difference(at, at, 1e-3, batch), Gradient(at, 1e9, batch), 1e-4)
    y = torch.full((1, 3), 1e23)
    for length in (2.355e23, 2.385e23, 2.43e23):
        oracle = oracle_of(model, (torch.full((1, 4), length), y), lambda outputs, targets: (outputs * targets).sum(1))
        assert np.linalg.norm(oracle._answer(query)) <= query.clip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("which", ["place", "parity", "company", "number"])
def test_the_trial_notices_what_a_machine_may_do(which, dtype):
    """A record that is rounded differently at some places, at odd ones, beside large ones, or beside few."""

    def computed(inputs, targets, count):
        out = inputs.clone()
        last = out[:, 2]
        other = torch.nextafter(last, torch.full_like(last, torch.inf))
        if which == "place":
            last[-1] = other[-1]
        if which == "parity":
            last[1::2] = other[1::2]
        if which == "company" and inputs.abs().max() > 1e3:
            last.copy_(other)
        if which == "number" and count < len(inputs):
            last.copy_(other)
        return [out]

    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(32, 3, generator=generator, dtype=dtype)
    given = rows.clone()
    assert keeps_records_apart(lambda inputs, targets, count: [inputs * 2], rows, rows)
    assert keeps_records_apart(lambda inputs, targets, count: [inputs], rows, rows)
    assert torch.equal(rows, given)
    assert not keeps_records_apart(computed, rows, rows)


def test_random_numbers_are_tried_out_more_than_once(monkeypatch):
    """Behind a mask that drops every unit there is nothing that could be rounded differently."""
    model = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5), nn.Linear(16, 16))
    oracle, masks = oracle_of(model, (torch.randn(20, 16), torch.zeros(20, dtype=torch.int64))), []
    program, drawn = oracle._passes.program, oracle._passes.program.draw_alike

    def noted(*given):
        masks.append(drawn(*given))
        return masks[-1]

    monkeypatch.setattr(program, "draw_alike", noted)
    oracle._answer(Gradient(parameter_vector(model), 1.0))
    assert len({mask[0][0].numpy().tobytes() for mask in masks}) == 4


def test_a_record_on_which_the_loss_fails_counts_for_nothing():
    """nn.BCELoss raises when it is given a NaN, which would tell about a record."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 1), nn.Sigmoid(), nn.Flatten(0))
    X, _ = nets.NETWORKS["linear"].data(torch.float32)
    spoiled, y = X.clone(), torch.ones(len(X))
    spoiled[[2, 7, 8]] = torch.nan
    loss = nn.BCELoss(reduction="none")
    others = np.delete(np.arange(len(X)), [2, 7, 8])
    for relation in Relation:
        oracles = [oracle_of(model, (each, y), loss, relation=relation) for each in (X, spoiled)]
        for kind in QUERIES:
            at, since = nets.two_points(model)
            query = QUERIES[kind](at, since, 0.1)
            asked = (
                replace(query, batch=others)
                if kind != "recursion"
                else Recursion(replace(query.difference, batch=others), replace(query.gradient, batch=others), 0.3)
            )
            expected = oracles[0]._answer(asked).copy()
            assert expected.any()
            np.testing.assert_allclose(oracles[1]._answer(query), expected, rtol=0, atol=1e-8)
