"""`sordino account`: what a described run costs, or how much noise a budget asks for."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.budget import Budget, Relation
from sordino.cli.console import say, show_table
from sordino.cli.options import Neighbours

if TYPE_CHECKING:
    from sordino.privacy.events import Event


class SamplingName(StrEnum):
    FULL = "full"
    POISSON = "poisson"
    FIXED = "fixed"


def account(
    steps: Annotated[int, typer.Option(help="How many noisy sums of clipped gradients are released.")],
    delta: Annotated[float, typer.Option(help="The delta at which epsilon is asked for.")],
    noise_multiplier: Annotated[
        float | None,
        typer.Option(help="Standard deviation of the noise on the SUM of gradients, divided by the clipping norm."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Instead of the multiplier: find the least one that keeps within this epsilon.")
    ] = None,
    sampling: Annotated[
        SamplingName, typer.Option(help="All records; each by its own coin; or a batch of fixed size.")
    ] = SamplingName.FULL,
    rate: Annotated[float | None, typer.Option(help="The share of the records in a step.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Instead of the rate, with --records.")] = None,
    records: Annotated[int | None, typer.Option(help="Instead of the rate, with --batch-size.")] = None,
    relation: Neighbours = Relation.REPLACE_ONE,
) -> None:
    """Print what a run costs by every accountant that covers it, or the noise multiplier that a budget needs."""
    if (noise_multiplier is None) == (epsilon is None):
        raise ValueError("give either --noise-multiplier, to learn epsilon, or --epsilon, to learn the multiplier.")
    if steps < 1:
        raise ValueError(f"steps is {steps}: at least one is needed.")
    share = _rate(sampling, rate, batch_size, records)
    if epsilon is not None:
        noise_multiplier = _calibrated(Budget(epsilon, delta, relation), sampling, share, steps)
        say(
            f"Noise multiplier {noise_multiplier:.6g}: noise of standard deviation {noise_multiplier:.6g} times the "
            f"clipping norm on each sum keeps {steps} steps within epsilon {epsilon:g}."
        )
    assert noise_multiplier is not None
    event = _event(noise_multiplier, relation, sampling, share, steps)
    _table(event, Budget(1.0, delta, relation))


def _rate(sampling: SamplingName, rate: float | None, batch_size: int | None, records: int | None) -> float:
    match sampling, rate, batch_size, records:
        case SamplingName.FULL, None, None, None:
            return 1.0
        case SamplingName.FULL, _, _, _:
            raise ValueError("a rate, a batch or records are given, and --sampling is full: say poisson or fixed.")
        case _, float(), None, None:
            return rate
        case _, None, int(), int() if records > 0:
            return batch_size / records
    raise ValueError(f"--sampling {sampling.value} needs either --rate, or --batch-size and --records.")


def _event(multiplier: float, relation: Relation, sampling: SamplingName, rate: float, steps: int) -> Event:
    from sordino.privacy.events import FixedSizeSampled, Gaussian, PoissonSampled, repeat

    if not (math.isfinite(multiplier) and multiplier > 0):
        raise ValueError(f"the noise multiplier is {multiplier}: it must be a positive finite number.")
    # replacing a record moves the sum by two clipping norms, and events are stated relative to that
    release = Gaussian(multiplier / relation.distance)
    match sampling:
        case SamplingName.FULL:
            return repeat(release, steps)
        case SamplingName.POISSON:
            return repeat(PoissonSampled(release, rate), steps)
        case SamplingName.FIXED:
            return repeat(FixedSizeSampled(release, rate), steps)


def _calibrated(budget: Budget, sampling: SamplingName, rate: float, steps: int) -> float:
    from sordino.privacy.calibrate import calibrate

    least = calibrate(lambda multiplier: _event(multiplier, budget.relation, sampling, rate, steps), budget)
    # up to six digits, so that the number as printed keeps within the budget too
    unit = 10.0 ** (math.floor(math.log10(least)) - 5)
    return math.ceil(least / unit) * unit


def _table(event: Event, budget: Budget) -> None:
    from sordino.privacy.accountants import OPINIONS, guarantee

    # refuses what no accountant covers
    best = guarantee(event, budget.delta, budget.relation)
    others = [
        (accountant.name, f"{accountant.epsilon(event, budget.delta, budget.relation):.6g}")
        for accountant in OPINIONS
        if accountant.name != best.accountant and accountant.supports(event, budget.relation)
    ]
    title = f"Cost at delta {budget.delta:g} under {budget.relation.value}: every number is an upper bound"
    show_table(title, ("accountant", "epsilon"), [(best.accountant, f"{best.epsilon:.6g}"), *others])
