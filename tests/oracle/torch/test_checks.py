"""What cannot be trained record by record is refused, and says what to do instead."""

import copy
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import torch_networks as nets
from sordino.oracle.query import Difference, Gradient
from sordino.oracle.torch import TorchOracle, load_parameters, network_problem, parameter_count, parameter_vector
from sordino.problem import NetworkProblem

X = torch.randn(10, 6, generator=torch.Generator().manual_seed(0))
Y = torch.arange(10) % 3
LOSS = nets.CROSS_ENTROPY


def plain(*layers):
    return nn.Sequential(*(layers or (nn.Linear(6, 4), nn.Tanh())), nn.Linear(4, 3))


class Mixing(nn.Module):
    """Records that see each other without a layer that says so."""

    def __init__(self, how):
        super().__init__()
        self.how, self.layer, self.words = how, nn.Linear(6, 3), nn.Embedding(9, 6)

    def forward(self, x):
        if self.how == "words":
            return self.layer(self.words(x).mean(1) - self.words(x).mean((0, 1)))
        if self.how == "before":
            return self.layer(x - x.mean(0))
        if self.how == "after":
            return self.layer(x) - self.layer(x).mean(0)
        # the first record sees none of the others
        return torch.cumsum(self.layer(x), 0)


class LeavesOut(nn.Module):
    """A layer that only some inputs reach."""

    def __init__(self):
        super().__init__()
        self.often, self.seldom = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x):
        return self.often(x) + (self.seldom(x) if bool((x > 100).any()) else 0)


