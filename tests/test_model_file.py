"""A model file: the same predictions back, and a sentence for every file that is not an intact one."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, softmax

from sordino import wire
from sordino.model_file import read_model, save_model, verify_model
from sordino.tabular import Boolean, Category, ClassTarget, Number, NumberTarget, Schema

COLUMNS = {"x": Number(0, 10), "c": Category(("p", "q"), other=True), "b": Boolean()}
ROWS = np.random.default_rng(5).uniform(-1, 1, size=(7, 5))


def fitted(outputs: int = 1, width: int = 5, **extra: Any) -> SimpleNamespace:
    rng = np.random.default_rng(outputs)
    return SimpleNamespace(
        coef_=rng.normal(size=(outputs, width)),
        intercept_=rng.normal(size=outputs),
        certificate_=SimpleNamespace(
            to_json=lambda: '{"format": "sordino certificate"}\n', is_about=lambda weights: False
        ),
        **extra,
    )


def scores(estimator: Any, rows: Any = ROWS) -> Any:
    return rows @ np.atleast_2d(estimator.coef_).T + estimator.intercept_


def test_two_classes(tmp_path: Path) -> None:
    estimator = fitted(classes_=np.array(["no", "yes"]), feature_names_in_=np.array(list("abcde"), dtype=object))
    save_model(estimator, tmp_path / "m.sordino")
    model = read_model(tmp_path / "m.sordino")
    score = scores(estimator).ravel()
    assert model.decision_function(ROWS).tolist() == score.tolist()
    np.testing.assert_allclose(model.predict_proba(ROWS), np.column_stack([expit(-score), expit(score)]), rtol=1e-14)
    assert model.predict(ROWS).tolist() == ["yes" if s > 0 else "no" for s in score]
    np.testing.assert_allclose(model.decision_function(sparse.csr_matrix(ROWS)), score, rtol=1e-14)
    assert model.feature_names == tuple("abcde")
    assert model.schema is None


def test_many_classes(tmp_path: Path) -> None:
    estimator = fitted(3, classes_=np.array([2, 5, 9]))
    save_model(estimator, tmp_path / "m.sordino")
    model = read_model(tmp_path / "m.sordino")
    np.testing.assert_allclose(
        model.predict_proba(1e4 * ROWS), softmax(scores(estimator, 1e4 * ROWS), axis=1), rtol=1e-9
    )
    assert model.predict(ROWS).tolist() == [[2, 5, 9][k] for k in scores(estimator).argmax(axis=1)]
    assert model.predict(ROWS).dtype == np.array([2]).dtype


def test_a_number_comes_back_in_its_own_unit_and_range(tmp_path: Path) -> None:
    estimator = fitted()
    estimator.coef_, estimator.intercept_ = estimator.coef_.ravel(), float(estimator.intercept_[0])
    save_model(estimator, tmp_path / "raw.sordino")
    save_model(estimator, tmp_path / "table.sordino", Schema(NumberTarget("price", -0.5, 0.7), COLUMNS))
    raw, table = read_model(tmp_path / "raw.sordino"), read_model(tmp_path / "table.sordino")
    score = scores(estimator).ravel()
    np.testing.assert_allclose(raw.predict(ROWS), score)
    np.testing.assert_allclose(table.predict(ROWS), score.clip(-0.5, 0.7))
    assert score.min() < -0.5
    assert score.max() > 0.7
    with pytest.raises(ValueError, match="predicts a number: use predict"):
        raw.predict_proba(ROWS)


def test_the_schema_travels_along(tmp_path: Path) -> None:
    schema = Schema(ClassTarget("income", ("<=50K", ">50K")), COLUMNS, ("id",))
    save_model(fitted(classes_=np.array(["<=50K", ">50K"])), tmp_path / "m.sordino", schema)
    model = read_model(tmp_path / "m.sordino")
    assert model.schema == schema
    assert model.feature_names == schema.feature_names
    with zipfile.ZipFile(tmp_path / "m.sordino") as archive:
        assert Schema.from_toml(archive.read("schema.toml").decode()) == schema


def test_the_same_model_is_the_same_file(tmp_path: Path) -> None:
    for name in "ab":
        save_model(fitted(), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("rows", [ROWS[:, :4], np.hstack([ROWS, ROWS]), ROWS[0], sparse.csr_matrix(ROWS[:, :3])])
def test_rows_of_another_width(tmp_path: Path, rows: Any) -> None:
    save_model(fitted(), tmp_path / "m")
    with pytest.raises(ValueError, match="the model takes rows of 5 features"):
        read_model(tmp_path / "m").predict(rows)


def test_rows_with_holes(tmp_path: Path) -> None:
    save_model(fitted(), tmp_path / "m")
    holed = ROWS.copy()
    holed[3, 2] = np.nan
    with pytest.raises(ValueError, match="missing or infinite"):
        read_model(tmp_path / "m").predict(holed)


@pytest.mark.parametrize(
    ("estimator", "schema", "sentence"),
    [
        (SimpleNamespace(coef_=1), None, "without a certificate cannot be saved"),
        (fitted(width=4), Schema(NumberTarget("y", 0, 1), COLUMNS), "other columns or classes"),
        (fitted(), Schema(ClassTarget("y", ("a", "b")), COLUMNS), "other columns or classes"),
        (
            fitted(classes_=np.array(["a", "c"])),
            Schema(ClassTarget("y", ("a", "b")), COLUMNS),
            "other columns or classes",
        ),
        (fitted(classes_=np.array(["a", "b", "c"])), None, "1 outputs"),
        (fitted(classes_=np.array([1, "a"], dtype=object)), None, "all texts or all numbers"),
    ],
)
def test_what_cannot_be_saved(tmp_path: Path, estimator: Any, schema: Schema | None, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        save_model(estimator, tmp_path / "m", schema)
    assert list(tmp_path.iterdir()) == []


def test_a_name_of_a_file_is_not_what_is_in_it() -> None:
    with pytest.raises(TypeError, match=r"'m.sordino' is not a model as it was read: give read_model"):
        verify_model("m.sordino")  # type: ignore[arg-type]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    path = tmp_path / "m.sordino"
    save_model(fitted(classes_=np.array([0, 1])), path)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(OSError, match=r"m\.sordino \(No space left on device\); what was there before is untouched"):
        save_model(fitted(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def archive_of(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def nested(members: dict[str, bytes]) -> bytes:
    """One member inside another one's bytes, listed as well: few bytes that would unfold into many."""
    inner = archive_of({"hidden0_coef.npy": bytes(100_000)})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr("hidden1_coef.npy", inner[: inner.index(b"PK\x01\x02")])
        listed = zipfile.ZipFile(io.BytesIO(inner)).infolist()[0]
        listed.header_offset = archive.filelist[-1].header_offset + len(archive.filelist[-1].FileHeader())
        archive.filelist.append(listed)
        archive.NameToInfo[listed.filename] = listed
    return buffer.getvalue()


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def forged(members: dict[str, bytes], change: Callable[[dict[str, Any]], None]) -> bytes:
    """With model.json changed and every digest made to fit: what a deliberate forger would write."""
    body = json.loads(members["model.json"])
    body.pop("digest")
    body["members"] = {name: hashlib.sha256(m).hexdigest() for name, m in members.items() if name != "model.json"}
    change(body)
    return archive_of({**members, "model.json": json.dumps({**body, "digest": wire.digest(body)}).encode()})


