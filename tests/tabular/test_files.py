"""Files are read by name and kind; what is wrong with one is said without repeating its cells."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from sordino.oracle.files.encoded import EncodedTable
from sordino.tabular import Category, ClassTarget, Number, NumberTarget, Schema
from sordino.tabular.files import TableFiles
from sordino.tabular.read import open_table, read_records, read_small

SECRET = "4711"
CSV = f'id,"a", b\n1,"x, y",{SECRET}\n2,"two\nlines", 7 \n'


def content(files: TableFiles, columns: list[str]) -> dict[str, list[Any]]:
    return pa.Table.from_batches(list(files.read(columns))).to_pydict()


def test_only_the_columns_asked_for_are_read_and_csv_cells_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(CSV)
    file = TableFiles.open(path)
    assert file.names == ("id", "a", "b")
    assert content(file, ["b", "a"]) == {"b": [SECRET, " 7 "], "a": ["x, y", "two\nlines"]}


def test_other_forms_of_the_same_table(tmp_path: Path) -> None:
    expected = {"a": ["1", "2"], "b": ["u", ""]}
    (tmp_path / "t.tsv").write_text("a\tb\n1\tu\n2\t\n")
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1,u\r\n2,\r\n")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,u\n2,\n"))
    (tmp_path / "semicolons.csv").write_text('"a";"b"\n1;u\n2;\n')
    (tmp_path / "bars.csv").write_text("a|b\n1|u\n2|\n")
    (tmp_path / "wide.csv").write_text("a,b\n1,u\n2,\n", encoding="utf-16")
    (tmp_path / "big-endian.csv").write_bytes(b"\xfe\xff" + "a;b\n1;u\n2;\n".encode("utf-16-be"))
    pq.write_table(pa.table(expected), tmp_path / "t.PARQUET")
    pa.feather.write_feather(pa.table(expected), tmp_path / "t.arrow")
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "1.csv").write_text("b,a\nu,1\n")
    (parts / "2.csv").write_text("a;b\n2;\n")
    for name in [path.name for path in tmp_path.iterdir()]:
        assert content(TableFiles.open(tmp_path / name), ["a", "b"]) == expected


def test_numbers_with_a_decimal_comma(tmp_path: Path) -> None:
    """Only where `;` separates the cells: elsewhere a comma may separate thousands."""
    schema = Schema(NumberTarget("y", 0, 4), {"x": Number(0, 4), "z": Number(0, 4, "middle")})
    want = [[-0.25, 0], [0.5, 0.25], [-1, 1]]
    for rows in ("1,5;NA;1\n3;2,5;2\n0;4;3\n", "1.5;;1\n3,0 ;2.5;2\n0;4,0;3\n", "1,5; ;1\n3;2.5;2,0\n0;40e-1;3\n"):
        (tmp_path / "t.csv").write_text("x;z;y\n" + rows)
        X, y = read_records(open_table(tmp_path / "t.csv", schema), schema)
        assert X.tolist() == want
        assert y.tolist() == [-0.5, 0, 0.5]
    for text in ('x,z,y\n"1,5",2,3\n', "x;z;y\n1.000,5;2;3\n"):
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(ValueError, match="'x' has text that is not a number"):
            read_records(open_table(tmp_path / "t.csv", schema), schema)


def test_a_cell_that_is_no_numeral_leaves_the_other_rows_as_they_are(tmp_path: Path) -> None:
    """A column is read as numbers until a cell is not spelled as one, and from there as text."""
    schema = Schema(ClassTarget("y", ("a", "b")), {"x": Number(0, 1, "middle"), "c": Category(("p", "q"))})
    values = np.random.default_rng(0).uniform(size=100_000)
    cells = [repr(value) for value in values.tolist()]
    texts = [cells, [*cells[:-1], " n/A "], [" n/A ", *cells[1:]], [*cells[:50_000], " N/A", *cells[50_001:]]]
    found = []
    for text in texts:
        lines = "".join(f"{cell},{'pq'[k % 2]},a\n" for k, cell in enumerate(text))
        (tmp_path / "t.csv").write_text("x,c,y\n" + lines)
        found.append(read_records(open_table(tmp_path / "t.csv", schema), schema)[0])
    for X, text in zip(found, texts, strict=True):
        same = np.array([cell == other for cell, other in zip(cells, text, strict=True)])
        assert (X[same] == found[0][same]).all()
        assert (X[~same, 0] == 0).all()


def test_rows_beyond_the_memory_that_is_given_are_not_held(tmp_path: Path) -> None:
    schema = Schema(ClassTarget("y", ("a", "b")), {"x": Number(0, 1)})
    (tmp_path / "t.csv").write_text("x,y\n" + "0.5,a\n" * 100)
    pq.write_table(pa.table({"x": [0.5] * 100, "y": ["a"] * 100}), tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert read_small(open_table(tmp_path / name, schema), schema, most=799) is None
        X, y = read_small(open_table(tmp_path / name, schema), schema, most=800)
        assert X.tolist() == [[0]] * 100
        assert y.tolist() == [0] * 100
        # training may hold them twice
        assert EncodedTable(tmp_path / name, schema, memory=1599).held() is None
        assert EncodedTable(tmp_path / name, schema, memory=1600).held() is not None


def test_a_bad_guess_of_the_number_of_records_changes_nothing(tmp_path: Path) -> None:
    """It is made from the beginning of a file, whose lines may be longer or shorter than the others."""
    schema = Schema(ClassTarget("y", ("a", "b")), {"x": Number(0, 100)})
    short = [(str(k % 100), "ab"[k % 2]) for k in range(40_000)]
    long = [(f"{k % 100}.{'0' * 400}", "ab"[k % 2]) for k in range(3000)]
    for number, lines in enumerate((short, long + short, short + long, short[:1], long[:1])):
        text = "x,y\n" + "".join(f"{x},{y}\n" for x, y in lines)
        for path, data in ((f"{number}.csv", text.encode()), (f"{number}.csv.gz", gzip.compress(text.encode()))):
            (tmp_path / path).write_bytes(data)
            X, y = read_records(open_table(tmp_path / path, schema), schema)
            np.testing.assert_array_equal(X[:, 0], [(float(x) - 50) / 50 for x, _ in lines])
            np.testing.assert_array_equal(y, ["ab".index(label) for _, label in lines])
    # and is good where lines are alike
    assert open_table(tmp_path / "0.csv", schema).expected == pytest.approx(40_000, rel=0.05)


def parquet(table: pa.Table, path: Path) -> bytes:
    pq.write_table(table, path)
    return path.read_bytes()


def test_a_damaged_or_foreign_file_is_a_sentence(tmp_path: Path) -> None:
    whole = parquet(pa.table({"a": [SECRET] * 500, "b": list(range(500))}), tmp_path / "whole.parquet")
    flipped = bytearray(whole)
    flipped[4:200] = b"\xff" * 196
    cases = [
        ("empty.csv", b"", "no records: the file is empty"),
        ("blank.csv", b"\n", "no records|lacks"),
        ("header.csv", b"a,b\n", "has no records"),
        ("short.csv", f"a,b\n1,2\n{SECRET}\n".encode(), "a line with more or fewer fields than its header"),
        ("quote.csv", f'a,b\n"{SECRET},2\n'.encode(), "a line with more or fewer fields|damaged"),
        ("latin.csv", f"a,b\n{SECRET}\xe9,2\n".encode("latin-1"), "not UTF-8"),
        ("latin-header.csv", "a,b,\xe9\n1,2,3\n".encode("latin-1"), "not UTF-8"),
        ("twice.csv", b"a,b,a\n1,2,3\n", "columns 1 and 3 of .* have the same name"),
        ("cut.csv.gz", gzip.compress(CSV.encode())[:-20], "damaged"),
        ("plain.csv.gz", b"a,b\n1,2\n", "damaged"),
        ("zero.parquet", b"", "no records: the file is empty"),
        ("none.parquet", parquet(pa.table({"a": [], "b": []}), tmp_path / "n.parquet"), "has no records"),
        ("text.parquet", CSV.encode(), "damaged"),
        ("cut.parquet", whole[: len(whole) // 2], "damaged"),
        ("flipped.parquet", bytes(flipped), "damaged"),
        ("table.xlsx", b"PK", "ends in none of .csv"),
        ("nosuffix", b"a,b\n1,2\n", "ends in none of .csv"),
    ]
    for name, written, sentence in cases:
        path = tmp_path / name
        path.write_bytes(written)
        with pytest.raises(ValueError, match=sentence) as caught:
            content(TableFiles.open(path), ["a", "b"])
        assert name in str(caught.value)
        assert SECRET not in str(caught.value)
        assert caught.value.__context__ is None


def test_an_absent_column_is_named_with_the_place_of_what_comes_close(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,eduction\n1,2\n")
    with pytest.raises(ValueError, match=r"t\.csv lacks 1 .*'education' \(column \d has a similar name\)"):
        content(TableFiles.open(path), ["age", "education"])


def test_a_path_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        TableFiles.open(tmp_path / "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match="there are no tables in it"):
        TableFiles.open(tmp_path / "folder.csv")
