"""Three owners on this machine, each a process of its own with its folder, its key and its table."""

from __future__ import annotations

import csv
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rehearsal import together
from sordino.budget import Relation
from sordino.federation import member_folder
from sordino.federation.member_folder import MemberFolder
from sordino.federation.proposal import propose, read_members
from sordino.federation.record import journal_of, read_record
from sordino.federation.runner import Waiting, run
from sordino.identity import CERTIFICATE, Identity
from sordino.methods import NoisySGD
from sordino.tabular.schema import Schema

NAMES = ("north", "south", "east")
RECORDS = (60, 40, 50)
SCHEMA = """
[target]
column = "income"
classes = ["low", "high"]

[columns]
age = { low = 20, high = 80 }
member = { boolean = true }
"""


QUICK = Waiting(120.0, 90.0)
"""Longer than a busy machine needs: tests that wait for a time-out name their own."""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def write_table(path, records, seed, first=0):
    generator = np.random.default_rng(seed)
    age, member = generator.uniform(20, 80, records), generator.random(records) < 0.5
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "age", "member", "income"])
        for i in range(records):
            high = (age[i] - 50) / 10 + (3 if member[i] else -3) > 0
            writer.writerow([first + i, round(age[i], 1), member[i], "high" if high else "low"])


def write_members(folder, names=NAMES, records=RECORDS, ports=None, certificates=None):
    """The list of members, its certificates named relative to it."""
    ports = free_ports(len(names)) if ports is None else ports
    lines = []
    for i, (name, port) in enumerate(zip(names, ports, strict=True)):
        count = records[i] if i < len(records) else None
        lines += ["[[owner]]" if count is not None else "[[server]]", f'name = "{name}"']
        lines += [
            f'address = "127.0.0.1:{port}"',
            f'certificate = "{certificates[i] if certificates else name}/{CERTIFICATE}"',
        ]
        lines += [] if count is None else [f"records = {count}"]
    path = folder / "members.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


class Crash(BaseException):
    """As if the process had been killed: nothing handles it, and the member writes nothing more."""


@dataclass
class Federation:
    """Folders of all members under one folder, and the processes that were started in them."""

    folder: Path
    names: tuple[str, ...] = NAMES
    owners: int = 3
    running: dict[str, subprocess.Popen] = field(default_factory=dict)

    def home(self, name):
        return self.folder / name

    def start(self, name, *options, seed=True, patience=20, wait=30, watch=""):
        """`sordino federation run` of one member; `watch` is a program text to run before it."""
        number = self.names.index(name)
        data = [str(self.home(name) / "records.csv")] if number < self.owners else []
        seeded = ["--seed", str(100 + number)] if seed else []
        out = ["--out", str(self.home(name) / "model"), "--certificate", str(self.home(name) / "certificate.json")]
        arguments = [*data, "--folder", str(self.home(name)), *seeded, *out]
        arguments += ["--wait", str(wait), "--patience", str(patience), *map(str, options)]
        program = f"{watch}\nfrom sordino.cli import main\nmain()"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "COLUMNS": "200"}
        self.running[name] = subprocess.Popen(
            [sys.executable, "-c", program, "federation", "run", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        return self.running[name]

    def start_all(self, **settings):
        for name in self.names:
            self.start(name, **settings)

    def end(self, name, within=60):
        """How a member ended: its code, what it said, and what it complained of."""
        process = self.running.pop(name)
        out, errors = process.communicate(timeout=within)
        return process.returncode, out, errors

    def end_all(self, within=60):
        return {name: self.end(name, within) for name in list(self.running)}

    def stop(self):
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.communicate()
        self.running.clear()

    def take_part(self, *names, seeds=True, waiting=QUICK, **settings):
        """Members in threads of this process: what each trained, or the error it ended with."""

        def member(name):
            number = self.names.index(name)
            data = self.home(name) / "records.csv" if number < self.owners else None
            try:
                seed = 100 + number if seeds else None
                return run(MemberFolder.load(self.home(name)), data, waiting, seed, **settings)
            except Exception as error:
                return error
            except Crash as crash:
                return crash

        names = names or self.names
        return dict(zip(names, together([lambda name=name: member(name) for name in names]), strict=True))

    def member_folder(self, name):
        return MemberFolder.load(self.home(name))

    def summary(self, name):
        """The member's record, every signature checked."""
        taken = self.member_folder(name)
        digest = taken.signed_plan.digest
        return read_record(journal_of(self.home(name), digest).glance(), taken.identity.face, digest)

    def wait_for(self, name, steps, within=40):
        """Until a member has recorded so many sums."""
        deadline = time.monotonic() + within
        while len(self.summary(name).sums) < steps:
            assert time.monotonic() < deadline, f"{name} did not come to step {steps}"
            assert self.running[name].poll() is None, self.running[name].communicate()
            time.sleep(0.01)


def found(folder, method=None, names=NAMES, records=RECORDS, **settings):
    """Identities, tables, a plan and everybody's acceptance."""
    method = NoisySGD(steps=6, batch_size=30, step_size=1.0, release="last") if method is None else method
    author = None
    for i, name in enumerate(names):
        made = Identity.create(folder / name, name, i + 1)
        author = author or made
        if i < len(records):
            write_table(folder / name / "records.csv", records[i], seed=i, first=1000 * i)
    schema = settings.pop("schema", SCHEMA)
    signed_plan = propose(
        read_members(write_members(folder, names, records)),
        Schema.from_toml(schema),
        (2.0, 1e-5, Relation.REPLACE_ONE),
        method,
        **settings,
    ).signed_by(author)
    signed_plan.save(folder / "plan.json")
    for name in names:
        member_folder.accept(signed_plan, folder / name)
    return Federation(folder, tuple(names), len(records))