def array_bytes(array: Any, **how: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **how)
    return buffer.getvalue()


def test_a_file_that_is_not_an_intact_model(tmp_path: Path) -> None:
    path = tmp_path / "m.sordino"
    save_model(fitted(classes_=np.array(["a", "b"])), path)
    whole, members = path.read_bytes(), members_of(path)
    bit = bytearray(whole)
    bit[whole.index(members["coef.npy"]) + 130] ^= 1
    promised = members["coef.npy"].replace(b"(1, 5)", b"(9,5) ")
    pickled = array_bytes(np.array([[{}]], dtype=object), allow_pickle=True)

    def nothing(body: dict[str, Any]) -> None: ...
    def older(body: dict[str, Any]) -> None:
        body["version"] = 99

    def task(body: dict[str, Any]) -> None:
        body["task"] = "regression"

    def classes(body: dict[str, Any]) -> None:
        body["classes"] = ["a", "b", "c"]

    def mixed(body: dict[str, Any]) -> None:
        body["classes"] = ["a", 1]

    def stripped(body: dict[str, Any]) -> None:
        del body["features"]

    def more(body: dict[str, Any]) -> None:
        body["approved_by"] = "an authority"

    def spelled(body: dict[str, Any]) -> None:
        body["version"] = 3.0

    cases = [
        (b"", "not a Sordino model file"),
        (b"%PDF-1.7", "not a Sordino model file"),
        (pickle.dumps(fitted().coef_), "not a Sordino model file"),
        (whole[:-1], "damaged or cut short"),
        (whole[: len(whole) // 2], "damaged or cut short"),
        (b"PK\x03\x04", "damaged or cut short"),
        (bytes(bit), "damaged or cut short"),
        (archive_of({"word/document.xml": b"<a/>"}), "an archive of something else"),
        (archive_of({**members, "extra.py": b"print()"}), "an archive of something else"),
        (archive_of(members, zipfile.ZIP_DEFLATED), "members are compressed"),
        (archive_of({**members, "model.json": b"{"}), "model.json is not that of"),
        (archive_of({**members, "model.json": b"[" * 100_000}), "model.json is not that of"),
        (archive_of({**members, "model.json": b'{"format": "other"}'}), "model.json is not that of"),
        (archive_of({**members, "coef.npy": array_bytes(fitted(2).coef_[1:])}), "altered or damaged"),
        (archive_of({**members, "certificate.json": b"{}"}), "altered or damaged"),
        (archive_of({**members, "schema.toml": b""}), "altered or damaged"),
        (archive_of({**members, "model.json": members["model.json"].replace(b'"b"', b'"c"')}), "altered or damaged"),
        (forged(members, older), "version 99"),
        (forged(members, task), "the task 'regression' does not fit"),
        (forged(members, classes), "1 outputs"),
        (forged(members, mixed), "all texts or all numbers"),
        (forged(members, stripped), "incomplete: KeyError\\('features'\\)"),
        (forged(members, more), "not written by Sordino"),
        (forged(members, spelled), "not written by Sordino"),
        (archive_of({**members, "model.json": b'{"format": "x", ' + members["model.json"][1:]}), "not that of"),
        (nested(members), "lie on top of each other"),
        (forged({**members, "coef.npy": pickled}, nothing), "not plain arrays"),
        (forged({**members, "coef.npy": promised}, nothing), "not plain arrays"),
        (forged({**members, "coef.npy": b"junk"}, nothing), "not plain arrays"),
        (forged({**members, "coef.npy": array_bytes(np.full((1, 5), np.nan))}, nothing), "not all finite"),
        (forged({**members, "coef.npy": array_bytes(np.zeros(5))}, nothing), "which do not fit"),
        (forged({**members, "intercept.npy": array_bytes(np.zeros(3))}, nothing), "which do not fit"),
        (forged({**members, "schema.toml": b"[target]"}, nothing), r"no \[columns\]"),
        (forged({**members, "schema.toml": b"\xff"}, nothing), "incomplete: UnicodeDecodeError"),
    ]  # fmt: skip
    assert read_model(path).coef.shape == (1, 5)
    for content, sentence in cases:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=sentence) as caught:
            read_model(path)
        assert "m.sordino: " in str(caught.value)


def test_every_single_flipped_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "m.sordino"
    save_model(fitted(width=2), path)
    whole = path.read_bytes()
    original = read_model(path)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        try:
            model = read_model(path)
        except ValueError:
            continue
        # only the archive's own bookkeeping (dates, attributes) may change unnoticed
        assert model.coef.tolist() == original.coef.tolist()
        assert model.intercept.tolist() == original.intercept.tolist()
        assert model.certificate_json == original.certificate_json


def test_a_model_predicts_without_the_training_libraries(tmp_path: Path) -> None:
    save_model(fitted(classes_=np.array([0, 1])), tmp_path / "m.sordino")
    program = (
        "import sys\n"
        "from sordino.model_file import read_model\n"
        f"read_model({str(tmp_path / 'm.sordino')!r}).predict([[0] * 5])\n"
        "print([name for name in ('numba', 'dp_accounting', 'sklearn', 'scipy', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
