"""A release small enough for many, in threads and processes: it costs all of `CAP`, so that only one fits."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from sordino.budget import Budget
from sordino.privacy.charges import BudgetExceeded
from sordino.privacy.events import Event, GaussianDP
from sordino.privacy.gaussian_profile import gdp_mu
from sordino.release import release

CAP = Budget(1.0, 1e-6)
WHOLE = GaussianDP(gdp_mu(CAP.epsilon, CAP.delta))


class Records:
    def total(self) -> float:
        return 1.0


@dataclass(frozen=True)
class Released:
    value: float
    event: Event = WHOLE


def run(records: Records) -> Released:
    return Released(records.total())


def attempt(number: int = 0) -> tuple[str, int]:
    """What became of one release, and in which process."""
    try:
        release(WHOLE, CAP, f"release {number}", Records(), run)
    except BudgetExceeded:
        return "refused", os.getpid()
    except RuntimeError as error:
        return str(error), os.getpid()
    return "released", os.getpid()


if __name__ == "__main__":
    for line in sys.stdin:
        print(attempt(int(line))[0], flush=True)
