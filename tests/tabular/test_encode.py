"""Encoding looks at one record at a time, keeps within the public norm, and never repeats a cell in an error."""

from __future__ import annotations

import decimal
import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

from sordino.tabular import Boolean, Category, ClassTarget, Date, Number, NumberTarget, Ordinal, Schema
from sordino.tabular.discovery import count_values
from sordino.tabular.encode import WIDEST_DENSE, _found, encode_features, encode_target, texts_of


def schema(**columns: Any) -> Schema:
    return Schema(ClassTarget("label", ("no", "yes")), columns)


TEXTS = ["", "a", "ab", "ba", "value 1", "value 11", "12345678", "123456789", "ü", "x" * 16, "x" * 17, "x" * 40]
OTHERS = [
    "b",
    "value 2",
    "1234567",
    "x" * 39,
    "x" * 20 + "y" + "x" * 19,
    "y" + "x" * 39,
    "x" * 39 + "y",
    "x" * 15 + "y",
]


@settings(deadline=None)
@given(st.lists(st.sampled_from([*TEXTS, *OTHERS, None]), max_size=30), st.integers(0, 10))
def test_texts_are_found_where_they_are_listed_first(cells: list[str | None], cut: int) -> None:
    listed = [*TEXTS, "a", "x" * 40]
    # a part of an array shares the memory of the whole
    some = pa.array(cells, pa.string()).slice(cut)
    found, missed = _found(some, pa.array(listed, pa.string()))
    places = [listed.index(text or "") if (text or "") in listed else len(listed) for text in cells[cut:]]
    assert found.tolist() == places
    assert missed == places.count(len(listed))


def test_numbers_are_clipped_and_centred() -> None:
    X = encode_features(schema(x=Number(10, 30)), {"x": [10, 20, 25, 30, -1e300, 31]})
    assert X.ravel().tolist() == [-1, 0, 0.5, 1, -1, 1]


def test_whole_numbers_of_every_kind_are_the_numbers_they_are() -> None:
    """Also those that double precision rounds, and whether or not another record makes floats of them."""
    cells = [0, 1, -7, 99, 2**53 + 1, -(2**62) - 3, 2**63 - 1]
    described = schema(x=Number(-(2.0**63), 2.0**60, missing="middle"), z=Number(0, 100))
    want = encode_features(described, {"x": np.array(cells, dtype=float), "z": [50.0] * 7})
    for kind in (pa.int64(), pa.float64(), pa.decimal128(20)):
        exact = [float(cell) for cell in cells] if kind == pa.float64() else cells
        for some in (exact, [*exact, None]):
            table = {"x": pa.array(some, kind), "z": pa.array([50] * len(some), pa.int32())}
            np.testing.assert_array_equal(encode_features(described, pa.table(table))[:7], want)


def test_a_range_as_wide_as_double_precision_does_not_overflow() -> None:
    X = encode_features(schema(x=Number(-1.7e308, 1.7e308)), {"x": [-1.7e308, 0.0, 1.7e308]})
    assert X.ravel().tolist() == [-1, 0, 1]


def test_categories_have_a_column_each_and_one_for_the_rest() -> None:
    columns = {"a": Category(("p", "q"), other=True), "b": Category(("u", "v"))}
    X = encode_features(schema(**columns), {"a": ["q", "never seen", None], "b": ["u", "v", "v"]})
    assert X.tolist() == [[0, 1, 0, 1, 0], [0, 0, 1, 0, 1], [0, 0, 1, 0, 1]]


def test_booleans_in_every_spelling() -> None:
    cells = ["true", "FALSE", " Yes", "no", "T", "f", "y", "N", "1", "0"]
    X = encode_features(schema(x=Boolean()), {"x": cells})
    assert X.ravel().tolist() == [1, -1] * 5
    for typed in ([True, False], [1, 0], [1.0, 0.0]):
        assert encode_features(schema(x=Boolean()), {"x": typed}).ravel().tolist() == [1, -1]


