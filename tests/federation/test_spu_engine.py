"""SPU's process and the frames it speaks; `make spu` runs the same sums with SPU itself."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from passes import Authority, free_addresses
from sordino.federation import spu_worker
from sordino.federation.joint import JointSampler
from sordino.federation.mesh import Rehearsal, together
from sordino.federation.spu_engine import SpuAggregation

VALUES = np.array([[5, -7, 1 << 61], [-(1 << 61), 0, 1 << 60], [3, 3, -3]])


def sums(members, python, credentials=None):
    """Two sums in a row, of different lengths, by all members."""
    addresses = free_addresses(members)

    def member(mesh):
        aggregation = SpuAggregation(mesh, python, addresses, credentials and credentials[mesh.me])
        try:
            told = aggregation.tell([b"%d" % mesh.me])
            value = VALUES[mesh.me : mesh.me + 1]
            return told, aggregation.open_sum(value).tolist(), aggregation.open_sum(value[:, :2]).tolist()
        finally:
            aggregation.close()

    return together([lambda mesh=mesh: member(mesh) for mesh in Rehearsal(members).meshes()])


@pytest.fixture
def plain_spu(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "plain_spu"))
    return Path(sys.executable)


@pytest.mark.parametrize("members", [2, 3])
def test_sums_by_a_process_of_its_own(plain_spu, members):
    total = VALUES[:members].sum(axis=0).tolist()
    told = tuple(b"%d" % i for i in range(members))
    assert sums(members, plain_spu) == [(told, total, total[:2])] * members


def test_what_it_cannot_do_is_a_sentence(plain_spu):
    def member(mesh):
        aggregation = SpuAggregation(mesh, plain_spu, free_addresses(2))
        try:
            with pytest.raises(ValueError, match="random numbers are not used for noise"):
                aggregation.open_sum(VALUES[:1], JointSampler(1))
            with pytest.raises(RuntimeError, match="SPU could not do its part: ValueError: unknown operation"):
                aggregation._ask(b"X", [])
            aggregation._process.kill()
            aggregation._process.wait()
            with pytest.raises(ConnectionError, match="SPU's process ended"):
                aggregation._ask(b"H", [bytes(8)])
        finally:
            aggregation.close()

    together([lambda mesh=mesh: member(mesh) for mesh in Rehearsal(2).meshes()])


def test_an_interpreter_that_is_not_there_is_a_sentence(tmp_path):
    mesh = Rehearsal(2).meshes()[0]
    with pytest.raises(FileNotFoundError, match="build the environment of SPU with `make spu`"):
        SpuAggregation(mesh, tmp_path / "python", ["127.0.0.1:1", "127.0.0.1:2"])
    with pytest.raises(ValueError, match="1 addresses of SPUs for 2 members"):
        SpuAggregation(mesh, Path(sys.executable), ["127.0.0.1:1"])


def test_frames_come_back_as_they_were():
    stream = io.BytesIO()
    spu_worker.write_parts(stream, b"H", [b"", b"abc", bytes(1000)])
    stream.seek(0)
    assert spu_worker.read_parts(stream) == (b"H", [b"", b"abc", bytes(1000)])
    assert spu_worker.read_parts(stream) is None


@pytest.mark.spu
def test_sums_by_spu_itself(tmp_path):
    authority = Authority(tmp_path)
    credentials = [authority.credentials(i) for i in range(3)]
    total = VALUES.sum(axis=0).tolist()
    told = tuple(b"%d" % i for i in range(3))
    python = Path(os.environ["SORDINO_SPU"])
    assert sums(3, python, credentials) == [(told, total, total[:2])] * 3
