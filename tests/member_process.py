"""One member of a federation in a process of its own: `python member_process.py me addresses folder mode`.

Prints the digest of the weights it ends up with.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import owners
from sordino.federation.agreement import agree
from sordino.federation.credentials import Credentials
from sordino.federation.mpyc_engine import MpycAggregation
from sordino.federation.tls import TlsMesh


def main(me, addresses, folder, mode):
    plan = owners.plan_for(3, mode=mode)
    files = (Path(folder) / name for name in (f"authority {me}.crt", f"authority {me}.key", "authority.crt"))
    mesh = TlsMesh(me, addresses.split(","), Credentials(*files))
    aggregation = MpycAggregation.among(plan.trust, mesh)
    X, y = owners.data()
    trained = owners.take_part(agree(plan, aggregation), lambda: owners.party(plan, me, X, y, seed=4))
    print(hashlib.sha256(trained.weights.tobytes()).hexdigest())
    aggregation.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