class Overwrites(nn.Module):
    """Changes what a layer has read."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x):
        h = x * 2.0
        out = self.layer(h)
        return out + h.mul_(2)[:, :3]


def frozen():
    return plain().requires_grad_(False)


def mixed_dtypes():
    model = plain()
    model[2] = model[2].double()
    return model


REFUSED = {
    "no trainable parameter": (frozen, LOSS, (X, Y), "requires_grad"),
    "batch norm": (lambda: plain(nn.Linear(6, 4), nn.BatchNorm1d(4)), LOSS, (X, Y), "use nn.GroupNorm"),
    "batch norm without statistics": (
        lambda: plain(nn.Linear(6, 4), nn.BatchNorm1d(4, track_running_stats=False)).eval(),
        LOSS,
        (X, Y),
        "1 is BatchNorm1d, which mixes the records",
    ),
    "synchronised batch norm": (lambda: plain(nn.Linear(6, 4), nn.SyncBatchNorm(4)), LOSS, (X, Y), "SyncBatchNorm"),
    "instance norm with statistics": (
        lambda: plain(nn.Linear(6, 4), nn.InstanceNorm1d(4, track_running_stats=True)),
        LOSS,
        (X, Y),
        "track_running_stats=False",
    ),
    "words with a largest norm": (lambda: nn.Embedding(9, 3, max_norm=1.0), LOSS, (Y, Y), "leave max_norm out"),
    "words scaled by frequency": (
        lambda: nn.Embedding(9, 3, scale_grad_by_freq=True),
        LOSS,
        (Y, Y),
        "scale_grad_by_freq",
    ),
    "layers without a size": (lambda: nn.Sequential(nn.LazyLinear(3)), LOSS, (X, Y), "run it once"),
    "two dtypes": (mixed_dtypes, LOSS, (X, Y), "one dtype and device"),
    "complex numbers": (lambda: nn.Linear(6, 3, dtype=torch.complex64), LOSS, (X, Y), "real floating point"),
    "mean before": (lambda: Mixing("before"), LOSS, (X, Y), "mixes records"),
    "mean after": (lambda: Mixing("after"), LOSS, (X, Y), "mixes records"),
    "sums of all before": (lambda: Mixing("sums"), LOSS, (X, Y), "mixes records"),
    "mean of words": (lambda: Mixing("words"), LOSS, (torch.ones(10, 4).long(), Y), "mixes records"),
    "a reduced loss": (plain, nn.CrossEntropyLoss(), (X, Y), 'reduction="none"'),
    "a loss that is a number": (plain, lambda outputs, targets: 1.0, (X, Y), "one loss per record"),
    "many losses per record": (plain, nn.MSELoss(reduction="none"), (X, X[:, :3]), "average over the other axes"),
    "float classes": (plain, LOSS, (X, Y.double()), "Class numbers are whole"),
    "whole regression targets": (
        lambda: plain(),
        nn.BCEWithLogitsLoss(reduction="none"),
        (X, torch.ones(10, 3).long()),
        "floats of the outputs' shape",
    ),
    "whole inputs": (plain, LOSS, (X.long(), Y), "does not take 2 records of shape .* and dtype torch.int64"),
    "inputs of another width": (plain, LOSS, (X[:, :4], Y), "does not take 2 records"),
    "records not first": (
        lambda: nn.Sequential(nn.Linear(6, 3), nets.Lambda(lambda h: h.T)),
        LOSS,
        (X, Y),
        "the first axis must count the records",
    ),
    "a flattened batch": (
        lambda: nn.Sequential(nn.Linear(6, 3), nn.Flatten(0)),
        LOSS,
        (X, Y),
        "the first axis must count the records",
    ),
    "no records": (plain, LOSS, (X[:0], Y[:0]), "empty data set"),
    "fewer targets": (plain, LOSS, (X, Y[:9]), "one target per record"),
    "a name": (plain, LOSS, "mnist", "give a pair"),
    "one array": (plain, LOSS, X, "give a pair"),
    "words as inputs": (plain, LOSS, (np.array([["a"]] * 10), Y), "encode other values first"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_gets_a_sentence(case):
    build, loss, data, sentence = REFUSED[case]
    model = build()
    with pytest.raises(ValueError, match=sentence) as error:
        TorchOracle(model, loss, data, NetworkProblem(10, max(1, _count(model))))
    assert str(error.value).endswith(".")


def _count(model):
    return sum(p.numel() for p in model.parameters() if p.requires_grad and not nn.parameter.is_lazy(p))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"problem": NetworkProblem(10, 40)}, "state it with dim=43"),
        ({"problem": NetworkProblem(11, 43)}, "the data have 10 records"),
        ({"chunk": 0}, "at least one record"),
        ({"relation": "sideways"}, "sideways"),
    ],
)
def test_a_bad_setting_gets_a_sentence(settings, sentence):
    given = {"problem": NetworkProblem(10, 43), **settings}
    with pytest.raises(ValueError, match=sentence):
        TorchOracle(plain(), LOSS, (X, Y), **given)


def test_the_number_of_records_is_secret_under_add_remove():
    TorchOracle(plain(), LOSS, (X, Y), NetworkProblem(999, 43), relation="add_remove")


def oracle():
    return TorchOracle(plain(), LOSS, (X, Y), NetworkProblem(10, 43))


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        (Gradient(np.zeros(42), 1.0), "parameters of shape"),
        (Gradient(np.zeros((2, 43)), 1.0), "one flat vector"),
        (Gradient(np.full(43, np.nan), 1.0), "diverged"),
        (Difference(np.zeros(43), np.full(43, np.inf), 1.0), "diverged"),
        (Gradient(np.zeros(43), 1.0, np.array([3, 1])), "increasing record numbers"),
        (Gradient(np.zeros(43), 1.0, np.array([3, 10])), "below the number of records"),
    ],
)
def test_a_bad_query_gets_a_sentence(query, sentence):
    with pytest.raises(ValueError, match=sentence):
        oracle()._answer(query)


@pytest.mark.slow
def test_parameters_near_the_largest_double_are_allowed():
    """Their sum is not finite; they are, though no record of such a model counts for anything."""
    assert not oracle()._answer(Gradient(np.full(43, 1e308), 1.0)).any()


def test_layers_that_depend_on_the_records_are_refused():
    model = LeavesOut()
    with pytest.raises(ValueError, match="must not depend on the values it is given"):
        TorchOracle(model, LOSS, (1000 * X, Y), network_problem(model, 10))


def test_an_input_that_is_changed_after_use_is_refused():
    model = Overwrites()
    for inputs in (X, X.long()):
        with pytest.raises(ValueError, match="changed in place"):
            TorchOracle(model, LOSS, (inputs, Y), network_problem(model, 10))


def test_a_target_that_is_out_of_range_counts_for_nothing():
    """A sentence would tell that there is one."""
    targets, model = Y.clone(), plain()
    targets[3] = 77
    found = TorchOracle(model, LOSS, (X, targets), network_problem(model, 10))
    at, others = parameter_vector(model), np.delete(np.arange(10), 3)
    assert not found._answer(Gradient(at, 1.0, np.array([3]))).any()
    expected = found._answer(Gradient(at, 1.0, others)).copy()
    assert expected.any()
    assert np.allclose(found._answer(Gradient(at, 1.0)), expected, rtol=0, atol=1e-7)


class Unregistered(nn.Module):
    """A trainable tensor, or a layer, in a list that PyTorch does not look into."""

    def __init__(self, kept):
        super().__init__()
        self.layer, self.kept = nn.Linear(6, 3), [kept]

    def forward(self, x):
        kept = self.kept[0]
        return self.layer(x) + (kept(x) if isinstance(kept, nn.Module) else kept)


@pytest.mark.parametrize("kept", [nn.Parameter(torch.zeros(3)), nn.Linear(6, 3), torch.zeros(3, requires_grad=True)])
def test_a_trainable_tensor_that_nobody_registered_is_refused(kept):
    model = Unregistered(kept)
    with pytest.raises(ValueError, match="is no parameter of the model"):
        TorchOracle(model, LOSS, (X, Y), network_problem(model, 10))
    model = Unregistered(kept.requires_grad_(False))
    TorchOracle(model, LOSS, (X, Y), network_problem(model, 10))
    kept.requires_grad_(True)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore:.*torch.func")
@pytest.mark.parametrize("change", ["pruned", "weight_norm", "spectral_norm"])
def test_weights_that_a_hook_computes(change):
    model = plain().double()
    if change == "pruned":
        prune.random_unstructured(model[0], "weight", 0.4)
    elif change == "weight_norm":
        nn.utils.weight_norm(model[0])
    else:
        nn.utils.spectral_norm(model[0]).eval()
        model(X.double())
    found = TorchOracle(model, LOSS, (X.double(), Y), network_problem(model, 10))
    losses = LOSS(model(X.double()), Y)
    trained = [p for p in model.parameters() if p.requires_grad]
    rows = [torch.cat([g.flatten() for g in torch.autograd.grad(each, trained, retain_graph=True)]) for each in losses]
    query = Gradient(parameter_vector(model), 0.3)
    expected = nets.clipped(torch.stack(rows).numpy(), 0.3 / found._room(query)).sum(0)
    assert np.allclose(found._answer(query), expected, rtol=0, atol=1e-7)


def test_a_model_that_cannot_be_copied_gets_a_sentence():
    model = plain()
    model.lock = threading.Lock()
    with pytest.raises(ValueError, match=r"cannot be copied .* keep locks"):
        TorchOracle(model, LOSS, (X, Y), network_problem(model, 10))


def compiled_in_place():
    model = plain()
    model[0].compile()
    return model


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: torch.compile(plain()), "before torch.compile"),
        (compiled_in_place, "0 is compiled"),
        (lambda: nn.Sequential(torch.jit.script(plain())), "before torch.jit"),
        (lambda: torch.jit.trace(plain(), X), "before torch.jit"),
        (lambda: nn.DataParallel(plain()), "model.module"),
    ],
    ids=["compiled", "compiled in place", "scripted", "traced", "parallel"],
)
def test_a_model_in_a_wrapper_is_refused(build, sentence):
    model = build()
    with pytest.raises(ValueError, match=sentence):
        TorchOracle(model, LOSS, (X, Y), network_problem(model, 10))


def test_parameters_the_loss_does_not_reach_are_named_and_get_nothing():
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = nn.Linear(6, 3), nn.Linear(2, 2)

        def forward(self, x):
            return self.used(x)

    model = Half()
    with pytest.warns(UserWarning, match="noise alone: idle.bias, idle.weight"):
        found = TorchOracle(model, LOSS, (X, Y), network_problem(model, 10))
    answer = found._answer(Gradient(parameter_vector(model), 1.0))
    assert answer[:21].any()
    assert not answer[21:].any()


@pytest.mark.parametrize("name", nets.named(where=lambda network: not network.known))
def test_layers_without_a_rule_are_named(name):
    network = nets.NETWORKS[name]
    model, data = network.model(), network.data()
    named = {
        "tied by a function": "words",
        "recurrent by hand": "rnn",
        "loose parameter": "the model",
        "weight norm, used by itself": "layer.parametrizations.weight",
        "conv1d, transposed, weight norm": "0.parametrizations.weight",
        "instance norm, kept statistics": "0",
    }
    with pytest.warns(UserWarning, match="torch.func") as caught:
        TorchOracle(model, LOSS, data, nets.problem_of(model))
    assert any(named[name] + " (" in str(warning.message) for warning in caught)


def test_batch_norm_that_keeps_its_statistics_is_allowed():
    model = plain(nn.Linear(6, 4), nn.BatchNorm1d(4)).double().eval()
    model[1].running_mean += 0.3
    data = (X.double(), Y)
    with pytest.warns(UserWarning, match="BatchNorm1d"):
        found = TorchOracle(model, LOSS, data, network_problem(model, 10))
    query = Gradient(parameter_vector(model), 0.5)
    expected = nets.clipped(nets.gradients(model, data, query.at), 0.5 / found._room(query)).sum(0)
    assert np.allclose(found._answer(query), expected, rtol=1e-6, atol=1e-8)


def test_a_vector_goes_into_a_model_and_comes_back():
    model = nets.NETWORKS["linear, partly frozen"].model()
    before = copy.deepcopy(model)
    at, _ = nets.two_points(model)
    assert parameter_count(model) == at.size
    load_parameters(model, at)
    assert np.array_equal(parameter_vector(model), at)
    assert torch.equal(model[0].weight, before[0].weight)
    with pytest.raises(ValueError, match="a model of"):
        load_parameters(model, at[1:])
    assert network_problem(model, 5) == NetworkProblem(5, at.size, "Sequential")
