"""One owner of the run of `ddp_004` in ten processes: `python -m sordino.papers.ddp_member me setting`, as JSON."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path

from sordino.federation.agreement import agree
from sordino.federation.credentials import Credentials
from sordino.federation.mpyc_engine import MpycAggregation
from sordino.federation.secure_oracle import SecureOracle
from sordino.federation.tls import TlsMesh
from sordino.papers.ddp_004 import holder, load, plan_for
from sordino.train import train


def main() -> None:
    me, setting = int(sys.argv[1]), json.loads(sys.argv[2])
    task = load(Path(setting["data"]), "a9a")
    plan = plan_for(task, setting["epsilon"], setting["colluders"])
    steps = plan.planned.steps
    folder = Path(setting["folder"])
    credentials = Credentials(folder / f"{me}.crt", folder / f"{me}.key", folder / "authority.crt")
    aggregation = MpycAggregation.among(plan.trust, TlsMesh(me, setting["addresses"], credentials, 120, 300))
    agreement = agree(plan, aggregation)
    aggregation.tell([b"ready"])
    begun = time.perf_counter()
    oracle = SecureOracle(agreement, [holder(plan, task, me, 0)])
    randomness = oracle.common_randomness()
    trained = train(plan.problem, plan.budget, plan.method, oracle, randomness, plan.rows, assumed=plan.assumed)
    said = {
        "seconds": time.perf_counter() - begun,
        "weights": hashlib.sha256(trained.weights.tobytes()).hexdigest(),
        "test loss": task.test_loss(trained.weights),
        "sums": steps,
        "bytes": aggregation.traffic.sent,
        "certified": trained.certificate.epsilon,
        "assumed": list(trained.certificate.assumed),
    }
    print(json.dumps(said, allow_nan=False))
    aggregation.close()


if __name__ == "__main__":
    main()
