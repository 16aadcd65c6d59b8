"""Curves keep to the norm that the schema states, look at one record alone, and follow any straight pieces."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

from sordino.files import EncodedTable
from sordino.tabular import Boolean, Category, ClassTarget, Curves, Date, Number, Ordinal, Schema
from sordino.tabular.curves import INTERACTION
from sordino.tabular.effects import effects
from sordino.tabular.encode import WIDEST_CURVES, encode_features

COLUMNS = {
    "x": Number(-3, 0.1, "indicator"),
    "z": Number(1e-300, 1.1e-300, "middle"),
    "c": Category(("p", "q"), other=True, missing="indicator"),
    "d": Date("2020-01-01", "2020-12-31"),
    "o": Ordinal(("low", "some", "much", "most")),
    "b": Boolean("indicator"),
}
PAIRS = (("x", "z"), ("c", "x"), ("c", "b"), ("o", "d"))
TARGET = ClassTarget("label", ("no", "yes"))


def schema(pieces: int = 8, interactions: Any = PAIRS, columns: Any = COLUMNS) -> Schema:
    return Schema(TARGET, columns, curves=Curves(pieces, interactions))


def encoded(records: list[Any], described: Schema) -> np.ndarray:
    types = (pa.float64(), pa.float64(), pa.string(), pa.date32(), pa.string(), pa.bool_())
    arrays = [pa.array(cells, kind) for cells, kind in zip(zip(*records, strict=True), types, strict=True)]
    return encode_features(described, pa.table(arrays, names=list(COLUMNS)))


records = st.lists(
    st.tuples(
        st.floats(allow_infinity=False) | st.floats(-3, 0.1) | st.sampled_from([-3, -1.45, 0.1]),
        st.floats(allow_infinity=False) | st.floats(1e-300, 1.1e-300),
        st.sampled_from(["p", "q", "elsewhere", None]),
        st.dates(),
        st.sampled_from(COLUMNS["o"].values),
        st.booleans() | st.none(),
    ),
    min_size=1,
    max_size=5,
)


def test_a_row_by_hand() -> None:
    """u = 1/4 with four pieces: the line, one hat over all, two hats of half its width and 1/sqrt 2 of its height."""
    X = encode_features(schema(4, (), {"x": Number(0, 8)}), {"x": [5.0, 0.0, 4.0, 99.0]})
    np.testing.assert_allclose(
        X, [[0.25, 0.75, 0, 0.5 / math.sqrt(2)], [-1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]], atol=1e-16
    )


@settings(deadline=None, max_examples=40)
@given(records, st.integers(0, 5), st.sampled_from([2, 8, 64]))
def test_every_row_keeps_within_the_norm_and_depends_on_its_record_alone(given: list, cut: int, pieces: int) -> None:
    X = encoded(given, schema(pieces))
    assert X.shape == (len(given), schema(pieces).width)
    assert (np.linalg.norm(X, axis=1) <= schema(pieces).row_norm * (1 + 1e-15)).all()
    assert ((X != 0).sum(axis=1) <= schema(pieces).entries).all()
    parts = [part for part in (given[:cut], given[cut:]) if part]
    assert np.concatenate([encoded(part, schema(pieces)) for part in parts]).tolist() == X.tolist()


@pytest.mark.parametrize("pieces", [2, 16, 128])
def test_the_norm_is_reached_at_every_knot(pieces: int) -> None:
    """A bound that is not tight would cost accuracy for nothing."""
    described = schema(pieces, (), {"x": Number(-1, 1)})
    norms = np.linalg.norm(encode_features(described, {"x": np.linspace(-1, 1, pieces + 1)}), axis=1)
    np.testing.assert_allclose(norms, described.row_norm, rtol=1e-14)


def test_the_norm_of_interactions_is_reached() -> None:
    X = encode_features(
        schema(8, (("x", "c"),), {"x": Number(-1, 1), "c": Category(("p", "q"))}), {"x": [1.0], "c": ["q"]}
    )
    assert (
        np.linalg.norm(X) == math.sqrt(2 + INTERACTION**2) == schema(8, (("x", "c"),)).curves.row_norm({"x": 0, "c": 0})
    )


@pytest.mark.parametrize("pieces", [2, 8, 32])
def test_any_function_of_straight_pieces_is_a_sum_of_the_columns(pieces: int) -> None:
    described = schema(pieces, (), {"x": Number(10, 20)})
    rng = np.random.default_rng(pieces)
    knots, values = np.linspace(10, 20, pieces + 1), rng.normal(size=pieces + 1)
    at = rng.uniform(10, 20, 200)
    with_constant = [
        np.column_stack([encode_features(described, {"x": points}), np.ones(len(points))]) for points in (knots, at)
    ]
    weights = np.linalg.solve(with_constant[0], values)
    np.testing.assert_allclose(with_constant[1] @ weights, np.interp(at, knots, values), atol=1e-12)


def test_an_ordered_category_has_no_more_pieces_than_steps() -> None:
    for count, width in ((2, 1), (3, 2), (4, 4), (5, 4), (6, 8)):
        values = tuple(f"v{k}" for k in range(count))
        described = schema(8, (), {"o": Ordinal(values)})
        assert described.width == width
        # every value can have an effect of its own
        rows = encode_features(described, {"o": list(values)})
        assert np.linalg.matrix_rank(np.column_stack([rows, np.ones(count)])) == count


def test_interactions_are_coarse_where_both_are_fine() -> None:
    described = schema(8, (("x", "y"),), {"x": Number(0, 1), "y": Number(0, 1)})
    products = [name for name in described.feature_names if " x " in name]
    assert "x~1/2 x y~1/4" in products
    assert "x~1/8 x y" in products
    assert "x~1/8 x y~1/2" not in products
    assert len(described.feature_names) == len(set(described.feature_names)) == described.width


def test_wide_ones_give_the_same_rows_sparse() -> None:
    numbers = {f"n{k}": Number(0, 1) for k in range(WIDEST_CURVES // 16 + 1)}
    cells = {name: np.random.default_rng(k).random(50) for k, name in enumerate(numbers)}
    described = schema(16, (), numbers)
    X = encode_features(described, cells)
    assert sparse.issparse(X)
    assert X.nnz <= 50 * described.entries
    narrow = schema(16, (), {"n7": Number(0, 1)})
    assert X[:, 7 * 16 : 8 * 16].toarray().tolist() == encode_features(narrow, cells).tolist()
    assert encode_features(described, {name: [] for name in numbers}).shape == (0, described.width)


def test_files_are_encoded_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({"x": rng.uniform(-4, 1, 300), "c": rng.choice(["p", "q"], 300), "label": ["yes", "no"] * 150})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    described = schema(8, (("x", "c"),), {"x": Number(-3, 0), "c": Category(("p", "q"))})
    source = EncodedTable(tmp_path / "t.parquet", described)
    want = encode_features(described, table)
    assert source.held()[0].tolist() == want.tolist()
    assert source.shape == want.shape
    with source.reader() as reader:
        assert reader.rows(20, 60, None)[0].tolist() == want[20:60].tolist()


@settings(deadline=None, max_examples=40)
@given(records, st.sampled_from([2, 8]))
def test_effects_and_their_straight_lines_add_up_to_the_score(given: list, pieces: int) -> None:
    described = schema(pieces, PAIRS[1:3])
    coef = np.random.default_rng(5).normal(size=(2, described.width))
    found = {effect.name: effect for effect in effects(described, coef)}
    assert list(found) == [*COLUMNS, "c x x", "c x b"]
    for record, score in zip(given, encoded(given, described) @ coef.T, strict=True):
        cells = dict(zip(COLUMNS, record, strict=True))
        total = sum(_read(found[name], cells) for name in found)
        np.testing.assert_allclose(total, score, atol=1e-9)


def _read(effect: Any, cells: dict[str, Any]) -> np.ndarray:
    """At the points of a category, and between two of a number or a date."""
    scores = effect.scores
    # the last column first: each takes away the last axis
    for name, points in reversed(list(zip(effect.columns, effect.points, strict=True))):
        scores = np.apply_along_axis(_at, -1, scores, points, COLUMNS[name], cells[name])
    return scores


def _at(scores: np.ndarray, points: Any, column: Any, cell: Any) -> float:
    if isinstance(column, Number | Date) and cell is not None and cell == cell:
        days = isinstance(column, Date)
        at = cell.toordinal() if days else cell
        ends = (column.low.toordinal(), column.high.toordinal()) if days else (column.low, column.high)
        count = len(scores) - (points[-1] == "(missing)")
        return np.interp((at - ends[0]) / (ends[1] - ends[0]), np.linspace(0, 1, count), scores[:count])
    if isinstance(column, Number) and column.missing == "middle":
        return scores[len(scores) // 2]
    known = "(missing)" if cell is None or cell != cell else cell
    return scores[points.index(known if known in points else "(other)")]


def test_effects_are_those_of_curves() -> None:
    with pytest.raises(ValueError, match="has no curves"):
        effects(Schema(TARGET, COLUMNS), np.zeros(9))


def test_toml_gives_them_back() -> None:
    for described in (schema(), schema(2, ())):
        assert Schema.from_toml(described.to_toml()) == described
        assert described.digest != schema(4).digest


PLAIN = """
[target]
column = "y"
classes = ["a", "b"]
[columns]
x = { low = 0, high = 1 }
z = { boolean = true }
[curves]
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("pieces = 12", r"\[curves\]: pieces is 12: it must be a power of two from 2 to 256"),
        ("pieces = 1", "power of two"),
        ("pieces = 512", "power of two"),
        ("pieces = true", "power of two"),
        ('pieces = "8"', "power of two"),
        ("peices = 8", "did you mean `pieces`"),
        ('interactions = "x"', "a list of pairs of columns"),
        ('interactions = [["x"]]', "a list of pairs of columns"),
        ('interactions = [["x", 3]]', "a list of pairs of columns"),
        ('interactions = [["x", "x"]]', "pairs 'x' with itself"),
        ('interactions = [["x", "z"], ["z", "x"]]', "a pair more than once"),
        ('interactions = [["x", "y"]]', "interactions names 'y', which is no column"),
    ],
)
def test_a_mistake_gets_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Schema.from_toml(PLAIN + text)
    with pytest.raises(ValueError, match=r"no \[curves\] table"):
        Schema.from_toml("curves = 3\n" + PLAIN.removesuffix("[curves]\n"))