@pytest.mark.parametrize("absent", ["", " ", "NA", "n/a", "NaN", "null", "None", None])
def test_missing_values_go_where_the_schema_says(absent: str | None) -> None:
    columns = {"x": Number(10, 30, "middle"), "b": Boolean("middle"), "c": Category(("p", "q"), missing="q")}
    X = encode_features(schema(**columns), {"x": [absent, "30"], "b": [absent, "no"], "c": [None, " p "]})
    assert X.tolist() == [[0, 0, 0, 1], [1, -1, 1, 0]]


SINCE = Date("2020-01-01", "2020-01-03")


@pytest.mark.parametrize(
    "cells",
    [
        ["2020-01-01", "2020-01-02 12:00", " 2020-01-03", "1999-12-31"],
        pa.array([datetime(2020, 1, 1), datetime(2020, 1, 2, 12), datetime(2020, 1, 3), datetime(1999, 12, 31)]),
        pa.array(
            pd.to_datetime(["2020-01-01", "2020-01-02 12:00", "2020-01-03", "1999-12-31"], format="ISO8601", utc=True)
        ),
        pd.to_datetime(["2020-01-01", "2020-01-02 12:00", "2020-01-03", "1999-12-31"], format="ISO8601"),
    ],
    ids=["texts", "times", "zone", "pandas"],
)
def test_dates_are_numbers_between_public_ones(cells: Any) -> None:
    assert encode_features(schema(x=SINCE), {"x": cells}).ravel().tolist() == [-1, 0.5, 1, -1]


def test_dates_without_a_time_of_day() -> None:
    cells = pa.array([date(2020, 1, 1), date(2020, 1, 2), date(1999, 12, 31)])
    assert encode_features(schema(x=SINCE), {"x": cells}).ravel().tolist() == [-1, 0, -1]


def test_dates_in_a_format_of_their_own() -> None:
    german = Date("2020-01-01", "2020-01-03", missing="2020-01-02", format="%d.%m.%Y")
    assert encode_features(schema(x=german), {"x": ["01.01.2020", "NA", "03.01.2020"]}).ravel().tolist() == [-1, 0, 1]


def test_ordered_categories_are_evenly_spaced() -> None:
    likes = Ordinal(("no", "partly", "mostly", "yes"))
    X = encode_features(schema(x=likes), {"x": ["yes", " no", "mostly", "partly"]})
    np.testing.assert_allclose(X.ravel(), [1, -1, 1 / 3, -1 / 3], rtol=1e-15)


GONE = {
    "number": (Number(0, 4), ["1", None], [-0.5]),
    "date": (SINCE, ["2020-01-03", None], [1]),
    "boolean": (Boolean(), ["yes", "NA"], [1]),
    "ordinal": (Ordinal(("a", "b", "c")), ["c", ""], [1]),
    "category": (Category(("a", "b")), ["b", None], [0, 1]),
    "category with others": (Category(("a", "b"), other=True), ["c", None], [0, 0, 1]),
}


@pytest.mark.parametrize("kind", GONE)
def test_an_indicator_is_a_column_of_its_own(kind: str) -> None:
    """What is missing is a one there and nothing else, so the block keeps its norm."""
    plain, cells, there = GONE[kind]
    marked = schema(before=Boolean(), x=replace(plain, missing="indicator"), after=Boolean())
    X = encode_features(marked, {"before": ["yes"] * 2, "x": cells, "after": ["no"] * 2})
    assert X.tolist() == [[1, *there, 0, -1], [1, *[0] * len(there), 1, -1]]
    assert marked.feature_names[-2] == "x=(missing)"
    assert marked.row_norm == math.sqrt(3)


@pytest.mark.parametrize(
    ("column", "cell", "instead"),
    [
        (Number(0, 4, 3), None, 0.5),
        (Number(0, 4, "middle"), "", 0),
        (replace(SINCE, missing="2020-01-03"), None, 1),
        (replace(SINCE, missing="middle"), "NA", 0),
        (Boolean(True), None, 1),
        (Boolean(False), "n/a", -1),
        (Ordinal(("a", "b", "c"), "c"), None, 1),
        (Ordinal(("a", "b"), "middle"), "", 0),
    ],
)
def test_a_public_stand_in(column: Any, cell: Any, instead: float) -> None:
    assert encode_features(schema(x=column), {"x": pa.array([cell], pa.string())}).ravel().tolist() == [instead]


