"""One member's SPU, in an interpreter and environment of its own (Python below 3.12, NumPy 1.26).

Run as a script; it knows nothing of the rest of the library. Requests come on the standard input and answers leave on
the standard output, as an operation of one byte (an answer: K or E), a number of parts, and the parts with their
lengths. Nothing is pickled. SPU shares and adds in the ring of 2^64 with its SEMI2K protocol; noise is added before a
value gets here, never by SPU.

    S  start: rank, addresses of the SPUs' own connections, and PEM files (certificate, key, authority) or none
    H  shares of a vector of whole numbers, one part for each member
    A  the share of the sum, from the shares that this member got
    O  the opened vector, from everybody's shares of the sum
"""

from __future__ import annotations

import os
import struct
import sys
from typing import Any, BinaryIO

import numpy as np

_HEAD = struct.Struct("<cI")
_SIZE = struct.Struct("<Q")


def read_parts(source: BinaryIO) -> tuple[bytes, list[bytes]] | None:
    """One request or answer; None at the end of the stream."""
    head = source.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    kind, count = _HEAD.unpack(head)
    return kind, [source.read(_SIZE.unpack(source.read(_SIZE.size))[0]) for _ in range(count)]


def write_parts(target: BinaryIO, kind: bytes, parts: list[bytes]) -> None:
    target.write(_HEAD.pack(kind, len(parts)))
    for part in parts:
        target.write(_SIZE.pack(len(part)))
        target.write(part)
    target.flush()


class Worker:
    def __init__(self, rank: int, addresses: list[str], files: list[str]) -> None:
        import spu.libspu as spu
        from spu import api

        self._spu, self._api = spu, api
        self._members = len(addresses)
        description = spu.link.Desc()
        for number, address in enumerate(addresses):
            description.add_party(f"member {number}", address)
        if files:
            _secure(spu, description, files)
        config = spu.RuntimeConfig(protocol=spu.ProtocolKind.SEMI2K, field=spu.FieldType.FM64)
        self._io = api.Io(self._members, config)
        self._runtime = api.Runtime(spu.link.create_brpc(description, rank), config)
        self._programs: dict[int, Any] = {}

    def share(self, vector: bytes) -> list[bytes]:
        values = np.frombuffer(vector, dtype="<i8").astype(np.int64)
        return [_pack(share) for share in self._io.make_shares(values, self._spu.Visibility.VIS_SECRET)]

    def add(self, shares: list[bytes], size: int) -> bytes:
        for number, share in enumerate(shares):
            self._runtime.set_var(f"in{number}", self._unpack(share))
        self._runtime.run(self._program(size))
        return _pack(self._runtime.get_var("out"))

    def open(self, shares: list[bytes]) -> bytes:
        opened = self._io.reconstruct([self._unpack(share) for share in shares])
        return bytes(np.asarray(opened).astype("<i8").tobytes())

    def _program(self, size: int) -> Any:
        """The sum of as many vectors as there are members, compiled once for every length."""
        if size not in self._programs:
            kind, m = f"tensor<{size}xi64>", self._members
            lines, last = [], "%arg0"
            for number in range(1, m):
                lines.append(f"%s{number} = stablehlo.add {last}, %arg{number} : {kind}")
                last = f"%s{number}"
            arguments = ", ".join(f"%arg{number}: {kind}" for number in range(m))
            body = "\n".join(lines)
            text = f"module {{ func.func @main({arguments}) -> {kind} {{\n{body}\nreturn {last} : {kind} }} }}"
            source = self._spu.CompilationSource()
            source.ir_type, source.ir_txt = self._spu.SourceIRType.STABLEHLO, text.encode()
            source.input_visibility = [self._spu.Visibility.VIS_SECRET] * m
            program = self._spu.Executable()
            program.name, program.output_names = "sum", ["out"]
            program.input_names = [f"in{number}" for number in range(m)]
            program.code = self._api.compile(source, self._spu.CompilerOptions())
            self._programs[size] = program
        return self._programs[size]

    def _unpack(self, content: bytes) -> Any:
        (length,) = _SIZE.unpack_from(content)
        share = self._spu.Share()
        share.meta = content[_SIZE.size : _SIZE.size + length]
        share.share_chunks = [content[_SIZE.size + length :]]
        return share


def _pack(share: Any) -> bytes:
    return bytes(_SIZE.pack(len(share.meta)) + share.meta + b"".join(share.share_chunks))


def _secure(spu: Any, description: Any, files: list[str]) -> None:
    certificate, key, authority = files
    description.enable_ssl = True
    for options in (description.client_ssl_opts, description.server_ssl_opts):
        options.cert.certificate_path, options.cert.private_key_path = certificate, key
        options.verify.ca_file_path, options.verify.verify_depth = authority, 1


def serve(source: BinaryIO, target: BinaryIO) -> None:
    worker: Worker | None = None
    while (request := read_parts(source)) is not None:
        kind, parts = request
        try:
            if kind == b"S":
                rank, addresses, *files = (part.decode() for part in parts)
                worker = Worker(int(rank), addresses.split("\n"), files)
                answer: list[bytes] = []
            elif worker is None:
                raise RuntimeError("the worker was not started.")
            elif kind == b"H":
                answer = worker.share(parts[0])
            elif kind == b"A":
                size, *shares = parts
                answer = [worker.add(shares, int(size))]
            elif kind == b"O":
                answer = [worker.open(parts)]
            else:
                raise ValueError(f"unknown operation {kind!r}.")
        except Exception as error:
            write_parts(target, b"E", [f"{type(error).__name__}: {error}".encode()])
        else:
            write_parts(target, b"K", answer)


if __name__ == "__main__":
    # SPU logs to the standard output, so that is moved aside and given back to answers alone
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)
