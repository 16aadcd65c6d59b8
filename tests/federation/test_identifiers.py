from __future__ import annotations

from scipy.stats import chisquare

from sordino.federation.aggregation import InTheOpen
from sordino.federation.identifiers import _hashed, common_identifiers


class Overheard(InTheOpen):
    """Keeps what was told."""

    def __init__(self, members):
        super().__init__(members)
        self.told = []

    def tell(self, messages):
        self.told.append(tuple(messages))
        return super().tell(messages)


def test_common_identifiers_are_counted():
    lists = [["a", "b", "c", "c"], ["c", "d", b"b"], ["x"], None]
    counts = common_identifiers(InTheOpen(4), lists, [4, 3, 1, 5])
    assert counts == {(0, 1): 2, (0, 2): 0, (0, 3): 0, (1, 2): 0, (1, 3): 0, (2, 3): 0}


def test_numbers_and_their_digits_are_the_same_identifier():
    assert common_identifiers(InTheOpen(2), [[7], ["7"]], [1, 1]) == {(0, 1): 1}


def test_lists_are_as_long_as_the_public_number_of_records():
    overheard = Overheard(2)
    common_identifiers(overheard, [["a", "a", "a"], ["b"]], [3, 6])
    assert [len(message) // 32 for message in overheard.told[0]] == [3, 6]


def test_what_is_told_is_new_every_time_and_has_nothing_of_the_identifiers():
    seen = []
    for _ in range(2):
        overheard = Overheard(2)
        common_identifiers(overheard, [["a", "b"], ["b", "c"]], [2, 2])
        points = [m[i : i + 32] for round_ in overheard.told for m in round_ for i in range(0, len(m), 32)]
        seen.append(set(points))
        assert not {_hashed(x) for x in (b"a", b"b", b"c")} & set(points)
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
