from __future__ import annotations

import os

import numpy as np

from spu import libspu

print("a log on the standard output must not get among the answers")


def _share(values):
    return libspu.Share(meta=b"i64 %d" % values.size, share_chunks=[values.astype("<u8").tobytes()])


def _values(share):
    values = np.frombuffer(b"".join(share.share_chunks), dtype="<u8")
    assert share.meta == b"i64 %d" % values.size
    return values


def compile(source, options):
    return source.ir_txt


class Io:
    def __init__(self, world_size, config):
        self.world_size = world_size

    def make_shares(self, x, visibility):
        raw = os.urandom(8 * x.size * (self.world_size - 1))
        random = np.frombuffer(raw, dtype="<u8").reshape(-1, x.size)
        last = x.astype(np.int64).view(np.uint64) - random.sum(axis=0, dtype=np.uint64)
        return [_share(row) for row in (*random, last)]

    def reconstruct(self, shares):
        return np.sum([_values(share) for share in shares], axis=0, dtype=np.uint64).view(np.int64)


class Runtime:
    def __init__(self, link, config):
        self.variables = {}

    def set_var(self, name, share):
        self.variables[name] = share

    def get_var(self, name):
        return self.variables[name]

    def run(self, program):
        inputs = [_values(self.variables[name]) for name in program.input_names]
        assert f"tensor<{inputs[0].size}xi64>".encode() in program.code
        assert program.code.count(b"stablehlo.add") == len(inputs) - 1
        self.variables["out"] = _share(np.sum(inputs, axis=0, dtype=np.uint64))
