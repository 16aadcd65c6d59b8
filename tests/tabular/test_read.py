"""Files are read by name and kind; what is wrong with one is said without repeating its cells."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino.tabular.read import open_table

SECRET = "4711"
CSV = f'id,"a", b\n1,"x, y",{SECRET}\n2,"two\nlines", 7 \n'


def test_only_the_columns_asked_for_are_read_and_csv_cells_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(CSV)
    file = open_table(path)
    assert file.names == ("id", "a", "b")
    assert file.read(["b", "a"]).to_pydict() == {"b": [SECRET, " 7 "], "a": ["x, y", "two\nlines"]}


def test_other_forms_of_the_same_table(tmp_path: Path) -> None:
    expected = {"a": ["1", "2"], "b": ["u", ""]}
    (tmp_path / "t.tsv").write_text("a\tb\n1\tu\n2\t\n")
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1,u\r\n2,\r\n")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,u\n2,\n"))
    pq.write_table(pa.table(expected), tmp_path / "t.PARQUET")
    for name in ("t.tsv", "bom.csv", "t.csv.gz", "t.PARQUET"):
        assert open_table(tmp_path / name).read(["a", "b"]).to_pydict() == expected


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
    for name, content, sentence in cases:
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ValueError, match=sentence) as caught:
            open_table(path).read(["a", "b"])
        assert name in str(caught.value)
        assert SECRET not in str(caught.value)
        assert caught.value.__context__ is None


def test_an_absent_column_is_named_with_the_place_of_what_comes_close(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,eduction\n1,2\n")
    with pytest.raises(ValueError, match=r"t\.csv lacks 1 .*'education' \(column \d has a similar name\)"):
        open_table(path).read(["age", "education"])


def test_a_path_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_table(tmp_path / "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(IsADirectoryError):
        open_table(tmp_path / "folder.csv")
