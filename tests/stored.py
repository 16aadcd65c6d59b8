"""The same records in every form of file that can be read block by block."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

from sordino.files import Arrays, Table


def columns(X, y):
    return pa.table({**{f"x{j}": X[:, j] for j in range(X.shape[1])}, "y": y})


def lists(X, y):
    cells = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    return pa.table({"x": cells, "y": y})


def cut(table, parts):
    """Into `parts` tables of different lengths."""
    edges = (np.linspace(0, 1, parts + 1) ** 2 * table.num_rows).astype(int)
    return [table.slice(a, b - a) for a, b in pairwise(edges)]


def parquet(folder, X, y):
    pq.write_table(columns(X, y), folder / "t.parquet", row_group_size=301)
    return Table(folder / "t.parquet", "y")


def parquet_folder(folder, X, y):
    (folder / "more").mkdir()
    for number, part in enumerate(cut(columns(X, y), 3)):
        pq.write_table(part, folder / ("more" if number == 2 else ".") / f"{number}.pq", row_group_size=97)
    (folder / "_SUCCESS").touch()
    return Table(folder, "y")


def parquet_lists(folder, X, y):
    pq.write_table(lists(X, y), folder / "t.parquet", compression="zstd", row_group_size=450)
    return Table(folder / "t.parquet", "y", ["x"])


def arrow(folder, X, y):
    with pa.ipc.new_file(folder / "t.arrow", columns(X, y).schema) as file:
        file.write_table(columns(X, y), max_chunksize=300)
    return Table(folder / "t.arrow", "y", [f"x{j}" for j in range(X.shape[1])])


def arrow_folder(folder, X, y):
    for number, part in enumerate(cut(lists(X, y), 3)):
        pa.feather.write_feather(part, folder / f"{number}.feather", compression="lz4", chunksize=110)
    return Table(str(folder), "y")


def npy(folder, X, y):
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    return Arrays(folder / "X.npy", folder / "y.npy")


def npy_files(folder, X, y):
    names = []
    for number, (a, b) in enumerate([(0, 1), (1, 700), (700, len(X))]):
        names.append((folder / f"X{number}.npy", str(folder / f"y{number}.npy")))
        np.save(names[-1][0], X[a:b])
        np.save(names[-1][1], y[a:b])
    return Arrays([x for x, _ in names], [y for _, y in names])


FORMS = {form.__name__: form for form in (parquet, parquet_folder, parquet_lists, arrow, arrow_folder, npy, npy_files)}
