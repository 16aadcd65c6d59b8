r"""Networks that once let a record reach a release by another way than its own clipped gradient.

Each is refused, or one step of it is released many times on two neighbours and measured: the lower bound on epsilon
stays below the claim. The records are chosen so that the other way would show: statistics of the batch, random numbers
by place, gates that flip with the rounding of a product, sums in few digits.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from sordino.budget import Budget, Relation
from sordino.methods import DPSGD
from sordino.oracle.torch import TorchOracle, network_problem, parameter_vector
from sordino.privacy.audit import audit
from sordino.privacy.randomness import Randomness
from sordino.torch import fit

pytestmark = pytest.mark.audit


def product(outputs, targets):
    return -(outputs.reshape(-1) * targets)


def measured(model, loss, data, neighbour, budget, n, runs):
    """A lower bound on the epsilon of one step, from releases along the direction in which the answers differ."""
    method = DPSGD(steps=1, batch_size=n, step_size=1.0, clip=1.0)
    problem = network_problem(model, n)
    plan, start, randomness = method.plan(problem, budget), parameter_vector(model), Randomness.system()
    oracles = [TorchOracle(model, loss, each, problem, budget.relation) for each in (data, neighbour)]

    def moved(oracle):
        torch.manual_seed(0)
        return method.run(plan, problem, oracle, randomness, start).weights - start

    pilot = [np.mean([moved(oracle) for _ in range(40)], axis=0) for oracle in oracles]
    way = pilot[0] - pilot[1]
    way /= max(np.linalg.norm(way), 1e-12)
    heard = [np.array([moved(oracle) @ way for _ in range(runs)]) for oracle in oracles]
    return audit(*heard, budget.delta).epsilon


REPLACE, ADD = Budget(1.0, 1e-5), Budget(1.0, 1e-5, Relation.ADD_REMOVE)


class RunningMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1, bias=False)
        self.register_buffer("mean", torch.zeros(1))

    def forward(self, x):
        with torch.no_grad():
            self.mean.copy_(x.mean(0))
        return self.layer(x - self.mean)


class BatchMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1, bias=False)

    def forward(self, x):
        return self.layer(x - x.detach().mean(0))


@pytest.mark.parametrize("build", [RunningMean, BatchMean])
def test_statistics_of_the_batch_are_refused(build):
    with pytest.raises(ValueError, match=r"changes its buffers|mixes records"):
        fit(
            build(),
            product,
            (torch.randn(100, 1), torch.ones(100)),
            method=DPSGD(steps=1, batch_size=100, step_size=1.0, clip=1.0),
            budget=REPLACE,
        )


def test_a_loss_divided_by_the_positives_of_the_batch():
    def loss(outputs, targets):
        each = F.binary_cross_entropy_with_logits(outputs[:, 0], targets, reduction="none")
        return each / targets.sum().clamp(min=1)

    n, model = 100, nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    X, one, two = torch.full((n, 1), 2.0), torch.zeros(n), torch.zeros(n)
    one[0], two[:2] = 1, 1
    with pytest.raises(ValueError, match="mixes records"):
        measured(model, loss, (X, one), (X, two), REPLACE, n, 2000)


def test_dropout_under_a_seed_that_everybody_knows():
    """Inputs that would cancel or add up by the masks of that seed, if masks went by place."""
    n, model = 512, nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 1, bias=False))
    nn.init.zeros_(model[1].weight)
    torch.manual_seed(0)
    kept = (F.dropout(torch.ones(n, 2), 0.5, True) > 0).float()
    X = torch.zeros(n, 2)
    X[0, 0], X[1:, 0] = 1, kept[1:, 0] - kept[:-1, 0]
    y = torch.ones(n)
    assert measured(model, product, (X, y), (X[1:], y[1:]), ADD, n, 2000) <= ADD.epsilon


def test_gates_at_the_rounding_of_a_product():
    """The first layer's outputs are within rounding of zero, where another number of rows would flip all gates."""
    n, width = 512, 77
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(width, 1), nn.ReLU(), nn.Linear(1, 1, bias=False))
    row = torch.randn(1, width)
    with torch.no_grad():
        model[2].weight.fill_(50.0)
        model[0].bias.zero_()
        values = sorted(
            {float(v) for count in (1, 3, 511, 512) for v in model[0](row.expand(count, width).contiguous())}
        )
        model[0].bias.fill_(-values[len(values) // 2])
    X, y = row.expand(n, width).contiguous(), torch.ones(n)
    assert measured(model, product, (X, y), (X[1:], y[1:]), ADD, n, 2000) <= ADD.epsilon


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_of_a_model_in_half_precision(dtype):
    n, model = 941, nn.Linear(4, 1, bias=False).to(dtype)
    nn.init.zeros_(model.weight)
    row = 3 * torch.tensor([0.30694623, 0.71677805, 0.01630105, 0.62589737])
    X, y = row.expand(n, 4).to(dtype).contiguous(), torch.ones(n, dtype=dtype)
    turned = y.clone()
    turned[0] = -1
    assert measured(model, product, (X, y), (X, turned), REPLACE, n, 2000) <= REPLACE.epsilon
