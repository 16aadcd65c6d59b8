"""`sordino verify`: 0 for what holds, 1 for what does not, whoever changed it and however well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sordino import wire
from sordino.identity import Identity
from sordino.model_file import read_model, save_model
from sordino.tabular import Schema


def forged(text: str, change: Any) -> str:
    """The certificate with a change and a digest that fits it."""
    body = json.loads(text)
    body.pop("digest")
    change(body)
    return json.dumps({**body, "digest": wire.digest(body)})


def test_a_certificate_and_a_model_hold(sordino: Any, model: Path, folder: Path) -> None:
    for path in (folder / "certificate.json", model):
        run = sordino("verify", path)
        assert run.code == 0, run.text + run.errors
        assert "VERIFIED: (2, 1e-05)-differential privacy" in run.text
        assert "yes   planning again from the public facts gives the same numbers" in run.text
        assert "NO " not in run.text
    assert "yes   the weights are of the shape the certificate speaks of." in run.text


def test_an_edited_number_breaks_the_digest(sordino: Any, model: Path, folder: Path, tmp_path: Path) -> None:
    edited = tmp_path / "c.json"
    edited.write_text((folder / "certificate.json").read_text().replace('"epsilon": 2', '"epsilon": 1', 1))
    run = sordino("verify", edited)
    assert run.code == 1
    assert "its digest does not match its content" in run.errors
    assert "NOT VERIFIED" in run.errors

    content = model.read_bytes()
    (tmp_path / "m.sordino").write_bytes(content.replace(b'"epsilon": 2', b'"epsilon": 1', 1))
    run = sordino("verify", tmp_path / "m.sordino")
    assert run.code == 1
    assert "NOT VERIFIED" in run.errors


def less_epsilon(body: dict[str, Any]) -> None:
    body["statement"]["epsilon"] = 1.0


def less_asked_for(body: dict[str, Any]) -> None:
    body["statement"]["epsilon"] = 1.0
    body["requested"]["epsilon"] = 1.0


def more_records(body: dict[str, Any]) -> None:
    body["problem"]["records"] *= 10


def less_noise(body: dict[str, Any]) -> None:
    body["plan"]["inner"]["noise"]["std"] /= 2


def other_relation(body: dict[str, Any]) -> None:
    body["statement"]["relation"] = "add_remove"
    body["requested"]["relation"] = "add_remove"


@pytest.mark.parametrize("change", [less_epsilon, less_asked_for, more_records, less_noise, other_relation])
def test_a_forged_number_with_a_fitting_digest_is_caught(
    sordino: Any, model: Path, folder: Path, tmp_path: Path, change: Any
) -> None:
    path = tmp_path / "c.json"
    path.write_text(forged((folder / "certificate.json").read_text(), change))
    run = sordino("verify", path)
    assert run.code == 1, run.text
    assert "NO " in run.text + run.errors
    assert "NOT VERIFIED" in run.errors
    assert "VERIFIED: (" not in run.text


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("requested",), None),
        (("problem", "loss"), {"kind": "Ridge"}),
        (("problem", "row_norm"), 1e308),
        (("problem", "records"), 10**400),
        (("method",), []),
        (("statement", "delta"), {}),
        (("statement", "epsilon"), 10**400),
        (("event",), {"kind": "Budget"}),
        (("rows",), {"kind": "Everything"}),
    ],
)
def test_nonsense_with_a_fitting_digest_is_not_verified(
    sordino: Any, folder: Path, tmp_path: Path, place: tuple[str, ...], value: Any
) -> None:
    def change(body: dict[str, Any]) -> None:
        for key in place[:-1]:
            body = body[key]
        body[place[-1]] = value

    path = tmp_path / "c.json"
    path.write_text(forged((folder / "certificate.json").read_text(), change))
    run = sordino("verify", path)
    assert run.code == 1
    assert "NOT VERIFIED" in run.errors
    assert "VERIFIED: (" not in run.text


def test_a_model_with_somebody_elses_certificate(sordino: Any, model: Path, tmp_path: Path) -> None:
    loaded = read_model(model)

    class Widened:
        coef_ = np.hstack([loaded.coef, loaded.coef])
        intercept_ = loaded.intercept
        classes_ = loaded.classes
        certificate_ = loaded.certificate

    save_model(Widened(), tmp_path / "wide.sordino")
    run = sordino("verify", tmp_path / "wide.sordino")
    assert run.code == 1
    assert "NO    the weights are not of the shape the certificate speaks of." in run.text


def test_a_schema_that_allows_longer_rows_than_the_certificate(sordino: Any, model: Path, tmp_path: Path) -> None:
    loaded = read_model(model)
    text = '[target]\ncolumn = "y"\nclasses = ["low", "high"]\n[columns]\n'
    five = Schema.from_toml(text + "\n".join(f"x{k} = {{ low = 0, high = 1 }}" for k in range(5)))

    class Released:
        coef_ = loaded.coef
        intercept_ = loaded.intercept
        classes_ = loaded.classes
        certificate_ = loaded.certificate

    save_model(Released(), tmp_path / "m.sordino", five)
    run = sordino("verify", tmp_path / "m.sordino")
    assert run.code == 1
    assert "NO    the schema's rows are not within the bound the certificate speaks of." in run.text


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff\xfe", b"hello", b"PK\x03\x04 cut", b'{"format": 3}'])
def test_anything_else_is_not_verified(sordino: Any, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    run = sordino("verify", tmp_path / "x")
    assert run.code == 1
    assert f"NO    {tmp_path / 'x'}: " in run.errors
    assert "NOT VERIFIED: there is no intact certificate here" in run.errors


def test_weights_that_were_not_released(sordino: Any, model: Path, tmp_path: Path) -> None:
    """An honest certificate beside weights of the right shape from anywhere else."""
    loaded = read_model(model)

    class Plain:
        coef_ = loaded.coef + 1e-9
        intercept_ = loaded.intercept
        classes_ = loaded.classes
        certificate_ = loaded.certificate

    save_model(Plain(), tmp_path / "m.sordino", loaded.schema)
    run = sordino("verify", tmp_path / "m.sordino")
    assert run.code == 1
    assert "NO    the model is not the one that the certificate was issued for." in run.text


def test_without_a_signature_it_says_what_no_certificate_can_show(sordino: Any, model: Path) -> None:
    run = sordino("verify", model)
    assert "yes   the model is the one that the certificate was issued for." in run.text
    assert run.text.count("nobody has signed this one") == 1


def test_a_signed_model_names_its_signer(sordino: Any, model: Path, tmp_path: Path) -> None:
    me, other = tmp_path / "me", tmp_path / "other"
    made = sordino("identity", "The Hospital", "--folder", me)
    assert made.code == 0, made.errors
    fingerprint = made.text.split("Fingerprint: ")[1].split()[0]
    assert sordino("identity", "Somebody", "--folder", other).code == 0
    loaded = read_model(model)

    class Signed:
        coef_ = loaded.coef
        intercept_ = loaded.intercept
        classes_ = loaded.classes
        row_bound_ = loaded.row_bound
        certificate_ = loaded.certificate.sign(Identity.load(me))

    save_model(Signed(), tmp_path / "m.sordino", loaded.schema)
    run = sordino("verify", tmp_path / "m.sordino", "--signer", me / "certificate.pem")
    assert run.code == 0, run.text
    assert f"signed by The Hospital, whose certificate has the fingerprint {fingerprint}" in run.text
    assert "nobody has signed" not in run.text
    run = sordino("verify", tmp_path / "m.sordino", "--signer", other / "certificate.pem")
    assert run.code == 1
    assert "NO    Somebody is not who signed it." in run.text
    assert sordino("verify", model, "--signer", me / "certificate.pem").code == 1
    run = sordino("verify", model, "--signer", model)
    assert run.code == 2
    assert "not a certificate in PEM form" in run.errors
