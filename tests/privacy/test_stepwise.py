from __future__ import annotations

from collections import Counter

import pytest

from sordino.privacy.events import Composed, Gaussian
from sordino.privacy.stepwise import Stepwise, as_event

A, B = Gaussian(1.0), Gaussian(2.0)


def test_steps_between():
    steps = Stepwise(((A, 2), (B, 3), (A, 1)))
    assert steps.steps == 6
    assert steps.between(0, 6) == {A: 3, B: 3}
    assert steps.between(1, 4) == {A: 1, B: 2}
    assert steps.between(3, 3) == {}


@pytest.mark.parametrize(
    ("parts", "done", "lost", "reach"),
    [
        (((A, 10),), 4, [], 10),
        (((A, 10),), 4, [(4, 7)], 7),  # 4 taken, 3 lost, 3 left
        (((A, 10),), 4, [(4, 7), (4, 6)], 5),
        (((A, 10),), 4, [(4, 10)], 4),  # everything was seen: nothing is left to repeat
        (((A, 1), (B, 9)), 4, [(4, 6)], 8),
        (((A, 1), (B, 9)), 0, [(0, 3)], 0),  # the first step exists only once
        (((A, 3), (B, 3)), 2, [(2, 4)], 2),  # the third A is used up, so no B can be reached
    ],
)
def test_a_run_never_uses_more_than_was_planned(parts, done, lost, reach):
    steps = Stepwise(parts)
    used = steps.between(0, done)
    for first, last in lost:
        used += steps.between(first, last)
    assert steps.reach(used, done) == reach
    total = used + steps.between(done, reach)
    assert all(count <= steps.between(0, steps.steps)[event] for event, count in total.items())
    if reach < steps.steps:
        more = total + steps.between(reach, reach + 1)
        assert any(count > steps.between(0, steps.steps)[event] for event, count in more.items())


def test_what_was_used_is_an_event():
    assert as_event(Counter()) is None
    assert as_event(Counter({A: 3, B: 1})) == Composed(((A, 3), (B, 1)))
