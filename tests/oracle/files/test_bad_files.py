"""What is wrong with a file is a sentence that names it and quotes nothing of it."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import few_steps
import stored
from sordino.files import Arrays, Table
from sordino.losses import Logistic
from sordino.methods import NoisyGradientDescent
from sordino.oracle import linear_oracle
from sordino.oracle.files.partition import Partition
from sordino.oracle.files.source import InUnits, Labels
from sordino.problem import Problem

SECRET = "4711"


def write(path, content, **options):
    pq.write_table(pa.table(content), path, **options)


NUMBERS = {"a": [1.0, 2.0], "b": [3.0, 4.0], "y": [1.0, -1.0]}


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        ({**NUMBERS, "b": [1, 2]}, "column 2 of .*1.parquet holds double values, and int64 values in .*2.parquet"),
        ({"a": [1.0], "y": [1.0]}, "2.parquet lacks column 2 of .*1.parquet"),
        ({**NUMBERS, "c": [1.0, 2.0]}, "2.parquet has 4 columns and .*1.parquet has 3"),
    ],
)
def test_files_with_other_columns(tmp_path, second, sentence):
    write(tmp_path / "1.parquet", NUMBERS)
    write(tmp_path / "2.parquet", second)
    with pytest.raises(ValueError, match=sentence):
        Table(tmp_path, "y")


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_records_do_not_count_twice_because_their_file_has_two_names(tmp_path, link):
    write(tmp_path / "1.parquet", NUMBERS)
    link(tmp_path / "1.parquet", tmp_path / "latest.parquet")
    with pytest.raises(ValueError, match=r"1.parquet and .*latest.parquet are one file: .* twice"):
        Table(tmp_path, "y")
    X, other = tmp_path / "X.npy", tmp_path / "other.npy"
    np.save(X, np.ones((3, 2)))
    np.save(tmp_path / "y.npy", np.ones(6))
    link(X, other)
    for features in ([X, other], [X, X]):
        with pytest.raises(ValueError, match=r"are one file: .* twice"):
            Arrays(features, tmp_path / "y.npy")


def test_columns_that_are_not_used_may_differ(tmp_path):
    write(tmp_path / "1.parquet", {**NUMBERS, "c": ["text", None]})
    write(tmp_path / "2.parquet", {"y": [1.0], "c": [3], "d": [4], "a": [5.0]})
    table = Table(tmp_path, "y", ["a"])
    assert table.shape == (3, 1)
    with Partition.whole(table).read() as blocks:
        ((_, X, y, _),) = blocks
    assert X.tolist() == [[1.0], [2.0], [5.0]]
    assert y.tolist() == [1.0, -1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("y", ["a", "bb"]), "lacks 1 of the columns that are needed: 'bb' .column 2 has a similar name"),
        (("z",), "lacks 1 of the columns that are needed: 'z'"),
        (("y", ["a", "a"]), "each once"),
        (("y", ["a", "y"]), "not the target 'y'"),
        (("y", []), "the features are none"),
        (("y",), "column 'name' of .* holds string values: features must be numbers"),
        (("y", ["when"]), "column 'when' of .* holds date32"),
    ],
)
def test_columns_that_cannot_be_features(tmp_path, arguments, sentence):
    day = pa.array([SECRET, SECRET]).cast(pa.int64()).cast(pa.int32()).cast(pa.date32())
    write(tmp_path / "t.parquet", {**NUMBERS, "name": [SECRET, SECRET], "when": day})
    with pytest.raises(ValueError, match=sentence) as caught:
        Table(tmp_path / "t.parquet", *arguments)
    assert SECRET not in str(caught.value)


def test_one_name_is_not_a_list_of_names(tmp_path):
    write(tmp_path / "t.parquet", NUMBERS)
    with pytest.raises(TypeError, match="features is the text 'ab'"):
        Table(tmp_path / "t.parquet", "y", "ab")


def test_a_target_of_texts_is_no_number(tmp_path):
    write(tmp_path / "t.parquet", {**NUMBERS, "y": [SECRET, SECRET]})
    with pytest.raises(ValueError, match=r"the target 'y' of .* holds string values: numbers are needed"):
        Table(tmp_path / "t.parquet", "y").coded(InUnits())


def test_folders_without_records(tmp_path):
    with pytest.raises(ValueError, match="no tables in it"):
        Table(tmp_path, "y")
    with pytest.raises(FileNotFoundError):
        Table(tmp_path / "absent", "y")
    write(tmp_path / "none.parquet", {"a": pa.array([], pa.float64()), "y": pa.array([], pa.float64())})
    with pytest.raises(ValueError, match="has no records"):
        Table(tmp_path, "y")
    write(tmp_path / "some.parquet", {"a": [1.0], "y": [1.0]})
    assert Table(tmp_path, "y").shape == (1, 1)
    (tmp_path / "more.csv").write_text("a,y\n1,1\n")
    with pytest.raises(ValueError, match=r"more.csv holds string values"):
        Table(tmp_path, "y")


def test_more_than_one_column_of_a_name(tmp_path):
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], ["y", "y"])
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as file:
        file.write_table(table)
    with pytest.raises(ValueError, match=r"columns 1 and 2 of .* have the same name"):
        Table(tmp_path / "t.arrow", "y")


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_damaged_files(tmp_path, name):
    X, y = few_steps.data(1000, 3)
    form = stored.parquet if name.endswith("parquet") else stored.arrow
    form(tmp_path, X, y)
    path = tmp_path / name
    whole = path.read_bytes()
    for content, sentence in (
        (b"", "has no records: the file is empty"),
        (SECRET.encode() * 100, "is damaged"),
        (whole[: len(whole) // 2], "is damaged"),
        (whole[-len(whole) // 2 :], "is damaged"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=sentence) as caught:
            answer(Table(path, "y"))
        assert SECRET not in str(caught.value)
        assert caught.value.__context__ is None


def test_a_damaged_page(tmp_path):
    """What a file says of itself is in order, and its second half is not."""
    X, y = few_steps.data(1000, 3)
    X = np.round(X, 1)
    pq.write_table(stored.columns(X, y), tmp_path / "t.parquet", compression="zstd", row_group_size=500)
    place = pq.ParquetFile(tmp_path / "t.parquet").metadata.row_group(1).column(1).data_page_offset
    content = bytearray((tmp_path / "t.parquet").read_bytes())
    content[place : place + 60] = bytes(60)
    (tmp_path / "t.parquet").write_bytes(content)
    table = Table(tmp_path / "t.parquet", "y")
    with pytest.raises(ValueError, match=r"t\.parquet is damaged"):
        answer(table)


def answer(source):
    problem = few_steps.problem(NoisyGradientDescent(1), *source.shape)
    return linear_oracle(source, None, problem, few_steps.ROWS).gradient(problem.start())


@pytest.mark.parametrize("form", stored.FORMS)
def test_a_file_that_changes_while_it_is_in_use(tmp_path, form):
    X, y = few_steps.data(1000, 3)
    source = stored.FORMS[form](tmp_path, X, y)
    answer(source)
    touched = next(
        path for path in sorted(tmp_path.rglob("*")) if path.suffix in (".npy", ".parquet", ".pq", ".arrow", ".feather")
    )
    stat = os.stat(touched)
    os.utime(touched, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    with pytest.raises(RuntimeError, match=f"{touched.name} was changed since it was opened: .* nothing .* released"):
        answer(source)
    touched.unlink()
    with pytest.raises(RuntimeError, match=f"{touched.name} is gone"):
        answer(source)


@pytest.mark.parametrize("form", ["parquet", "arrow", "npy"])
def test_a_file_that_changes_while_it_is_read(tmp_path, form):
    """The change comes after the first block, when the file is already open."""
    X, y = few_steps.data(1000, 3)
    source = stored.FORMS[form](tmp_path, X, y)
    path = next(path for path in sorted(tmp_path.iterdir()))

    def halved():
        with source.reader() as reader:
            reader.rows(0, 10, None)
            os.truncate(path, path.stat().st_size // 2)
            reader.rows(10, 1000, None)

    with pytest.raises(RuntimeError, match="was changed since it was opened"):
        halved()


HOLES = {
    "a null in one column": lambda a: {"a": a, "b": pa.array([None, *a[1:]])},
    "a null in every column": lambda a: {"a": pa.array([None, *a[1:]]), "b": pa.array([*a[:-1], None])},
    "a null among whole numbers": lambda a: {"a": a, "b": pa.array([None, *range(1, len(a))])},
    "single beside double precision": lambda a: {"a": a, "b": a.astype(np.float32)},
    "nothing but nulls": lambda a: {"a": a, "b": pa.array([None] * len(a), pa.float64())},
}


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("name", HOLES)
def test_columns_with_and_without_nulls_side_by_side_count_as_in_memory(tmp_path, name, suffix):
    """A missing cell raises nothing, which would tell of it: its record counts as one that is not a number does."""
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], 30)
    table = pa.table({**HOLES[name](rng.uniform(-1, 1, 30)), "y": y})
    if suffix == "parquet":
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=7)
    else:
        pa.feather.write_feather(table, tmp_path / "t.arrow", compression="uncompressed", chunksize=7)
    X = np.column_stack([np.array(table[c].to_pylist(), dtype=float) for c in ("a", "b")])
    problem = Problem(30, 3, Logistic())
    at = np.array([0.3, -0.2, 0.1])
    found = linear_oracle(Table(tmp_path / f"t.{suffix}", "y"), None, problem, few_steps.ROWS).gradient(at)
    np.testing.assert_allclose(found, linear_oracle(X, y, problem, few_steps.ROWS).gradient(at), rtol=1e-12)


def test_missing_numbers_are_not_numbers(tmp_path):
    content = {
        "a": pa.array([1.5, None, 2.5, 3.5], pa.float32()),
        "b": pa.array([1, 2, None, 4], pa.int16()),
        "c": pa.array([True, False, True, None]),
        "d": pa.array([[1.0, 2.0], [None, 4.0], None, [7.0, 8.0]], pa.list_(pa.float64(), 2)),
        "y": pa.array([1, None, 3, 4]),
    }
    write(tmp_path / "t.parquet", content)
    table = Table(tmp_path / "t.parquet", "y")
    nan = np.nan
    want = np.array([[1.5, 1, 1, 1, 2], [nan, 2, 0, nan, 4], [2.5, nan, 1, nan, nan], [3.5, 4, nan, 7, 8]])
    for which in (None, np.array([0, 2, 3])):
        with Partition.whole(table).read(which) as blocks:
            ((_, X, y, _),) = blocks
        some = slice(None) if which is None else which
        np.testing.assert_array_equal(X, want[some])
        np.testing.assert_array_equal(y, np.array([1, nan, 3, 4])[some])


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["no", "yes", None, "maybe"], ("no", "yes")),
        ([0, 1, None, 2], (0, 1)),
        ([0.0, 1.0, None, 0.5], (0, 1)),
        (pa.array(["no", "yes", None, "maybe"]).dictionary_encode(), ("no", "yes")),
    ],
)
def test_labels(tmp_path, labels, classes):
    write(tmp_path / "t.parquet", {"a": [0.0, 1.0, 2.0, 3.0], "y": labels})
    table = Table(tmp_path / "t.parquet", "y").coded(Labels(classes, (-1.0, 1.0)))
    assert table.check() == 2
    with table.reader() as reader:
        np.testing.assert_array_equal(reader.rows(0, 4, None)[1], [-1, 1, np.nan, np.nan])
    # a text is not the number that it spells
    assert table.coded(Labels(("0", "1"), (-1.0, 1.0))).check() == 4


def test_labels_in_arrays(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((4, 1)))
    np.save(tmp_path / "y.npy", ["no", "yes", "", "maybe"])
    arrays = Arrays(tmp_path / "X.npy", tmp_path / "y.npy").coded(Labels(("no", "yes"), (-1.0, 1.0)))
    assert arrays.check() == 2
    with arrays.reader() as reader:
        np.testing.assert_array_equal(reader.rows(0, 4, None)[1], [-1, 1, np.nan, np.nan])
    with pytest.raises(ValueError, match="holds texts: numbers are needed"):
        arrays.coded(InUnits())


@pytest.mark.parametrize(
    ("X", "y", "sentence"),
    [
        (np.asfortranarray(np.zeros((4, 3))), np.zeros(4), "X.npy holds its columns one after the other"),
        (np.zeros(4), np.zeros(4), "X.npy has 1 dimensions: it must be a matrix"),
        (np.zeros((4, 3)), np.zeros((4, 1)), "y.npy has 2 dimensions: it must be a vector"),
        (np.zeros((4, 3)), np.zeros(5), "holds 5 targets and .* 4 rows"),
        (np.zeros((0, 3)), np.zeros(0), "X.npy has no records"),
        (np.zeros((4, 3), dtype="datetime64[s]"), np.zeros(4), "X.npy holds datetime64"),
        (np.full((4, 3), SECRET), np.zeros(4), "X.npy holds texts: features must be numbers"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, X, y, sentence):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    with pytest.raises(ValueError, match=sentence):
        Arrays(tmp_path / "X.npy", tmp_path / "y.npy")


def test_arrays_that_are_damaged(tmp_path):
    np.save(tmp_path / "y.npy", np.zeros(4))
    np.save(tmp_path / "X.npy", np.zeros((4, 3)))
    whole = (tmp_path / "X.npy").read_bytes()
    for content, sentence in (
        (SECRET.encode() * 50, "not an array of NumPy"),
        (whole[:-8], "shorter than its header says"),
        (b"", "not an array of NumPy"),
    ):
        (tmp_path / "X.npy").write_bytes(content)
        with pytest.raises(ValueError, match=sentence) as caught:
            Arrays(tmp_path / "X.npy", tmp_path / "y.npy")
        assert SECRET not in str(caught.value)
    np.save(tmp_path / "X.npy", np.zeros((4, 3)))
    np.save(tmp_path / "Z.npy", np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"Z.npy holds float64 rows of shape \(2,\) and .*X.npy float64 rows"):
        Arrays([tmp_path / "X.npy", tmp_path / "Z.npy"], tmp_path / "y.npy")
    with pytest.raises(ValueError, match="there are no files"):
        Arrays([], tmp_path / "y.npy")


def test_a_record_batch_that_does_not_fit_memory(tmp_path, monkeypatch):
    from sordino.tabular import formats as arrow

    X, y = few_steps.data(100, 3)
    source = stored.arrow(tmp_path, X, y)
    monkeypatch.setattr(arrow, "_LARGEST", 100)
    with pytest.raises(ValueError, match=r"record batch of 0.0 GiB.*max_chunksize"):
        answer(source)
