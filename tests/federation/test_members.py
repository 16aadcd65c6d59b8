"""Members in processes of their own, with certificates, on this machine."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import owners
from passes import Authority, free_addresses

TESTS = Path(__file__).parents[1]


def run(tmp_path, mode):
    members = owners.plan_for(3, mode=mode).trust.members
    authority = Authority(tmp_path)
    for member in range(members):
        authority.credentials(member)
    addresses = ",".join(free_addresses(members))
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"}
    script = str(TESTS / "member_process.py")
    processes = [
        subprocess.Popen(
            [sys.executable, script, str(me), addresses, str(tmp_path), mode],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for me in range(members)
    ]
    finished = [process.communicate(timeout=240) for process in processes]
    assert [process.returncode for process in processes] == [0] * members, [errors for _, errors in finished]
    return {said.strip().splitlines()[-1] for said, _ in finished}


def alone(mode):
    """The same run in one process, added up in the open."""
    plan = owners.plan_for(3, mode=mode)
    oracle = owners.in_the_open(plan, *owners.data(), seed=4)
    weights = plan.method.run(plan.planned, plan.problem, oracle, oracle.common_randomness()).weights
    return hashlib.sha256(weights.tobytes()).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["distributed", "committee"])
def test_processes_end_up_with_the_weights_of_one_process_bit_for_bit(tmp_path, mode):
    assert run(tmp_path, mode) == {alone(mode)}


@pytest.mark.slow
def test_processes_draw_joint_noise(tmp_path):
    found = run(tmp_path, "joint")
    assert len(found) == 1
    assert found != {alone("joint")}