@pytest.mark.parametrize(
    ("column", "cells", "want"),
    [
        (Number(0, 10, typical=2), [2, 0, 10, 6, 99], [[0], [-0.25], [1], [0.5], [1]]),
        (Number(0, 10, 6, typical=2), [None, 2], [[0.5], [0]]),
        (Number(0, 10, "middle", typical=2), [None, 2], [[0.375], [0]]),
        (Date("2020-01-01", "2020-01-05", typical="2020-01-02"), ["2020-01-02", "2020-01-05"], [[0], [1]]),
        (Ordinal(("a", "b", "c"), typical="a"), ["a", "b", "c"], [[0], [0.5], [1]]),
        (Ordinal(("a", "b", "c"), "middle", typical="a"), ["", "c"], [[0.5], [1]]),
        (Boolean(typical=True), ["yes", "no"], [[0], [-1]]),
        (Boolean("middle", typical=False), ["yes", "no", ""], [[1], [0], [0.5]]),
        (Category(("a", "b"), other=True, typical="a"), ["a", "b", "z"], [[0, 0, 0], [0, 1, 0], [0, 0, 1]]),
        (Category(("a", "b"), missing="a", typical="a"), ["b", ""], [[0, 1], [0, 0]]),
    ],
)
def test_a_typical_value_is_zero(column: Any, cells: Any, want: Any) -> None:
    """In public, so for nothing; rows keep within the norm."""
    assert encode_features(schema(x=column), {"x": cells}).tolist() == want


def test_values_that_were_discovered_have_columns_whether_used_or_not() -> None:
    found = schema(x=Category(("a", "b"), missing="indicator", discover=3))
    assert found.feature_names == ("x=a", "x=b", "x=(unused 1)", "x=(other)", "x=(missing)")
    assert encode_features(found, {"x": ["b", "z", None]}).tolist() == [
        [0, 1, 0, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1],
    ]
    unknown = schema(x=Category(None, discover=3, missing="indicator"))
    assert unknown.unknown == ("x",)
    assert unknown.with_values({"x": ("a", "b")}) == found
    with pytest.raises(ValueError, match="'x' are still to be discovered"):
        encode_features(unknown, {"x": ["a"]})


def test_an_empty_cell_may_be_a_listed_category() -> None:
    X = encode_features(schema(x=Category(("", "p"), other=True)), {"x": ["", None, "p", "z"]})
    assert X.tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    "cells",
    [
        pa.array(["1", "2 ", " 3e0"]),
        pa.array(["1", "2", "3"], pa.large_string()),
        pa.array(["1", "2", "3"]).dictionary_encode(),
        pa.array([1, 2, 3], pa.int8()),
        pa.array([1, 2, 3], pa.float32()),
        pa.array([decimal.Decimal(k) for k in (1, 2, 3)]),
        pa.chunked_array([["1"], ["2", "3"]]),
        pa.chunked_array([[], ["1", "2", "3"]], pa.string()),
    ],
    ids=str,
)
def test_the_type_in_the_file_does_not_matter(cells: Any) -> None:
    table = pa.table({"x": cells})
    assert encode_features(schema(x=Number(1, 3)), table).ravel().tolist() == [-1, 0, 1]
    if not pa.types.is_string(cells.type):  # "3e0" is a number and no category
        assert encode_features(schema(x=Category(("1", "2"), other=True)), table).tolist() == np.eye(3).tolist()


def test_data_frames_are_tables() -> None:
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0], "k": [1, None, 2]})
    X = encode_features(schema(x=Number(1, 3, "middle"), k=Category(("1", "2"), other=True)), frame)
    assert X.tolist() == [[-1, 1, 0, 0], [0, 0, 0, 1], [1, 0, 1, 0]]


