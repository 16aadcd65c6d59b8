"""What t colluding owners hold after a sum: all they received, all they sent, and their own noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from sordino.federation.field import P, combine, to_field, weights_at
from sordino.federation.mesh import Rehearsal, together
from sordino.federation.shamir import ShamirAggregation
from sordino.federation.trust import Trust
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness

SIZE = 800
PLANNED = GaussianNoise.at(1.0, 1.0, SIZE)

CASES = [
    (Trust(3, "distributed", 1), (0,)),
    (Trust(3, "distributed", 2), (1, 2)),
    (Trust(5, "distributed", 2), (1, 4)),
    (Trust(5, "distributed", 3), (0, 2, 3)),
    (Trust(3, "committee"), (0, 1, 3)),
    (Trust(3, "committee"), (2, 5)),
    (Trust(3, "joint", 1), (2,)),
    (Trust(5, "joint", 2), (0, 3)),
]


def rehearsed(trust, value, seed):
    """One sum in which every owner's exact part is `value` everywhere: transcript, opened sum and makers' noise."""
    shared = trust.realise(PLANNED)
    rehearsal = Rehearsal(trust.members)
    noise = {member: shared.share((SIZE,), Randomness.seeded(100 * seed + member).noise) for member in trust.makers}

    def member(mesh):
        part = np.full(SIZE, value if mesh.me < trust.owners else 0, dtype=np.int64) + noise.get(mesh.me, 0)
        stream = Randomness.seeded(10_000 * seed + mesh.me).noise
        return ShamirAggregation.among(trust, mesh, stream).open_sum(part[None], shared.joint)

    opened = together([lambda mesh=mesh: member(mesh) for mesh in rehearsal.meshes()])
    assert all(np.array_equal(total, opened[0]) for total in opened)
    return shared, rehearsal, opened[0], noise


def numbers(message):
    return np.frombuffer(message.content, dtype="<u8")


@pytest.mark.parametrize(("trust", "coalition"), CASES, ids=str)
@pytest.mark.parametrize("value", [0, 10**14])
def test_every_message_a_coalition_receives_is_uniform_whatever_the_records(trust, coalition, value):
    _, rehearsal, _, _ = rehearsed(trust, value, seed=1 + (value > 0))
    seen = rehearsal.seen_by(set(coalition))
    assert seen
    for message in seen:
        assert kstest(numbers(message)[:1600] / P, "uniform").pvalue > 1e-3 / len(seen)


@pytest.mark.parametrize(("trust", "coalition"), CASES, ids=str)
def test_what_a_coalition_can_compute_is_the_honest_sum_with_the_planned_noise(trust, coalition):
    value = 3 * 10**12
    shared, _, opened, noise = rehearsed(trust, value, seed=3)
    honest = [owner for owner in range(trust.owners) if owner not in coalition]
    known = sum(noise[member] for member in coalition if member in noise)
    known = known + value * (trust.owners - len(honest))
    left = (opened - known - value * len(honest)) * shared.step
    # neither less noise than was planned nor another law
    assert kstest(left / PLANNED.std, "norm").pvalue > 1e-3
    assert np.std(left) > 0.94 * PLANNED.std


@pytest.mark.parametrize(("trust", "coalition"), [case for case in CASES if case[0].mode != "committee"], ids=str)
def test_pooled_shares_do_not_give_an_honest_owners_sum(trust, coalition):
    value = 10**14
    _, rehearsal, _, noise = rehearsed(trust, value, seed=4)
    victim = next(owner for owner in range(trust.owners) if owner not in coalition)
    first = [m for m in rehearsal.transcript if m.round == 0 and m.sender == victim and m.receiver in coalition]
    shares = np.stack([numbers(message) for message in sorted(first, key=lambda m: m.receiver)])
    assert len(shares) == trust.colluders
    # the best they can do with t shares of a polynomial of degree t: pretend that it has one degree less
    guess = combine(shares, weights_at(tuple(sorted(coalition)), 0))
    secret = to_field(value + noise[victim])
    assert not (guess == secret).any()
    assert kstest(guess / P, "uniform").pvalue > 1e-3
    # with one more share they would have it, so the test has something to find
    everything = [m for m in rehearsal.transcript if m.round == 0 and m.sender == victim]
    if len(everything) > trust.colluders:
        more = everything[: trust.colluders + 1]
        points = tuple(message.receiver for message in more)
        assert np.array_equal(combine(np.stack([numbers(m) for m in more]), weights_at(points, 0)), secret)


@pytest.mark.parametrize("coalition", [(0, 3), (1, 2)])
def test_joint_noise_is_not_in_any_message(coalition):
    trust = Trust(5, "joint", 2)
    shared, rehearsal, opened, noise = rehearsed(trust, 0, seed=5)
    coarse = (opened - sum(noise.values())) / shared.joint.scale
    assert np.std(coarse) == pytest.approx(1.0, abs=0.1)
    *before, last = sorted({message.round for message in rehearsal.transcript})
    for message in rehearsal.seen_by(set(coalition)):
        content = numbers(message)
        if message.round == last or content.size % SIZE:
            continue
        for row in content.reshape(-1, SIZE):
            assert abs(np.corrcoef(row / P, coarse)[0, 1]) < 0.15
    assert len(before) > 10
