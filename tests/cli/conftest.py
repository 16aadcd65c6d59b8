"""A small table with a known rule, its schema, and one model trained on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from sordino.cli.app import app

RECORDS = 1237

SCHEMA = """
[target]
column = "income"
classes = ["low", "high"]

[columns]
age = { low = 20, high = 80, missing = "middle" }
job = { values = ["clerk", "smith"], other = true }
member = { boolean = true }
"""


@dataclass(frozen=True)
class Run:
    """How a command ended. `text` is standard output, `errors` standard error."""

    code: int
    text: str
    errors: str


Sordino = Callable[..., Run]


@pytest.fixture(scope="session")
def sordino() -> Sordino:
    def run(*arguments: object) -> Run:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Run(result.exit_code, result.stdout, result.stderr)

    return run


def people(records: int = RECORDS) -> dict[str, list[object]]:
    """Income is high for members above fifty, more or less; price rises with age."""
    rng = np.random.default_rng(8)
    age = rng.uniform(20, 80, records)
    member = rng.random(records) < 0.5
    high = (age - 50) / 10 + np.where(member, 3, -3) + rng.logistic(size=records) > 0
    return {
        "id": list(range(90_000, 90_000 + records)),
        "age": [None if k % 100 == 0 else float(a) for k, a in enumerate(age)],
        "job": rng.choice(["clerk", "smith", "baker"], records).tolist(),
        "member": member.tolist(),
        "income": np.where(high, "high", "low").tolist(),
        "price": (1000 + 10 * age).tolist(),
        "grade": np.where(age < 40, 1, np.where(age < 60, 2, 3)).tolist(),
    }


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """people.csv, people.parquet and schema.toml, to be read only."""
    folder = tmp_path_factory.mktemp("people")
    table = pa.table(people())
    pa.csv.write_csv(table, folder / "people.csv")
    pa.parquet.write_table(table, folder / "people.parquet")
    (folder / "schema.toml").write_text(SCHEMA)
    return folder


@pytest.fixture(scope="session")
def model(folder: Path, sordino: Sordino) -> Path:
    """A model file with its certificate beside it, to be read only."""
    path = folder / "model.sordino"
    run = sordino(
        *("fit", folder / "people.parquet", "--schema", folder / "schema.toml", "--epsilon", 2, "--delta", 1e-5),
        *("--out", path, "--certificate", folder / "certificate.json"),
    )
    assert run.code == 0, run.errors
    return path