EAN = (4006381333931, 5901234123457)
DAY = datetime(2024, 5, 1)


@pytest.mark.parametrize(
    ("column", "others", "one", "another"),
    [
        # whole numbers become floats beside a missing one
        (Category(tuple(map(str, EAN)), other=True), list(EAN), EAN[0], None),
        (Category(("0", "1"), other=True), [0, 1], 0, 0.5),
        # the longest fraction decides how all decimals of a column are written, and how they are rounded
        (Category(("1", "0"), other=True), [decimal.Decimal(k) for k in (1, 0)], decimal.Decimal(1), "0.12345678901"),
        (Number(0, 10), [decimal.Decimal(k) for k in ("0.7", "1.1", "4.35")], decimal.Decimal(1), "1.00000000001"),
        # and the first moment whether all have a time zone
        (Category((str(DAY),), other=True), [DAY, DAY], DAY, DAY.replace(tzinfo=UTC)),
    ],
    ids=["missing", "fraction", "texts of decimals", "decimals", "time zone"],
)
def test_the_type_of_a_column_follows_from_all_records_and_changes_no_row(
    column: Any, others: list[Any], one: Any, another: Any
) -> None:
    if isinstance(another, str):
        another = decimal.Decimal(another)
    rows = []
    for cell in (one, another):
        cells = [cell, *others]
        tables = [pa.table({"x": cells}), pa.table(pd.DataFrame({"x": cells}))]
        if isinstance(column, Category):
            tables += [pa.table({"x": table["x"].dictionary_encode()}) for table in tables]
        given = (*tables, {"x": cells}, pd.DataFrame({"x": cells}))
        rows += [encode_features(schema(x=column), table)[1:].tolist() for table in given]
        if isinstance(column, Category):
            # what is discovered has the names that the encoder knows
            assert all(set(map(str, others)) <= set(count_values(t.to_batches(), ["x"])["x"]) for t in tables)
            assert not np.array(rows)[..., -1].any()
    assert rows == [rows[0]] * len(rows)


def test_moments_are_written_alike_in_every_unit() -> None:
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC"):
            cells = pa.array([DAY], pa.timestamp(unit, zone))
            assert texts_of("x", cells).to_pylist() == [str(DAY)]


ANY = Category(("1", "0.1", "1.5", "true", str(DAY)), other=True, missing="indicator")


@pytest.mark.parametrize(
    ("cell", "another"),
    [
        # by a date first, all moments are cut to their dates
        (DAY, date(2024, 1, 1)),
        # whole numbers are microseconds since 1970, days or nanoseconds; fractions are cut off before
        (1, DAY),
        (1, pd.Timestamp(DAY)),
        (1.5, date(2024, 1, 1)),
        (decimal.Decimal("0.1"), timedelta(1)),
        (timedelta(1), pd.Timedelta(1)),
        # truth is 1 beside fractions
        (True, 0.5),
        (True, 2),
        # a short float is written with its own digits, or with those of a double
        (np.float32(0.1), 0.2),
        (np.float16(0.1), 1),
        ("1", b"1"),
        (1, UUID(int=1)),
    ],
    ids=str,
)
def test_no_cell_decides_what_those_of_all_others_are(cell: Any, another: Any) -> None:
    for cells in ([cell, another, None], [another, cell, math.nan]):
        objects = pd.Series(cells, dtype=object)
        listed = pd.Categorical(objects[:2], categories=pd.Index(cells[:2], dtype=object))
        for given_as in ({"x": cells}, {"x": objects.to_numpy()}, {"x": listed}, *map(pd.DataFrame, ({"x": objects},))):
            for column in (ANY, Date("2024-01-01", "2025-01-01", "indicator"), Number(0, 1, "indicator")):
                with pytest.raises(ValueError, match="column 'x' holds cells of more than one kind"):
                    encode_features(schema(x=column), given_as)


