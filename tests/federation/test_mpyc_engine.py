"""How coordinates share a field element; `test_processes.py` runs MPyC itself."""

from __future__ import annotations

import numpy as np
import pytest

from sordino.federation.joint import JointSampler
from sordino.federation.mpyc_engine import LANES, MODULUS, MpycAggregation, packed, unpacked


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


def test_joint_noise_is_for_the_other_engine():
    aggregation = object.__new__(MpycAggregation)
    with pytest.raises(ValueError, match="joint noise is drawn by ShamirAggregation"):
        aggregation.open_sum(np.zeros((1, 2), dtype=np.int64), JointSampler(1))
