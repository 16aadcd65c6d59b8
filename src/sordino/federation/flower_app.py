"""A federation started, watched and stopped by Flower: messages hand out the plan and collect the model.

Flower carries four kinds of messages, each handled within seconds; the steps themselves go directly between the
parties, over their own connections and under their own keys.

    train.start     the plan; a node starts its party if its owner has accepted that very plan
    query.status    how far the party has come, from its record
    query.collect   the model file, once it is there
    train.stop      end the party; its record stays, and the next start goes on from it

A node is configured by its owner: `folder` is the member's folder, `data` its table. Nothing that Flower's server sends
makes a node follow a plan, read a table or write a file that its owner did not name.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from sordino import outputs
from sordino.federation.member_folder import MemberFolder
from sordino.federation.record import LOCK, is_locked
from sordino.federation.signed_plan import PLAN, SignedPlan
from sordino.federation.status import status_of
from sordino.model_file import MODEL as MODEL_FILE

MODEL, LOG, PROCESS, PROPOSED = "model.sordino", "run.log", "run.pid", "proposed.json"
_BODY = "sordino"

client = ClientApp()
server = ServerApp()


def start(message: Message, context: Context) -> Message:
    """Start this node's party in a process of its own, which outlives the message."""
    folder = _folder(context)
    text = str(message.content[_BODY]["plan"])
    signed_plan = SignedPlan.from_json(text)
    refusal = _refusal(folder, signed_plan)
    if refusal:
        outputs.write(folder / PROPOSED, text.encode(), PLAN)
        return _reply(message, {"state": "refused", "why": refusal})
    if not _is_running(folder):
        data = str(context.node_config.get("data", ""))
        arguments = [*([data] if data else []), "--folder", str(folder), "--out", str(folder / MODEL)]
        with (folder / LOG).open("ab") as log, (folder / PROCESS).open("w") as process:
            # the party inherits the lock and holds it for as long as it lives
            fcntl.flock(process, fcntl.LOCK_EX | fcntl.LOCK_NB)
            party = subprocess.Popen(
                [sys.executable, "-m", "sordino", "federation", "run", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(process.fileno(),),
            )
            process.write(str(party.pid))
    return _reply(message, {"state": "started", "why": ""})


def status(message: Message, context: Context) -> Message:
    folder = _folder(context)
    found = status_of(MemberFolder.load(folder))
    running = _is_running(folder)
    state = "running" if running else "finished" if found.finished and (folder / MODEL).is_file() else "stopped"
    why = "" if state != "stopped" else found.summary.stopped or f"see {LOG} in the member's folder"
    told = {"state": state, "why": why, "opened": found.opened, "planned": found.planned, "epsilon": found.epsilon}
    return _reply(message, told)


def collect(message: Message, context: Context) -> Message:
    path = _folder(context) / MODEL
    return _reply(message, {"model": path.read_bytes() if path.is_file() else b""})


def stop(message: Message, context: Context) -> Message:
    folder = _folder(context)
    if is_locked(folder / PROCESS):
        os.kill(int((folder / PROCESS).read_text()), signal.SIGTERM)
    return _reply(message, {"state": "stopped"})


client.train("start")(start)
client.query("status")(status)
client.query("collect")(collect)
client.train("stop")(stop)


def main(grid: Grid, context: Context) -> None:
    """Start all parties, wait for them, and write every member's model file into `out`.

    Settings of the run: `plan` (its file), `out` (a folder), `patience` and `interval` in seconds.
    """
    settings = context.run_config
    signed_plan = SignedPlan.load(str(settings["plan"]))
    out = Path(str(settings["out"]))
    deadline = time.monotonic() + float(settings["patience"])
    nodes = _nodes(grid, len(signed_plan.members), deadline)
    try:
        _require(_ask(grid, nodes, "train.start", {"plan": Path(str(settings["plan"])).read_text()}), "refused")
        while True:
            told = _ask(grid, nodes, "query.status", {})
            _require(told, "stopped")
            print(", ".join(f"{one['opened']} of {one['planned']}" for one in told), flush=True)
            if all(one["state"] == "finished" for one in told):
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"the parties did not finish within {settings['patience']} seconds.")
            time.sleep(float(settings["interval"]))
    except (RuntimeError, TimeoutError):
        _ask(grid, nodes, "train.stop", {})
        raise
    for number, one in enumerate(_ask(grid, nodes, "query.collect", {})):
        outputs.write(out / f"model-{number + 1}.sordino", one["model"], MODEL_FILE)
    print(f"{len(nodes)} models are in {out}; sordino verify checks them.", flush=True)


server.main()(main)


def _nodes(grid: Grid, count: int, deadline: float) -> list[int]:
    while len(nodes := sorted(grid.get_node_ids())) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(nodes)} of {count} nodes are connected: start a SuperNode for every member.")
        time.sleep(1.0)
    return nodes


def _ask(grid: Grid, nodes: list[int], kind: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Everybody's answer to the same message."""
    messages = [Message(RecordDict({_BODY: ConfigRecord(body)}), dst_node_id=node, message_type=kind) for node in nodes]
    replies = list(grid.send_and_receive(messages, timeout=120))
    if len(replies) < len(nodes):
        raise TimeoutError(f"{len(nodes) - len(replies)} nodes did not answer {kind} within two minutes.")
    for reply in replies:
        if reply.has_error():
            raise RuntimeError(f"node {reply.metadata.src_node_id} could not handle {kind}: {reply.error.reason}")
    return [dict(reply.content[_BODY]) for reply in sorted(replies, key=lambda reply: reply.metadata.src_node_id)]


def _require(told: list[dict[str, Any]], bad: str) -> None:
    reasons = [str(one["why"]) for one in told if one["state"] == bad]
    if reasons:
        raise RuntimeError(f"not every party runs: {'; '.join(reasons)}")


def _reply(message: Message, body: dict[str, Any]) -> Message:
    return Message(RecordDict({_BODY: ConfigRecord(body)}), reply_to=message)


def _folder(context: Context) -> Path:
    folder = context.node_config.get("folder")
    if not folder:
        raise ValueError("this node does not name its member's folder: give --node-config 'folder=\"..\"'.")
    return Path(str(folder))


def _refusal(folder: Path, signed_plan: SignedPlan) -> str:
    try:
        member_folder = MemberFolder.load(folder)
    except (OSError, ValueError) as error:
        return f"{error} The plan is in {PROPOSED} there."
    if member_folder.signed_plan.digest != signed_plan.digest:
        return (
            f"{member_folder.name} accepted the plan {member_folder.signed_plan.digest[:16]}, and was sent "
            f"{signed_plan.digest[:16]}; it is in {PROPOSED} of its folder, to be joined with sordino federation join."
        )
    return ""


def _is_running(folder: Path) -> bool:
    """Whether there is a party, started by a message or by hand."""
    return is_locked(folder / PROCESS) or is_locked(folder / LOCK)