@pytest.mark.parametrize("missing", [None, math.nan, pd.NA, pd.NaT], ids=str)
@pytest.mark.parametrize("cell", [True, 1, "1", decimal.Decimal("1.5"), DAY], ids=str)
def test_a_missing_cell_is_of_no_kind(cell: Any, missing: Any) -> None:
    (listed,) = encode_features(schema(x=ANY), {"x": [cell]}).tolist()
    assert listed[-2:] == [0, 0]
    nothing = [0.0] * (len(listed) - 1) + [1.0]
    for cells, rows in (([missing, cell], [nothing, listed]), ([cell, missing], [listed, nothing])):
        for given_as in ({"x": cells}, {"x": np.array(cells, dtype=object)}, pd.DataFrame({"x": cells}, dtype=object)):
            assert encode_features(schema(x=ANY), given_as).tolist() == rows


def test_whole_numbers_that_a_float_does_not_hold_are_no_categories() -> None:
    codes = [2**53 + 1, 2**53 + 2]
    wide = schema(x=Category(tuple(map(str, codes)), other=True))
    assert encode_features(wide, pd.DataFrame({"x": codes}))[:, -1].tolist() == [0, 0]
    with pytest.raises(ValueError, match="column 'x' has whole numbers beyond"):
        encode_features(wide, pd.DataFrame({"x": [*codes, None]}))


def test_wide_schemas_give_the_same_rows_sparse() -> None:
    values = tuple(f"v{k}" for k in range(WIDEST_DENSE))
    wide = schema(x=Number(0, 2), c=Category(values), b=Boolean())
    table = {"x": [2, 1, 0], "c": ["v0", "v199", "v7"], "b": ["no", "yes", "no"]}
    X = encode_features(wide, table)
    assert sparse.issparse(X)
    assert X.shape == (3, wide.width)
    narrow = encode_features(schema(x=Number(0, 2), b=Boolean()), table)
    assert X[:, [0, -1]].toarray().tolist() == narrow.tolist()
    assert X[:, 1:-1].toarray().tolist() == np.eye(WIDEST_DENSE)[[0, 199, 7]].tolist()
    assert X.has_canonical_format


HOSTILE = schema(
    x=Number(-3, 0.1, "indicator"),
    z=Number(1e-300, 1.1e-300, "middle"),
    c=Category(("p", "q"), other=True, missing="indicator"),
    b=Boolean("indicator"),
)
rows = st.tuples(
    st.floats(allow_infinity=False),
    st.floats(allow_infinity=False),
    st.text(max_size=3) | st.none(),
    st.booleans() | st.none(),
)


@settings(deadline=None)
@given(st.lists(rows, min_size=1, max_size=5), st.integers(0, 5))
def test_every_row_keeps_within_the_norm_and_depends_on_its_record_alone(records: list[Any], cut: int) -> None:
    def encode(part: list[Any]) -> np.ndarray:
        types = (pa.float64(), pa.float64(), pa.string(), pa.bool_())
        arrays = [pa.array(cells, kind) for cells, kind in zip(zip(*part, strict=True), types, strict=True)]
        return encode_features(HOSTILE, pa.table(arrays, names=list(HOSTILE.columns)))

    X = encode(records)
    assert (np.linalg.norm(X, axis=1) <= HOSTILE.row_norm * (1 + 1e-15)).all()
    parts = [part for part in (records[:cut], records[cut:]) if part]
    assert np.concatenate([encode(part) for part in parts]).tolist() == X.tolist()


def test_labels_are_of_the_kind_that_the_schema_lists() -> None:
    for classes, cells, want in [
        ((1, 10, 2), ["10", "2 ", "1"], [10, 2, 1]),
        ((1, 10, 2), [10, 2, 1], [10, 2, 1]),
        ((1, 2), [1.0, 2.0], [1, 2]),
        ((False, True), ["yes", "FALSE"], [True, False]),
        ((False, True), [True, False], [True, False]),
    ]:
        found = encode_target(Schema(ClassTarget("label", classes), {"x": Boolean()}), {"label": cells})
        assert found.tolist() == want
        assert {type(label) for label in found.tolist()} == {type(classes[0])}


