from __future__ import annotations

import math

import pytest

from sordino import wire
from sordino.methods.rates import RATES, Constant, Cosine, HalvedMidway, Inverse, InverseRoot, StepDecay, WarmUp


def path(rate, T):
    return [rate.at(t, T) for t in range(T)]


def test_paths():
    assert path(Constant(), 3) == [1, 1, 1]
    assert path(StepDecay(2, 0.1), 5) == pytest.approx([1, 1, 0.1, 0.1, 0.01])
    assert path(HalvedMidway(), 4) == [1, 1, 0.5, 0.5]
    assert path(HalvedMidway(), 3) == [1, 1, 0.5]
    assert path(Inverse(), 3) == [1, 1 / 2, 1 / 3]
    assert path(InverseRoot(), 3) == [1, 1 / math.sqrt(2), 1 / math.sqrt(3)]
    assert path(Cosine(), 4) == pytest.approx([1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2])
    assert path(Cosine(0.2), 2) == pytest.approx([1, 0.6])
    assert path(WarmUp(2), 4) == [0.5, 1, 1, 1]
    # after the warm-up the other rate begins, and ends with the run
    assert path(WarmUp(2, Cosine()), 4) == pytest.approx([0.5, 1, 1, 0.5])
    assert path(WarmUp(5), 3) == pytest.approx([0.2, 0.4, 0.6])


RATES_TO_TRY = [
    Constant(),
    StepDecay(3, 0.5),
    HalvedMidway(),
    Inverse(),
    InverseRoot(),
    Cosine(0.3),
    WarmUp(4, StepDecay(2)),
]


@pytest.mark.parametrize("rate", RATES_TO_TRY)
@pytest.mark.parametrize("T", [1, 2, 7, 100])
def test_rates_are_positive_and_never_above_one(rate, T):
    assert all(0 < at <= 1 for at in path(rate, T))


@pytest.mark.parametrize("rate", RATES_TO_TRY)
def test_rates_survive_a_file(rate):
    assert wire.from_plain(wire.to_plain(rate), RATES) == rate


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: StepDecay(0), "every is 0"),
        (lambda: StepDecay(2.5), "whole number"),
        (lambda: StepDecay(2, 0.0), "factor is 0.0"),
        (lambda: StepDecay(2, 1.5), "factor is 1.5"),
        (lambda: Cosine(-0.1), "floor is -0.1"),
        (lambda: WarmUp(0), "steps is 0"),
    ],
)
def test_what_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
