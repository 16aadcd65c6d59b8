r"""The loop of every method that perturbs gradients.

    B_t ~ sampling,     g_t = (1/b) ( sum_{i in B_t} clip(grad l(w_t; z_i), C) + noise ),       b = expected size
    w_{t+1} = Pi( w_t - eta_t direction_t ),   t < R <= T;      the direction by `methods.updates`, R by the plan's stop

The records are asked for one noisy sum per step, which is what the plan's event counts. Every w_t is paid for by then,
so their means cost nothing. Noise may remember what it added in earlier steps (`privacy.correlated_noise`): that is
secret, so it is no part of the state, which may be kept on a disk or shown, and such a run begins anew or not at all.
The moving average, with which the noise of the last steps is smoothed away, is

    v_0 = w_0,      v_t = m_t v_{t-1} + (1 - m_t) w_t,      m_t = min(.9999, t/(9 + t))
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from sordino.arrays import Array
from sordino.methods.plan import DescentPlan, LastStep
from sordino.methods.protocol import AnyProblem, Release
from sordino.oracle.protocol import LinearOracle, Oracle
from sordino.oracle.query import Gradient, SideBySide, StepQuery
from sordino.oracle.sampling import FullBatch
from sordino.privacy.correlated_noise import NoiseOfRun
from sordino.privacy.noise import Noise, NoisePerRow
from sordino.privacy.randomness import Randomness
from sordino.progress import steps


@dataclass
class DescentState:
    """w_t, what the update keeps, the iterates' sum or path where it is released, t, and R.

    An interruption that costs steps makes t end below R.
    """

    w: Array
    memory: Array
    gathered: Array
    taken: int
    stop: int


def descend(
    plan: DescentPlan, problem: AnyProblem, oracle: Oracle, randomness: Randomness, start: Array | None = None
) -> Release:
    descent = _descent(plan, problem, oracle, randomness, start)
    try:
        asked = next(descent)
        while True:
            asked = descent.send(oracle.release(*asked, randomness))
    except StopIteration as ended:
        release: Release = ended.value
        return release


def can_go_beside(plan: object) -> TypeGuard[DescentPlan]:
    """Whether runs of this plan are independent in one stack: batches and a random end are common to its rows."""
    return (
        isinstance(plan, DescentPlan)
        and all(isinstance(sampling, FullBatch) for sampling, _, _ in plan.sums)
        and isinstance(plan.stop, LastStep)
    )


def descend_side_by_side(
    runs: Sequence[tuple[DescentPlan, AnyProblem, Array]], oracle: LinearOracle, randomness: Randomness
) -> list[Release]:
    """What `descend` makes of every plan, problem and stack of starts, where plain gradients are asked for at once.

    The records are passed over once for all of them. Every row has its own plan's noise, drawn for it alone.
    """
    descents = [_descent(plan, problem, oracle, randomness, start) for plan, problem, start in runs]
    releases: dict[int, Release] = {}
    waiting = {number: next(descent) for number, descent in enumerate(descents)}
    while waiting:
        plain: dict[int, tuple[Gradient, Noise]] = {}
        answers: dict[int, Array] = {}
        for number, (query, noise) in waiting.items():
            if isinstance(query, Gradient) and query.batch is None and not query.softening:
                plain[number] = query, noise
            else:
                answers[number] = oracle.release(query, noise, randomness)
        if plain:
            answers.update(zip(plain, _asked_at_once(list(plain.values()), oracle, randomness), strict=True))
        for number, answer in answers.items():
            try:
                waiting[number] = descents[number].send(answer)
            except StopIteration as ended:
                releases[number] = ended.value
                del waiting[number]
    return [releases[number] for number in range(len(runs))]


_Asked = tuple[StepQuery, Noise]


def _asked_at_once(some: list[tuple[Gradient, Noise]], oracle: LinearOracle, randomness: Randomness) -> list[Array]:
    if len(some) == 1:
        return [oracle.release(*some[0], randomness)]
    noises = tuple(noise for query, noise in some for _ in query.at)
    answer = oracle.release(SideBySide(tuple(query for query, _ in some)), NoisePerRow(noises), randomness)
    return np.split(answer, np.cumsum([len(query.at) for query, _ in some])[:-1])


def _descent(
    plan: DescentPlan, problem: AnyProblem, oracle: Oracle, randomness: Randomness, start: Array | None
) -> Generator[_Asked, Array, Release]:
    """The loop: what it asks the records for, with which noise; it is sent the answers."""
    state = _begin(plan, problem.start() if start is None else start)
    begun = plan.noise.begin()
    # nobody can go on from a state without the noise that was added before it
    for t in steps(plan.steps, None if isinstance(begun, NoiseOfRun) else state):
        if t == 0:
            state.stop = plan.stop.draw(plan, randomness)
        if t >= state.stop:
            break
        w, (sampling, noise) = state.w, plan.sum_at(t, begun)
        gradient = Gradient(w, plan.clip, oracle.draw(sampling, randomness), plan.softening)
        g = yield plan.update.query(gradient, state.memory, t), noise
        # the answer is nobody else's: it becomes the step, and the step the next point, in the same memory
        g *= 1 / sampling.expected_size(plan.records)
        moved = plan.update.move(w, g, problem.penalty, plan.step_size_at(t), state.memory, t)
        state.w = problem.domain.project(np.subtract(w, moved, out=moved))
        state.taken += 1
        _gather(plan, state)
    return Release(_released(plan, state), plan.event)


def _begin(plan: DescentPlan, w: Array) -> DescentState:
    gathered = {"last": 0, "average": 1, "moving average": 1, "trajectory": plan.steps + 1}[plan.release]
    state = DescentState(w, np.zeros((plan.update.arrays, *w.shape)), np.zeros((gathered, *w.shape)), 0, plan.steps)
    if plan.release in ("moving average", "trajectory"):
        state.gathered[0] = w
    return state


def _gather(plan: DescentPlan, state: DescentState) -> None:
    if plan.release == "average":
        state.gathered[0] += state.w
    elif plan.release == "moving average":
        m = min(0.9999, state.taken / (9 + state.taken))
        state.gathered[0] *= m
        state.gathered[0] += (1 - m) * state.w
    elif plan.release == "trajectory":
        state.gathered[state.taken] = state.w


def _released(plan: DescentPlan, state: DescentState) -> Array:
    match plan.release:
        case "average":
            mean: Array = state.gathered[0] / state.taken
            return mean
        case "moving average":
            smoothed: Array = state.gathered[0]
            return smoothed
        case "trajectory":
            return state.gathered[: state.taken + 1]
    return state.w