def test_labels_and_targets() -> None:
    assert encode_target(schema(x=Boolean()), {"label": ["yes", " no"]}).tolist() == ["yes", "no"]
    amount = Schema(NumberTarget("price", 0, 10), {"x": Boolean()})
    assert encode_target(amount, {"price": ["5", "10", "-3", "1e9"]}).tolist() == [0, 1, -1, 1]


SECRET = "4711"


@pytest.mark.parametrize(
    ("column", "cells", "sentence"),
    [
        (Number(0, 1), ["0", SECRET + "x", SECRET + "y"], "text that is not a number in at least one record"),
        (Number(0, 1), ["0", "", "nan"], "no number in at least one record.*middle"),
        (Number(0, 1), [0.0, float("nan"), None], "no number in at least one record"),
        (Number(0, 1), ["0", "inf", "1"], "an infinite number in at least one record"),
        (Number(0, 1), [0.0, float("inf"), -float("inf")], "an infinite number in at least one record"),
        (Number(0, 1), [0, 1, None], "no number in at least one record"),
        (Number(0, 1), [None, None], "no number in at least one record"),
        (Number(0, 1), np.array(["2020-01-01"], dtype="datetime64[s]"), "timestamp.*numbers are needed"),
        (Number(0, 1), [[1], [2]], "nested.*numbers are needed"),
        (Number(0, 1), ["1", SECRET, 3], "more than one kind, such as texts and numbers"),
        (
            Category(("p", "q")),
            ["p", SECRET, SECRET],
            "a missing or unlisted value in at least one record.*other = true",
        ),
        (Category(("p", "q")), ["p", "", None], "a missing or unlisted value in at least one record"),
        (Category(("p", "q"), missing="p"), ["p", "", SECRET], "a missing or unlisted value in at least one record"),
        (Category(("p", "q")), [[SECRET]], "no form as text"),
        (Category(("p", "q")), [b"\xff\xfe"], "no form as text"),
        (SINCE, ["2020-01-01", SECRET + "x"], "text that is not a date in at least one record: .*`format`"),
        (SINCE, ["2020-01-01", None], "no date in at least one record.*indicator"),
        (SINCE, [1, 2], "int64 values: the schema asks for dates"),
        (replace(SINCE, format="%d.%m.%Y"), ["01.01.2020", "2020-01-01"], "text that is not a date"),
        (Ordinal(("a", "b")), ["a", SECRET], "a missing or unlisted value in at least one record"),
        (Ordinal(("a", "b"), "middle"), ["a", SECRET], "a missing or unlisted value in at least one record"),
        (Category(("a", "b"), missing="indicator"), ["a", SECRET], "a missing or unlisted value"),
        (Boolean(), ["yes", "maybe", SECRET], "neither true nor false in at least one record"),
        (Boolean(), ["yes", ""], "neither true nor false in at least one record.*middle"),
    ],
)
def test_what_does_not_fit_is_told_by_its_column(column: Any, cells: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        encode_features(schema(x=column), {"x": cells})
    assert SECRET not in str(caught.value)
    # a traceback prints the cause or, unless it is suppressed, the error that was being handled
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_records_without_a_usable_target_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'label' has no label among.* in at least one record") as caught:
        encode_target(schema(x=Boolean()), {"label": ["yes", SECRET, None]})
    assert SECRET not in str(caught.value)
    amount = Schema(NumberTarget("price", 0, 10), {"x": Boolean()})
    with pytest.raises(ValueError, match="'price' has no number in at least one record: a record without a target"):
        encode_target(amount, {"price": [1.0, float("nan")]})


def test_absent_columns_are_named_with_the_place_of_what_comes_close() -> None:
    with pytest.raises(ValueError, match=r"lacks 2 .*: 'education' \(column \d has a similar name\), 'zip'\."):
        encode_features(schema(education=Boolean(), zip=Boolean(), x=Boolean()), {"Education": [1], "x": [2]})
