r"""How long to train a network, on which batches and by which steps, from public facts alone.

What is not given is told by the number of records n, the number of weights d and the budget.

**Clip.** An input of size one to each of f inputs, and a unit in the layer above, make a gradient of some sqrt f; a
network of d weights has about sqrt d inputs to a unit. So gradients begin with a length in proportion to d^{1/4}, and

    C = CLIP d^{1/4}

Those of records that are predicted well are shorter, and count for less. Scaling all of them to one length (automatic
clipping) makes a rare class weigh less than a frequent one wherever both are predicted: steps then go on towards the
frequent one, and predictions end in too much confidence.

**Batches and steps.** T steps on Poisson batches of b records, each with noise of std/C clips, leave noise in the
weights that is e = (std/Delta) mu n / (b sqrt T) times that of as many steps on all records, mu being what the budget
is in Gaussian differential privacy. e depends on the noise of one step nearly alone: 1.04 at 1.2 clips, 1.4 at .7. So

    T = k n/b, at least 200,  for k = 40 epochs,      b the smallest power of two whose steps need noise of 1.2 clips

(Sander, Stock and Sablayrolles 2023). Larger batches cost as many gradients and leave fewer steps.

**Step size.** Steps eta_t with momentum m leave noise of

    s = (eta/(1 - m)) (std/b) sqrt(sum_t rate_t^2)

on every weight. A unit with f inputs of size one starts with weights of size 1/sqrt f, and noise of that size is as
large as what it learns; a network of d weights has about sqrt d of inputs to a unit. So eta makes

    s = NOISE d^{-1/4}

which is the linear rule (Panda et al. 2024): the path eta T is in proportion to what the budget allows. That a
prediction is wrong costs accuracy, never privacy: the noise is calibrated for the T and b that are run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from sordino.budget import Budget
from sordino.methods.plan import DescentPlan
from sordino.methods.rates import Rate
from sordino.privacy.accountants import guarantee

EPOCHS, FEWEST_STEPS = 40.0, 200
ENOUGH_NOISE = 1.2
"""Of a step, in units of the clip: with less, sampling costs more than it saves."""

CLIP, NOISE = 0.5, 0.7
"""Chosen by `benchmarks/perceptrons.py`, which judges them leave-one-table-out."""
SMALLEST_BATCH = 64


class NetworkBatches(NamedTuple):
    steps: int
    batch_size: int


def network_batches(
    records: int,
    budget: Budget,
    plan_at: Callable[[NetworkBatches], DescentPlan],
    steps: int | None = None,
    batch_size: int | None = None,
    epochs: float | None = None,
) -> NetworkBatches:
    """T and b; a number that is given stays as it is. `plan_at` has noise of `ENOUGH_NOISE` clips in every step."""

    def with_batch(b: int) -> NetworkBatches:
        if steps is not None:
            return NetworkBatches(steps, b)
        length = math.ceil((EPOCHS if epochs is None else epochs) * records / b)
        return NetworkBatches(length if epochs is not None else max(length, FEWEST_STEPS), b)

    if batch_size is not None:
        return with_batch(batch_size)
    sizes = [1 << power for power in range(63) if SMALLEST_BATCH <= 1 << power <= records / 2] or [records]
    low, high = 0, len(sizes) - 1
    while low < high:
        middle = (low + high) // 2
        event = plan_at(with_batch(sizes[middle])).event
        enough = guarantee(event, budget.delta, budget.relation).epsilon >= budget.epsilon
        low, high = (low, middle) if enough else (middle + 1, high)
    return with_batch(sizes[low])


def network_clip(weights: int) -> float:
    """C, where every input measures about one."""
    return CLIP * math.pow(weights, 0.25)


def network_step(plan: DescentPlan, momentum: float, rate: Rate) -> float:
    """eta, for the noise that the plan has calibrated."""
    travelled = math.sqrt(sum(rate.at(t, plan.steps) ** 2 for t in range(plan.steps)))
    noise = plan.noise.std / plan.sampling.expected_size(plan.records)
    return (1 - momentum) * NOISE * math.pow(plan.noise.dim, -0.25) / (noise * travelled)
