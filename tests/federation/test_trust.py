from __future__ import annotations

import pytest

from sordino.federation.trust import Trust
from sordino.privacy.noise import L2LaplaceNoise


@pytest.mark.parametrize(
    ("owners", "mode", "colluders", "sentence"),
    [
        (1, "distributed", 1, "1 owners: distributed noise needs at least 2"),
        (2, "joint", 1, "2 owners: joint noise needs at least 3"),
        (0, "committee", 1, "0 owners: committee noise needs at least 1"),
        (5, "distributed", 5, "colluders is 5 of 5 owners: .* at most 4"),
        (5, "distributed", -1, "colluders is -1 of 5 owners: .* at least 0"),
        (5, "joint", 0, "colluders is 0 of 5 owners: .* at least 1"),
        (5, "committee", 0, "exactly one may collude"),
        (5, "joint", 3, "colluders is 3 of 5 owners: .* at most 2"),
        (4, "joint", 2, "colluders is 2 of 4 owners: .* at most 1"),
        (5, "committee", 2, "exactly one may collude"),
        (5, "central", 1, "mode is 'central': it must be one of 'distributed', 'committee', 'joint'"),
    ],
)
def test_what_cannot_be_trusted_is_refused(owners, mode, colluders, sentence):
    with pytest.raises(ValueError, match=sentence):
        Trust(owners, mode, colluders)


def test_who_does_what():
    assert Trust(4).members == 4
    assert Trust(4).makers == Trust(4).holders == (0, 1, 2, 3)
    committee = Trust(4, "committee")
    assert committee.members == 7
    assert committee.makers == committee.holders == (4, 5, 6)


@pytest.mark.parametrize(
    ("trust", "holders", "together"),
    [
        (Trust(5, "distributed", 3), range(5), 3),
        (Trust(5, "joint", 2), range(5), 2),
        (Trust(5, "committee"), (5, 6, 7), 1),
        # where the owners hold shares too, all but one of them side with a server
        (Trust(5, "committee"), range(8), 5),
    ],
)
def test_the_largest_coalition(trust, holders, together):
    assert trust.coalition(tuple(holders)) == together


def test_only_gaussian_noise_is_shared():
    with pytest.raises(ValueError, match="L2LaplaceNoise cannot be shared among owners"):
        Trust(3).realise(L2LaplaceNoise(1.0, 1.0, 3))
