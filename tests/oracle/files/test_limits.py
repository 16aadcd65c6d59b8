"""Training on files several times larger than the memory there is for it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

RECORDS, FEATURES = 900_000, 100

CODE = """
import resource, sys, warnings
import numpy as np
from sordino import NoisyGradientDescent, NoisySGD, PrivateLogisticRegression
from sordino.files import Arrays, Table

warnings.simplefilter("ignore")
form, method = sys.argv[1:]

def source(few):
    if form == "parquet":
        return Table("few.parquet" if few else "many", "y")
    return Arrays("few.npy" if few else "X.npy", "few_y.npy" if few else "y.npy")

methods = {"descent": NoisyGradientDescent(2), "batches": NoisySGD(3, 800)}
model = PrivateLogisticRegression(row_norm=12.0, classes=[-1, 1], method=methods[method])
# whatever is loaded and compiled once is not what this is about
model.fit(source(few=True))

taken = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) * 1024
limit = taken + 160 * 2**20
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
try:
    np.ones((900_000, 100), dtype=np.float32)
except MemoryError:
    model.fit(source(few=False))
    print(model.certificate_.problem.records)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Each form holds 360 MB."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((RECORDS, FEATURES), dtype=np.float32)
    y = np.where(X[:, 0] > 0, 1, -1)
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    np.save(folder / "few.npy", X[:1000])
    np.save(folder / "few_y.npy", y[:1000])
    table = pa.table({**{f"x{j}": X[:, j] for j in range(FEATURES)}, "y": y})
    (folder / "many").mkdir()
    # a row group of 120 MB, and ones of ordinary size
    pq.write_table(table.slice(0, 300_000), folder / "many" / "1.parquet", row_group_size=300_000)
    pq.write_table(table.slice(300_000), folder / "many" / "2.parquet", row_group_size=50_000)
    pq.write_table(table.slice(0, 1000), folder / "few.parquet")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("method", ["descent", "batches"])
@pytest.mark.parametrize("form", ["parquet", "arrays"])
def test_a_tight_limit_on_memory(folder, form, method):
    run = subprocess.run(
        [sys.executable, "-c", CODE, form, method], cwd=folder, capture_output=True, text=True, check=False
    )
    assert run.stdout == f"{RECORDS}\n", run.stderr
