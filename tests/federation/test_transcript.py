"""What t colluding owners hold after a sum: all they received, all they sent, and their own noise."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import kstest

from rehearsal import Rehearsal, together
from sordino.federation.mpyc_engine import MODULUS, MpycAggregation, packed
from sordino.federation.mpyc_joint import PRIME
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


@cache
def rehearsed(trust, value):
    """One sum in which every owner's exact part is `value` everywhere: transcript, opened sum and makers' noise."""
    shared = trust.realise(PLANNED)
    rehearsal = Rehearsal(trust.members)
    noise = {member: shared.next((SIZE,), Randomness.seeded(100 + member)) for member in trust.makers}

    def member(mesh):
        part = np.full(SIZE, value if mesh.me < trust.owners else 0, dtype=np.int64) + noise.get(mesh.me, 0)
        return MpycAggregation.among(trust, mesh).open_sum(part[None], shared.joint)

    meshes = rehearsal.meshes()
    try:
        opened = together([lambda mesh=mesh: member(mesh) for mesh in meshes])
    finally:
        for mesh in meshes:
            mesh.close()
    assert all(np.array_equal(total, opened[0]) for total in opened)
    rehearsal.transcript[:] = messages_with_shares(rehearsal.transcript)
    return shared, rehearsal, opened[0], noise


def messages_with_shares(transcript):
    """Without the session's name and what the members heard of each other, and without signatures.

    Random bytes and functions of what was told to all: nothing in them depends on more than that.
    """
    last = max(message.round for message in transcript)
    opening, others = last - 1, (last - 3, last - 2, last)
    assert {len(message.content) for message in transcript if message.round in others[:2]} == {32}
    return [
        replace(message, content=message.content[64:]) if message.round == opening else message
        for message in transcript
        if message.round not in others
    ]


def field_of(trust):
    """The prime of MPyC's messages, and the bytes of an element."""
    return (PRIME, 8) if trust.mode == "joint" else (MODULUS, 160)


def elements(message, trust):
    width = field_of(trust)[1]
    content = message.content
    return [int.from_bytes(content[i : i + width], "little") for i in range(0, len(content), width)]


def uniforms(message, trust):
    """Numbers between 0 and 1: in the wide field an element has nineteen words that would be uniform."""
    words = np.frombuffer(message.content, dtype="<u8").reshape(-1, field_of(trust)[1] // 8)
    return (words[:, :19] / 2.0**64).ravel()


def secret_of(value, trust):
    return [int(v) % PRIME for v in value] if trust.mode == "joint" else packed(value)


def recombined(messages, trust):
    """MPyC's own way from shares to what they would be shares of."""
    from mpyc import finfields, thresha

    prime = field_of(trust)[0]
    points = [(message.receiver + 1, elements(message, trust)) for message in messages]
    return [number % prime for number in thresha.recombine(finfields.GF(prime), points)]


@pytest.mark.slow
@pytest.mark.parametrize(("trust", "coalition"), CASES, ids=str)
@pytest.mark.parametrize("value", [0, 10**14])
def test_every_message_a_coalition_receives_is_uniform_whatever_the_records(trust, coalition, value):
    _, rehearsal, _, _ = rehearsed(trust, value)
    seen = rehearsal.seen_by(set(coalition))
    assert seen
    for message in seen:
        assert kstest(uniforms(message, trust)[:1600], "uniform").pvalue > 1e-6 / len(seen)


@pytest.mark.slow
@pytest.mark.parametrize(("trust", "coalition"), CASES, ids=str)
def test_what_a_coalition_can_compute_is_the_honest_sum_with_the_planned_noise(trust, coalition):
    value = 10**14
    shared, _, opened, noise = rehearsed(trust, value)
    honest = [owner for owner in range(trust.owners) if owner not in coalition]
    known = sum(noise[member] for member in coalition if member in noise)
    known = known + value * (trust.owners - len(honest))
    left = (opened - known - value * len(honest)) * shared.step
    # neither less noise than was planned nor another law
    assert kstest(left / PLANNED.std, "norm").pvalue > 1e-6
    assert np.std(left) > 0.9 * PLANNED.std


@pytest.mark.slow
@pytest.mark.parametrize(("trust", "coalition"), [case for case in CASES if case[0].mode != "committee"], ids=str)
def test_pooled_shares_do_not_give_an_honest_owners_sum(trust, coalition):
    value = 10**14
    _, rehearsal, _, noise = rehearsed(trust, value)
    victim = next(owner for owner in range(trust.owners) if owner not in coalition)
    first = min(message.round for message in rehearsal.transcript)
    dealt = [m for m in rehearsal.transcript if m.round == first and m.sender == victim]
    pooled = [m for m in dealt if m.receiver in coalition]
    assert len(pooled) == trust.colluders
    # the best they can do with t shares of a polynomial of degree t: pretend that it has one degree less
    guess, secret = recombined(pooled, trust), secret_of(value + noise[victim], trust)
    assert not any(one == other for one, other in zip(guess, secret, strict=True))
    assert kstest(np.array([float(one / field_of(trust)[0]) for one in guess]), "uniform").pvalue > 1e-6
    # with one more share they would have it, so the test has something to find
    if len(dealt) > trust.colluders:
        assert recombined(dealt[: trust.colluders + 1], trust) == secret


@pytest.mark.slow
@pytest.mark.parametrize("coalition", [(0, 3), (1, 2)])
def test_joint_noise_is_not_in_any_message(coalition):
    trust = Trust(5, "joint", 2)
    shared, rehearsal, opened, noise = rehearsed(trust, 0)
    coarse = (opened - sum(noise.values())) / shared.joint.scale
    assert np.std(coarse) == pytest.approx(1.0, abs=0.12)
    *before, last = sorted({message.round for message in rehearsal.transcript})
    for message in rehearsal.seen_by(set(coalition)):
        content = uniforms(message, trust)
        if message.round == last or content.size % SIZE:
            continue
        for row in content.reshape(-1, SIZE):
            assert abs(np.corrcoef(row, coarse)[0, 1]) < 0.2
    assert len(before) > 10
