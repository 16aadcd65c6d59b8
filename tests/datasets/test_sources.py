"""Data sets from what a user downloads: every set's own format, and nothing else than what results rest on."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from typer.testing import CliRunner

from sordino.cli.app import app
from sordino.datasets.sources import DATA_SETS, check, digest, get, missing, read

ADULT = "39, State-gov, 7, Bachelors, 13, Never-married, ?, Not-in-family, White, Male, 2, 0, 40, Cuba, "


def pixels(*shape):
    return np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)


def idx(array):
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape) + array.tobytes()


IMAGES, LABELS = pixels(3, 28, 28), pixels(3)
CIFAR = pixels(4, 3073)

# the downloaded files, and of every prepared one a column that they must give
FORMATS = {
    "adult": (
        {"adult.data": ADULT + "<=50K\n\n", "adult.test": "|1x3 Cross validator\n" + ADULT + ">50K.\n\n"},
        {"adult.parquet": {"income": ["<=50K", ">50K"], "split": ["train", "test"], "age": [39, 39]}},
    ),
    "bank": (
        {"bank-full.csv": '"age";"job";"y"\n58;"management";"no"\n'},
        {"bank.parquet": {"age": [58], "job": ["management"], "y": ["no"]}},
    ),
    "creditcard_default": (
        {"default of credit card clients.csv": ",X1,Y\nID,LIMIT_BAL,default payment next month\n1,20000,1\n"},
        {"creditcard_default.parquet": {"ID": [1], "default payment next month": [1]}},
    ),
    "wine_quality": (
        {"winequality-red.csv": '"pH";"quality"\n3.5;5\n', "winequality-white.csv": '"pH";"quality"\n3;6\n'},
        {"wine_quality.parquet": {"pH": [3.5, 3.0], "quality": [5, 6], "color": ["red", "white"]}},
    ),
    "bike_hour": ({"hour.csv": "instant,cnt\n1,16\n"}, {"bike_hour.parquet": {"instant": [1], "cnt": [16]}}),
    "graduate_admission": (
        {"Admission_Predict_Ver1.1.csv": "GRE Score,LOR ,Chance of Admit \n337,4.5,0.92\n"},
        {"graduate_admission.parquet": {"GRE Score": [337], "LOR": [4.5], "Chance of Admit": [0.92]}},
    ),
    "sonar": (
        {"sonar.all-data": ",".join(["0.02"] * 60) + ",R\n"},
        {"sonar.parquet": {"band_01": [0.02], "band_60": [0.02], "label": ["R"]}},
    ),
    "boston_housing": (
        {"housing.data": " 0.006  18.0  2.31  0  0.538  6.575  65.2  4.09   1  296.0  15.30 396.90\n   4.98  24.00\n"},
        {"boston_housing.parquet": {"CRIM": [0.006], "CHAS": [0], "MEDV": [24.0]}},
    ),
    "swedish_motor": (
        {"SwedishMotorInsurance.csv": "Kilometres,Insured,Payment\n1,455.13,392491\n"},
        {"swedish_motor.parquet": {"Kilometres": [1], "Insured": [455.13], "Payment": [392491]}},
    ),
    "a9a": (
        {"a9a": "-1 3:1 123:1 \n+1 1:1\n", "a9a.t": "+1 2:1\n"},
        {"a9a_train.npz": {"indices": [2, 122, 0], "y": [-1, 1]}, "a9a_test.npz": {"indices": [1], "y": [1]}},
    ),
    "ijcnn1": (
        {"ijcnn1": "-1 1:0 22:0.5\n", "ijcnn1.t": "1 2:0.25\n"},
        {"ijcnn1_train.npz": {"data": [0.5], "indices": [21], "y": [-1]}, "ijcnn1_test.npz": {"data": [0.25]}},
    ),
    "mnist": (
        {
            "train-images-idx3-ubyte": idx(IMAGES),
            "train-labels-idx1-ubyte": idx(LABELS),
            "t10k-images-idx3-ubyte": gzip.compress(idx(IMAGES[:1])),
            "t10k-labels-idx1-ubyte": gzip.compress(idx(LABELS[:1])),
        },
        {"mnist.npz": {"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES[:1], "y_test": LABELS[:1]}},
    ),
    "cifar10_subset": (
        {"data_batch_1.bin": CIFAR.tobytes(), "test_batch.bin": CIFAR[:2].tobytes()},
        {"cifar10_subset_10000_2000.npz": {"y_train": CIFAR[:, 0], "y_test": CIFAR[:2, 0]}},
    ),
    "cifar10": (
        {**{f"data_batch_{k}.bin": CIFAR[:1].tobytes() for k in range(1, 6)}, "test_batch.bin": CIFAR[:2].tobytes()},
        {"cifar10.npz": {"y_train": CIFAR[[0] * 5, 0], "y_test": CIFAR[:2, 0]}},
    ),
}


@pytest.fixture
def downloaded(tmp_path):
    def write(name):
        folder = tmp_path / name
        folder.mkdir()
        for file, content in FORMATS[name][0].items():
            (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder

    return write


@pytest.fixture
def expected(monkeypatch, downloaded):
    """A set whose results rest on the small files of this test."""

    def known(name):
        folder, one = downloaded(name), DATA_SETS[name]
        built = one.build({file: folder / file for file in one.takes})
        for file, columns in built.items():
            monkeypatch.setitem(one.files, file, digest(columns))
        return folder

    return known


def test_every_set_that_can_be_built_is_here():
    assert set(FORMATS) == {name for name, one in DATA_SETS.items() if one.build is not None}


@pytest.mark.parametrize("name", FORMATS)
def test_a_set_is_built_from_its_own_format_and_read_back(name, expected, tmp_path):
    written = get(name, tmp_path / "data", [expected(name)])
    assert {path.name for path in written} == set(DATA_SETS[name].files)
    assert missing(name, tmp_path / "data") == []
    assert check(name, tmp_path / "data")
    for file, columns in FORMATS[name][1].items():
        found = read(tmp_path / "data" / file)
        for column, values in columns.items():
            assert np.array_equal(np.asarray(found[column]), np.asarray(values)), column


@pytest.mark.parametrize("name", FORMATS)
def test_other_content_is_not_written(name, downloaded, tmp_path):
    with pytest.raises(ValueError, match="is not what the results were measured on"):
        get(name, tmp_path / "data", [downloaded(name)])
    assert not (tmp_path / "data").exists()


def test_channels_of_a_picture_are_last(expected, tmp_path):
    get("cifar10_subset", tmp_path, [expected("cifar10_subset")])
    found = read(tmp_path / "cifar10_subset_10000_2000.npz")["x_train"]
    # a record is its label, then all of red, of green and of blue
    assert found[1, 0, 3].tolist() == [CIFAR[1, 1 + 3], CIFAR[1, 1 + 1024 + 3], CIFAR[1, 1 + 2048 + 3]]


def test_the_digest_sees_values_names_and_order_and_not_the_format():
    table = {"a": [1, 2], "b": ["x", "y"]}
    assert digest(table) == digest({"a": [1.0, 2.0], "b": ["x", "y"]})
    others = [{"a": [2, 1], "b": ["x", "y"]}, {"a": [1, 2], "c": ["x", "y"]}, {"b": ["x", "y"], "a": [1, 2]}]
    assert len({digest(one) for one in (table, *others)}) == 4
    arrays = {"x": np.arange(3, dtype=np.int8)}
    assert digest(arrays) == digest({"x": np.arange(3.0)})
    assert digest(arrays) != digest({"x": np.arange(3.0).reshape(3, 1)})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("get", "adult"), "download adult.data and adult.test (UCI Adult), then `sordino data get adult --from"),
        (("get", "iris"), "there is no data set 'iris'"),
        (("get", "rcv1"), "rcv1 cannot be built here"),
        (("get", "adult", "--from", "nowhere"), "nowhere does not exist"),
        (("get", "adult", "--from", "."), "adult needs adult.data, adult.test, which is not among what --from names"),
    ],
)
def test_what_is_missing_is_a_sentence(arguments, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["data", *arguments, "--data", str(tmp_path)])
    assert done.exit_code == 2
    assert told in done.stderr


def test_the_list_says_what_is_here_and_how_to_have_the_rest(expected, tmp_path):
    get("bank", tmp_path, [expected("bank")])
    done = CliRunner().invoke(app, ["data", "list", "--data", str(tmp_path)], env={"COLUMNS": "80"})
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert "bank: here" in lines
    assert "mnist: missing" in lines
    ways = " ".join(lines[lines.index("mnist: missing") :])
    assert "`sordino data get mnist` (OpenML: mnist_784)" in ways
    # the other way, over several lines
    assert "or " in ways
    assert "t10k-labels-idx1-ubyte" in ways


def test_openml_gives_the_same_as_the_files(monkeypatch):
    import sklearn.datasets

    whole = np.concatenate([np.repeat(IMAGES[:1], 60_000, axis=0), IMAGES[:1]]).reshape(-1, 784)

    def fetch(name, version, return_X_y, as_frame, parser):
        assert (name, version) == ("mnist_784", 1)
        return whole, np.full(60_001, "7")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    built = DATA_SETS["mnist"].online()["mnist.npz"]
    assert built["x_train"].shape == (60_000, 28, 28)
    assert np.array_equal(built["x_test"], IMAGES[:1])
    assert built["y_test"].tolist() == [7]
