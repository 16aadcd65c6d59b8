"""Machine code on disk."""

from pathlib import Path

import numba
import pytest

from sordino.oracle.kernels import native
from sordino.oracle.torch import kernels
from sordino.privacy import noise_kernels, pieces, strips
from sordino.privacy.kept import kept, stamp_of


def twice(x):
    return 2 * x


def hits(stamp):
    kernel = kept(twice, stamp)
    assert kernel(1.5) == 3.0
    return sum(kernel.stats.cache_hits.values())


def test_it_is_used_while_its_stamp_is_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert [hits(stamp) for stamp in ("one", "one", "another", "another")] == [0, 1, 0, 1]


@pytest.mark.parametrize("source", [pieces, strips])
def test_noise_is_compiled_anew_when_what_it_is_made_of_changes(source, monkeypatch):
    """The loop over pieces and the table's bits are in other files than the loops that use them."""
    stamp = stamp_of([Path(pieces.__file__), Path(strips.__file__)])
    for kernel in (noise_kernels.place, noise_kernels.add_on_lattice):
        assert kernel._cache._cache_file._source_stamp[1] == stamp
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda file: read(file) + b"#" * (file == Path(source.__file__)))
    assert stamp_of([Path(pieces.__file__), Path(strips.__file__)]) != stamp


def test_loops_of_networks_carry_the_stamp_of_the_loop_over_pieces():
    sources = [*(file for folder in native._FOLDERS for file in sorted(folder.glob("*.py"))), Path(pieces.__file__)]
    for kernel in (kernels.add_on_grid, kernels.clip_factors):
        assert kernel._cache._cache_file._source_stamp[1] == stamp_of(sources)
