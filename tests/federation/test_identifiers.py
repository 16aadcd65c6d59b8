from __future__ import annotations

import pytest
from scipy.stats import chisquare

from rehearsal import Rehearsal, together
from sordino.federation.identifiers import _hashed, common_identifiers, distinct
from sordino.federation.mpyc_engine import MpycAggregation


def compared(lists, records):
    """What every owner learns, by the number of the other; and everything that was sent."""
    rehearsal = Rehearsal(len(lists))
    owners = [i for i, one in enumerate(lists) if one is not None]

    def member(mesh):
        mine = lists[mesh.me]
        mine = None if mine is None else distinct(mine)
        return common_identifiers(MpycAggregation(mesh, 1), mine, owners, records)

    counts = together([lambda mesh=mesh: member(mesh) for mesh in rehearsal.meshes()])
    return counts, rehearsal.transcript


def points(message):
    return [message.content[i : i + 32] for i in range(0, len(message.content), 32)]


def test_common_identifiers_are_counted_by_the_two_who_share_them():
    counts, _ = compared([["a", "b", "c"], ["c", "d", b"b"], ["x"], None], [4, 3, 1, 5])
    assert counts == [{1: 2, 2: 0}, {0: 2, 2: 0}, {0: 0, 1: 0}, {}]


def test_nobody_else_holds_two_lists_that_could_be_compared():
    """Owners 0 and 1 share two identifiers; of all points that owner 2 ever saw, no two are equal."""
    counts, transcript = compared([["a", "b"], ["b", "a"], ["x", "y"]], [2, 2, 2])
    assert counts[0] == {1: 2, 2: 0}
    seen = [point for message in transcript if 2 in (message.receiver, message.sender) for point in points(message)]
    assert len(set(seen)) == len(seen) == 2 * 2 * 2 * 2
    # the two hold such lists: what each sent back to the other
    second = max(message.round for message in transcript)
    back = [set(points(m)) for m in transcript if m.round == second and {m.sender, m.receiver} == {0, 1}]
    assert back[0] == back[1]


def test_numbers_and_their_digits_are_the_same_identifier():
    assert compared([[7], ["7"]], [1, 1])[0] == [{1: 1}, {0: 1}]


def test_lists_are_as_long_as_the_public_number_of_records():
    _, transcript = compared([["a"], ["b"]], [3, 6])
    first = min(message.round for message in transcript)
    assert {m.sender: len(points(m)) for m in transcript if m.round == first} == {0: 3, 1: 6}


def test_more_identifiers_than_the_public_number_do_not_show():
    """To stop would tell that there is one record more than the stand-in says."""
    counts, transcript = compared([["a", "b", "c"], ["x", "y"]], [2, 2])
    assert counts == [{1: 0}, {0: 0}]
    assert {len(points(message)) for message in transcript} == {2}
    found = {compared([["a", "b"], ["b"]], [1, 1])[0][0][1] for _ in range(40)}
    assert found == {0, 1}


def test_an_identifier_that_one_owner_has_twice():
    with pytest.raises(ValueError, match="1 of 4 records have an identifier that an earlier record has") as raised:
        distinct(["maria", "b", "maria", "c"])
    assert "maria" not in str(raised.value)


def test_what_is_told_is_new_every_time_and_has_nothing_of_the_identifiers():
    seen = []
    for _ in range(2):
        _, transcript = compared([["a", "b"], ["b", "c"]], [2, 2])
        seen.append({point for message in transcript for point in points(message)})
        assert not {_hashed(x) for x in (b"a", b"b", b"c")} & seen[-1]
    assert not seen[0] & seen[1]


def test_hashes_are_on_the_curve_and_spread_evenly():
    p = 2**255 - 19
    hashes = [_hashed(str(i).encode()) for i in range(2000)]
    assert len(set(hashes)) == 2000
    for point in hashes[:50]:
        u = int.from_bytes(point, "little")
        assert pow(u**3 + 486662 * u**2 + u, (p - 1) // 2, p) == 1
    counts = [sum(point[0] % 16 == k for point in hashes) for k in range(16)]
    assert chisquare(counts).pvalue > 1e-4
