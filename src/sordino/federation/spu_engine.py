"""A secure sum by SPU (Ma et al. 2023), which runs in a process and environment of its own (`make spu`).

Every member's SPU shares its vector in the ring of 2^64 and adds the shares it got; shares travel over our links, so
whoever is at the other end has shown its certificate. SEMI2K hides the parts from all other members together.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sordino.federation import spu_worker
from sordino.federation.credentials import Credentials
from sordino.federation.joint import JointSampler
from sordino.federation.mesh import Mesh, Traffic

Whole = NDArray[np.int64]


class SpuAggregation:
    """One member's end. `python` is the interpreter that has SPU; `addresses` are host:port of the SPUs' own links."""

    limit = 1 << 62

    def __init__(
        self, mesh: Mesh, python: Path, addresses: Sequence[str], credentials: Credentials | None = None
    ) -> None:
        if len(addresses) != mesh.members:
            raise ValueError(f"{len(addresses)} addresses of SPUs for {mesh.members} members.")
        if not Path(python).is_file():
            raise FileNotFoundError(f"{python} is not there: build the environment of SPU with `make spu`.")
        self._mesh = mesh
        self.members = mesh.members
        self.local = (mesh.me,)
        self.holders = tuple(range(mesh.members))
        self.tolerates = mesh.members - 1
        self._process = subprocess.Popen(
            [str(python), "-u", spu_worker.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        files = [] if credentials is None else [credentials.certificate, credentials.key, credentials.authority]
        self._ask(b"S", [str(mesh.me).encode(), "\n".join(addresses).encode(), *(str(f).encode() for f in files)])

    @property
    def traffic(self) -> Traffic:
        return self._mesh.traffic

    def tell(self, messages: Sequence[bytes]) -> tuple[bytes, ...]:
        (message,) = messages
        return self._everybody(message)

    def open_sum(self, values: Whole, joint: JointSampler | None = None) -> Whole:
        if joint is not None:
            raise ValueError("joint noise is drawn by MpycAggregation: SPU's random numbers are not used for noise.")
        (value,) = np.asarray(values, dtype=np.int64)
        shares = self._ask(b"H", [value.astype("<i8").tobytes()])
        mine = shares[self._mesh.me]
        others = [i for i in range(self.members) if i != self._mesh.me]
        heard = self._mesh.exchange({i: shares[i] for i in others}, others)
        held = [mine if i == self._mesh.me else heard[i] for i in range(self.members)]
        (total,) = self._ask(b"A", [str(value.size).encode(), *held])
        (opened,) = self._ask(b"O", list(self._everybody(total)))
        return np.frombuffer(opened, dtype="<i8").astype(np.int64).reshape(value.shape)

    def close(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._mesh.close()

    def _everybody(self, message: bytes) -> tuple[bytes, ...]:
        others = [i for i in range(self.members) if i != self._mesh.me]
        heard = self._mesh.exchange(dict.fromkeys(others, message), others)
        return tuple(message if i == self._mesh.me else heard[i] for i in range(self.members))

    def _ask(self, kind: bytes, parts: list[bytes]) -> list[bytes]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            spu_worker.write_parts(self._process.stdin, kind, parts)  # type: ignore[arg-type]
            answer = spu_worker.read_parts(self._process.stdout)  # type: ignore[arg-type]
        except OSError:
            answer = None
        if answer is None:
            raise ConnectionError("SPU's process ended: run it by itself to see why (its log is not shown here).")
        verdict, content = answer
        if verdict != b"K":
            raise RuntimeError(f"SPU could not do its part: {content[0].decode()}")
        return content
