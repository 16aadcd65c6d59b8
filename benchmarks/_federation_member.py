"""One member of a measured federation: `python _federation_member.py me setting`, the setting as JSON.

Connects with a certificate of its own, takes part in every sum, and prints what it measured.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from sordino.federation.credentials import Credentials
from sordino.federation.mpyc_engine import MpycAggregation
from sordino.federation.tls import TlsMesh
from sordino.federation.trust import Trust
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness


def connect(me: int, setting: dict[str, Any], trust: Trust) -> Any:
    folder = Path(setting["folder"])
    credentials = Credentials(folder / f"{me}.crt", folder / f"{me}.key", folder / "authority.crt")
    return MpycAggregation.among(trust, TlsMesh(me, setting["addresses"], credentials))


def measure(aggregation: Any, trust: Trust, dim: int, rounds: int) -> dict[str, float]:
    """One release: draw this member's share of the noise, add up, open. The first is for the compiler."""
    noise = trust.realise(GaussianNoise.at(1.0, 2.0, dim))
    me = aggregation.local[0]
    value = np.random.default_rng(me).integers(-(1 << 40), 1 << 40, size=dim)
    randomness = Randomness.system()
    times, busy = [], []
    for number in range(rounds + 1):
        # everybody starts at the same time
        aggregation.tell([b""])
        sent, taken = aggregation.traffic.sent, aggregation.traffic.rounds
        start, worked = time.perf_counter(), time.process_time()
        part = value + noise.begin().next(value.shape, randomness) if me in trust.makers else value
        aggregation.open_sum(part[None], noise.joint)
        if number:
            times.append(time.perf_counter() - start)
            busy.append(time.process_time() - worked)
    traffic = aggregation.traffic
    return {
        "seconds": statistics.median(times), "CPU seconds": min(busy), "bytes": traffic.sent - sent,
        "rounds": traffic.rounds - taken,
    }  # fmt: skip


def main() -> None:
    me, setting = int(sys.argv[1]), json.loads(sys.argv[2])
    trust = Trust(setting["owners"], setting["mode"], setting["colluders"])
    aggregation = connect(me, setting, trust)
    found = [measure(aggregation, trust, dim, rounds) for dim, rounds in setting["cases"]]
    print(json.dumps(found))
    aggregation.close()


if __name__ == "__main__":
    main()
