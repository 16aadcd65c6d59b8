"""A schema says everything in public: its bounds, its TOML form, and a sentence for every mistake in it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sordino.tabular import Boolean, Category, ClassTarget, Date, Number, NumberTarget, Ordinal, Schema
from sordino.tabular.columns import Column, Target

ADULT = """
ignore = ["id"]

[target]
column = "income"
classes = ["<=50K", ">50K"]

[columns]
age = { low = 17, high = 90 }
education = { values = ["School", "University"], other = true }
"hours per week" = { low = 0, high = 99.5, missing = "middle" }
sex = { values = ["F", "M"], missing = "F" }
member = { boolean = true }
"""

TARGET = '[target]\ncolumn = "y"\nclasses = ["a", "b"]\n'
COLUMNS = "[columns]\nx = { low = 0, high = 1 }\n"


def test_reads_every_kind_of_column() -> None:
    assert Schema.from_toml(ADULT) == Schema(
        ClassTarget("income", ("<=50K", ">50K")),
        {
            "age": Number(17, 90),
            "education": Category(("School", "University"), other=True),
            "hours per week": Number(0, 99.5, missing="middle"),
            "sex": Category(("F", "M"), missing="F"),
            "member": Boolean(),
        },
        ("id",),
    )


def test_bounds_and_names_follow_from_the_schema_alone() -> None:
    schema = Schema.from_toml(ADULT)
    assert schema.task == "classification"
    assert schema.row_norm == math.sqrt(5)
    assert schema.feature_names == (
        "age",
        "education=School",
        "education=University",
        "education=(other)",
        "hours per week",
        "sex=F",
        "sex=M",
        "member",
    )
    assert schema.width == len(schema.feature_names) == 8


def test_values_are_texts_classes_stay_what_they_are_and_spaces_do_not_count() -> None:
    schema = Schema.from_toml('[target]\ncolumn = "y"\nclasses = [0, 1]\n[columns]\nx = { values = [" a ", 2] }')
    assert schema.target == ClassTarget("y", (0, 1))
    assert ClassTarget("y", np.array([0, 1])) == schema.target
    assert ClassTarget("y", (" a", "b")) == ClassTarget("y", ("a", "b"))
    assert schema.columns["x"] == Category(("a", "2"))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
finite = st.floats(allow_nan=False, allow_infinity=False)
ranges = st.tuples(finite, finite).filter(lambda pair: pair[0] < pair[1])
listed = texts.filter(lambda text: text.strip() not in ("middle", "indicator"))
values = st.lists(listed, min_size=2, max_size=4, unique_by=str.strip).map(tuple)
marks = st.sampled_from([None, "middle", "indicator"])
days = st.tuples(st.dates(), st.dates()).filter(lambda pair: pair[0] < pair[1])
columns = (
    st.builds(lambda r, m: Number(*r, m), ranges, marks)
    | ranges.map(lambda r: Number(*r, r[0]))
    | st.builds(lambda d, m, f: Date(*d, m, f), days, marks, st.none() | texts)
    | days.map(lambda d: Date(*d, d[1]))
    | st.builds(Ordinal, values, marks)
    | values.map(lambda v: Ordinal(v, v[0]))
    | values.map(lambda v: Category(v, missing="indicator"))
    | st.builds(Category, values, st.booleans())
    | values.map(lambda v: Category(v, missing=v[0]))
    | st.builds(Boolean, marks | st.booleans())
    | ranges.filter(lambda r: r[1] - r[0] < 1e300).map(lambda r: Number(*r, typical=r[0]))
    | days.map(lambda d: Date(*d, typical=d[0]))
    | values.map(lambda v: Ordinal(v, typical=v[1]))
    | values.map(lambda v: Category(v, typical=v[1]))
    | st.builds(Boolean, marks, st.booleans())
    | st.builds(
        lambda most, m: Category(None, True, m, discover=most), st.integers(1, 9), st.sampled_from([None, "indicator"])
    )
    | values.map(lambda v: Category(v, discover=7))
    | st.just(Category((), discover=2))
)
labels = values | st.lists(st.integers(), min_size=2, unique=True).map(tuple) | st.just((False, True))
targets = st.builds(ClassTarget, texts, labels) | st.builds(lambda c, r: NumberTarget(c, *r), texts, ranges)


@given(targets, st.dictionaries(texts, columns, min_size=1, max_size=4), st.lists(texts, max_size=2), texts)
def test_toml_gives_the_same_schema_back(
    target: Target, named: dict[str, Column], ignored: list[str], source: str
) -> None:
    named = {name: column for name, column in named.items() if name != target.column} or {
        "x" + target.column: Boolean()
    }
    used = {target.column, *named}
    sources = dict.fromkeys(sorted(used)[:2], source)
    schema = Schema(target, named, tuple(name for name in ignored if name not in used), sources)
    again = Schema.from_toml(schema.to_toml())
    assert again == schema
    assert list(again.columns) == list(schema.columns)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[target", "is not TOML"),
        (COLUMNS, "no \\[target\\] table"),
        (TARGET, "no \\[columns\\] table"),
        (TARGET + "[columns]", "lists no columns"),
        (TARGET + "[columns]\nx = { low = 0, high = 1, typical = 0 }\n[curves]", "and the schema has curves"),
        (TARGET + COLUMNS + "c = { discover = 3 }\n[curves]", "and the schema has curves"),
        (TARGET + "[columns]\nx = { discover = 0 }", "discover is 0: it must be how many values"),
        (TARGET + "[columns]\nx = { discover = true }", "discover is True: it must be how many values"),
        (TARGET + '[columns]\nx = { discover = "all" }', "discover is 'all': it must be how many values"),
        (TARGET + '[columns]\nx = { discover = 1, values = ["a", "b"] }', "at most 1 were looked for"),
        (TARGET + '[columns]\nx = { discover = 3, missing = "a" }', "missing is 'a': it must be one of the listed"),
        (TARGET + '[columns]\nx = { discover = 3, typical = "a" }', "typical is 'a': it must be one of the listed"),
        (TARGET + "[columns]\nx = { discover = 3, ordered = true, values = [1, 2] }", "unknown entry `discover`"),
        (TARGET + "[columns]\nx = { low = 0, high = 1, typical = 2 }", "typical is 2: it must be a number between"),
        (TARGET + '[columns]\nx = { low = 0, high = 1, typical = "a" }', "typical is 'a': it must be a number"),
        (TARGET + "[columns]\nx = { low = -1.7e308, high = 1.7e308, typical = 1.7e308 }", "typical is"),
        (TARGET + "[columns]\nx = { low = 2020-01-01, high = 2021-01-01, typical = 3 }", "typical is 3: write a date"),
        (TARGET + "[columns]\nx = { boolean = true, typical = 1 }", "typical is 1: it can be true or false"),
        ("label = 1\n" + TARGET + COLUMNS, "unknown entry `label`"),
        ('ignore = "id"\n' + TARGET + COLUMNS, "not a list of column names"),
        ('ignore = ["x"]\n' + TARGET + COLUMNS, "'x' is ignored and used at once"),
        (TARGET + COLUMNS + "y = { boolean = true }", "'y' is the target and a column at once"),
        ('[target]\nclasses = ["a", "b"]\n' + COLUMNS, "does not name the `column`"),
        ('[target]\ncolumn = "y"\n' + COLUMNS, "either `classes`"),
        ('[target]\ncolumn = "y"\nclasses = ["a", "b"]\nlow = 1\n' + COLUMNS, "either `classes`"),
        ('[target]\ncolumn = "y"\nclasses = ["a"]\n' + COLUMNS, "1 class: list at least two"),
        ('[target]\ncolumn = "y"\nclasses = ["a", "b", "a"]\n' + COLUMNS, "'a' more than once"),
        ('[target]\ncolumn = "y"\nlow = 3\nhigh = 3\n' + COLUMNS, "low < high"),
        ('[target]\ncolumn = "y"\nlow = 3\n' + COLUMNS, "`high` is None: a number is needed"),
        (TARGET + "[columns]\nx = 3", "column 'x' is 3"),
        (TARGET + "[columns]\nx = {}", "column 'x' must be one of"),
        (TARGET + "[columns]\nx = { low = 0, high = 1, boolean = true }", "column 'x' must be one of"),
        (TARGET + "[columns]\nx = { low = 0, hihg = 1 }", "did you mean `high`"),
        (TARGET + "[columns]\nx = { low = 0, high = inf }", "finite numbers with low < high"),
        (TARGET + "[columns]\nx = { low = nan, high = 1 }", "finite numbers with low < high"),
        (TARGET + '[columns]\nx = { low = "0", high = 1 }', "`low` is '0': a number is needed"),
        (TARGET + '[columns]\nx = { low = "2024-01-01", high = "2025-01-01" }', "; a date stands without quotes"),
        (TARGET + '[columns]\nx = { low = 0, high = 1, missing = "mean" }', "it can be 'middle'"),
        (
            TARGET + "[columns]\nx = { low = 0, high = 1, missing = 3 }",
            "missing is 3: .* a number between low",
        ),
        (TARGET + "[columns]\nx = { low = 0, high = 1, missing = true }", "missing is True: it can be"),
        (TARGET + "[columns]\nx = { low = 0, high = 1, ordered = true }", "must be one of"),
        (TARGET + "[columns]\nx = { low = 0, high = 2024-12-31 }", "low is 0: write a date"),
        (TARGET + "[columns]\nx = { low = 2024-12-31T10:00:00, high = 2025-12-31 }", "low is .*: write a date"),
        (TARGET + "[columns]\nx = { low = 2024-12-31, high = 2024-12-31 }", "must be before the second"),
        (TARGET + "[columns]\nx = { low = 2024-01-01, high = 2024-12-31, missing = 2025-01-01 }", "missing is"),
        (TARGET + "[columns]\nx = { low = 2024-01-01, high = 2024-12-31, format = 3 }", "format is 3: write it as"),
        (TARGET + '[columns]\nx = { low = 0, high = 1, format = "%d" }', "unknown entry `format`"),
        (TARGET + '[columns]\nx = { values = ["a", "b"], ordered = true, other = true }', "unknown entry `other`"),
        (TARGET + '[columns]\nx = { values = ["a", "b"], ordered = true, missing = "c" }', "'middle' or 'indicator'"),
        (TARGET + '[columns]\nx = { values = ["a", "indicator"], missing = "indicator" }', "must not be listed"),
        (TARGET + '[columns]\nx = { boolean = true, missing = "no" }', "true or false"),
        (TARGET + "[columns]\nx = { text = true }", "free text, which has no bounded form here: name it in `ignore`"),
        ('[target]\ncolumn = "y"\nclasses = ["a", 1]\n' + COLUMNS, "all texts, all whole numbers"),
        ('[target]\ncolumn = "y"\nclasses = [1.5, 2.5]\n' + COLUMNS, "`classes` must be a list"),
        (TARGET + '[columns]\nx = { values = ["a"] }', "at least two values"),
        (TARGET + "[columns]\nx = { other = true }", "`values` must be a list"),
        (TARGET + "[columns]\nx = { values = [1.5, 2.5] }", "`values` must be a list"),
        (TARGET + '[columns]\nx = { values = ["a", " a"] }', "'a' more than once"),
        (TARGET + '[columns]\nx = { values = ["a", "b"], missing = "c" }', "one of the listed values"),
        (TARGET + '[columns]\nx = { values = ["a", "b"], other = "yes" }', "write true or false"),
        (TARGET + "[columns]\nx = { boolean = false }", "boolean is false"),
        (TARGET + COLUMNS + "[sources]\nx = 1", "not a table of texts"),
        (TARGET + COLUMNS + '[sources]\nz = "a law"', "'z' has a source and is no column"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Schema.from_toml(text)


def test_a_file_is_named_in_its_sentence(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(TARGET)
    with pytest.raises(ValueError, match=r"s\.toml: the schema has no \[columns\]"):
        Schema.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="not UTF-8"):
        Schema.load(path)
    with pytest.raises(FileNotFoundError):
        Schema.load(tmp_path / "absent.toml")


def test_a_list_of_very_many_values() -> None:
    """Comparing each with all the others would take minutes."""
    many = [f"v{number}" for number in range(200_000)]
    assert len(Category(tuple(many)).values) == 200_000
    with pytest.raises(ValueError, match="'v7' more than once"):
        Category((*many, "v7"))
