"""Members in threads of one process, with every message kept, so that one can look at what a coalition saw."""

from __future__ import annotations

import queue
import sys
import threading
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sordino.federation.mesh import MemberLost, Refused, Traffic
from sordino.identity import Face, Identity, _self_signed


@dataclass(frozen=True)
class Message:
    """One message of a rehearsal, as it passed between two members."""

    round: int
    sender: int
    receiver: int
    content: bytes


@dataclass
class Rehearsal:
    members: int
    patience: float = 60.0
    transcript: list[Message] = field(default_factory=list)
    # what a member leaves for its own cheating mesh, by its number: one dictionary that threads only add to
    notes: dict[int, object] = field(default_factory=dict)

    def __post_init__(self):
        keys = [Ed25519PrivateKey.generate() for _ in range(self.members)]
        self.identities = [Identity(None, key, Face(_self_signed(key, f"{i}", i, 1))) for i, key in enumerate(keys)]
        self.boxes = {(i, j): queue.Queue() for i in range(self.members) for j in range(self.members)}

    def meshes(self):
        return [ThreadMesh(self, me) for me in range(self.members)]

    def seen_by(self, coalition):
        """Every message that one of the coalition received from somebody outside it."""
        return [m for m in self.transcript if m.receiver in coalition and m.sender not in coalition]


class ThreadMesh:
    """One member of a rehearsal. A subclass may send something else than it is asked to."""

    def __init__(self, rehearsal, me):
        self.rehearsal, self.me, self.members = rehearsal, me, rehearsal.members
        self.traffic = Traffic()

    def send(self, receiver, content):
        number = self.traffic.rounds
        self.rehearsal.transcript.append(Message(number, self.me, receiver, content))
        self.rehearsal.boxes[self.me, receiver].put((number, content))

    def exchange(self, outgoing, senders, largest):
        for receiver, content in outgoing.items():
            self.send(receiver, content)
        number = self.traffic.rounds
        self.traffic.count(outgoing)
        heard = {}
        for sender in senders:
            try:
                told, content = self.rehearsal.boxes[sender, self.me].get(timeout=self.rehearsal.patience)
            except queue.Empty:
                lost = MemberLost(f"no answer from member {sender} within {self.rehearsal.patience:g} seconds.")
                lost.heard = heard
                raise lost from None
            if told != number or len(content) > largest:
                raise Refused(f"member {sender} sent something else than what was agreed.")
            heard[sender] = content
        return heard

    def sign(self, purpose, content):
        return bytes.fromhex(self.rehearsal.identities[self.me].sign(purpose, content))

    def signed(self, member, purpose, content, signature):
        return self.rehearsal.identities[member].face.signed(purpose, content, signature.hex())

    def close(self):
        pass


def together(tasks):
    """The results of all tasks, run at the same time in threads; the first error instead, if there was one."""
    results, errors = {}, []

    def work(number):
        try:
            results[number] = tasks[number]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(tasks))]
    # a member draws random bits number by number, and every draw lets go of the interpreter: it must come back soon
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual)
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(tasks))]
