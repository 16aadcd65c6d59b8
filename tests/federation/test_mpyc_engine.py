"""How coordinates share a field element, and sums by members in threads; `test_members.py` has them in processes."""

from __future__ import annotations

import numpy as np
import pytest

from rehearsal import Rehearsal, together
from sordino.federation.mpyc_engine import LANES, MODULUS, MpycAggregation, packed, unpacked
from sordino.federation.trust import Trust


@pytest.mark.parametrize("size", [1, LANES - 1, LANES, LANES + 1, 5 * LANES + 3])
def test_sums_of_elements_are_sums_of_lanes(size):
    generator = np.random.default_rng(size)
    vectors = generator.integers(-(1 << 60), 1 << 60, size=(5, size))
    elements = [sum(column) % MODULUS for column in zip(*map(packed, vectors), strict=True)]
    assert np.array_equal(unpacked(elements, size), vectors.sum(axis=0))


def test_extreme_lanes_do_not_spill_over():
    largest, smallest = (1 << 63) - 1, -(1 << 63)
    vector = np.array([largest, smallest] * LANES)
    assert np.array_equal(unpacked(packed(vector), vector.size), vector)


def test_an_overflow_spills_into_the_next_lane_alone():
    vectors = np.zeros((2, LANES), dtype=np.int64)
    vectors[:, 0] = (1 << 62) + 5
    elements = [sum(column) % MODULUS for column in zip(*map(packed, vectors), strict=True)]
    assert unpacked(elements, LANES).tolist() == [-(1 << 63) + 10, 1, *[0] * (LANES - 2)]


def test_the_modulus_is_prime():
    # Lucas and Lehmer's test for 2^q - 1
    s = 4
    for _ in range(1279 - 2):
        s = (s * s - 2) % MODULUS
    assert s == 0


class FewMembers:
    me, members = 0, 3


@pytest.mark.parametrize("tolerates", [0, 3])
def test_as_many_as_there_are_cannot_be_tolerated(tolerates):
    with pytest.raises(ValueError, match="between 1 and 2 can be tolerated"):
        MpycAggregation(FewMembers(), tolerates)


@pytest.mark.parametrize(
    ("trust", "tolerated"),
    [(Trust(3), 1), (Trust(5, "distributed", 4), 4), (Trust(3, "committee"), 3), (Trust(5, "joint", 2), 2)],
    ids=str,
)
def test_any_number_of_members_and_colluders_adds_up(trust, tolerated):
    meshes = Rehearsal(trust.members).meshes()
    aggregations = [MpycAggregation.among(trust, mesh) for mesh in meshes]
    assert {aggregation.tolerates for aggregation in aggregations} == {tolerated}
    values = np.random.default_rng(1).integers(-(1 << 58), 1 << 58, size=(trust.members, 4, 9))
    try:
        sums = together(
            [
                lambda one=one, value=value: one.open_sum(value[None])
                for one, value in zip(aggregations, values, strict=True)
            ]
        )
    finally:
        for aggregation in aggregations:
            aggregation.close()
    assert all(np.array_equal(total, values.sum(axis=0)) for total in sums)
    # two for the session's name; then shares, shares of the sum, and what everybody heard of these
    assert {aggregation.traffic.rounds for aggregation in aggregations} == {2 + 3}
    # 36 coordinates are two elements, to all others twice by who opens; with signatures, and digests and signatures
    one = 2 * 32 + 2 * 160 + 96 * (tolerated + 1)
    assert aggregations[0].traffic.sent == (trust.members - 1) * (one + 64 + 2 * 160)
    assert aggregations[-1].traffic.sent == (trust.members - 1) * (
        one + (64 + 2 * 160) * (tolerated == trust.members - 1)
    )
