"""Every reader of files and messages that a stranger may have written, with intact ones to begin from.

Checksums, digests and signatures are made anew after a change, so that it reaches what is behind them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz import mutations
from sordino import archive, wire


@dataclass(frozen=True)
class Reader:
    """`case` makes one hostile content and says what was done to it; `read` reads it."""

    case: Callable[[Random], tuple[Any, str]]
    read: Callable[[Any], object]


def readers(folder: Path) -> dict[str, Callable[[], Reader]]:
    """By name, made when they are asked for: each may write to `folder`."""
    files = (certificate, model, schema, evaluation, ledger, journal, checkpoint)
    made = (*files, plan, signed_plan, record, frame, unopened)
    return {one.__name__: lambda one=one: one(_fresh(folder / one.__name__)) for one in made}  # type: ignore[misc]


def certificate(folder: Path) -> Reader:
    from sordino.certificate import Certificate, verify

    bases = [json.loads(_fitted(method).certificate_.to_json()) for method in _methods()]

    def case(random: Random) -> tuple[str, str]:
        text, what = mutations.altered_json(random.choice(bases), random)
        return _sealed(text), what

    return Reader(case, lambda text: verify(Certificate.from_json(text)))


def model(folder: Path) -> Reader:
    from sordino.model_file import read_model, save_model

    save_model(_fitted(_methods()[0]), folder / "m", _schema())
    intact = (folder / "m").read_bytes()
    members = archive.unpack(intact, lambda names: True)
    body = json.loads(members["model.json"])

    def case(random: Random) -> tuple[bytes, str]:
        some = dict(members)
        match random.randrange(6):
            case 0:
                return mutations.altered_bytes(intact, random)
            case 1:
                return mutations.archives(members, random)
            case 2:
                name = random.choice([name for name in members if name != "model.json"])
                some[name], what = mutations.altered_bytes(members[name], random)
                return packed(some, json.dumps(body)), f"{name}: {what}"
            case 3:
                some["coef.npy"], what = mutations.npy(random)
                return packed(some, json.dumps(body)), what
            case 4:
                text, what = mutations.altered_json(json.loads(members["certificate.json"]), random)
                some["certificate.json"] = _sealed(text).encode("utf-8", "surrogatepass")
                return packed(some, json.dumps(body)), f"certificate: {what}"
        text, what = mutations.altered_json(body, random)
        return packed(some, text), what

    def read(content: bytes) -> object:
        (folder / "f").write_bytes(content)
        return read_model(folder / "f").certificate

    return Reader(case, read)


def schema(folder: Path) -> Reader:
    from sordino.tabular import Schema

    intact = {
        "ignore": ["id"],
        "target": {"column": "y", "classes": ["no", "yes"]},
        "columns": {
            "age": {"low": 18, "high": 100, "missing": "middle"},
            "ward": {"values": ["surgery", "medicine"], "other": True},
            "m": {"boolean": True},
        },
        "sources": {"age": "the code book", "y": "a law"},
    }
    many = ", ".join(f'"v{k}"' for k in range(20_000))
    whole = (
        "[" * 3000,
        "a = " + "[" * 5000 + "]" * 5000,
        "a" + ".a" * 5000 + " = 1",
        "x = 1\n" * 2,
        "x = " + "9" * 5000,
        mutations.toml(intact).replace("18", "0x" + "f" * 5000),
        mutations.toml(intact).replace('"m"', '"' + "m" * 5000 + '"'),
        f'[target]\ncolumn = "y"\nclasses = [{many}]\n[columns]\na = {{ low = 0, high = 1 }}\n',
        '[target]\ncolumn = "y"\nlow = 0\nhigh = 1\n[columns]\n'
        + "".join(f"c{k} = {{ boolean = true }}\n" for k in range(3000)),
    )

    def case(random: Random) -> tuple[str, str]:
        match random.randrange(10):
            case 0:
                text = random.choice(whole)
                return text, f"{text:.40}"
            case 1 | 2:
                changed, what = mutations.altered_bytes(mutations.toml(intact).encode(), random)
                return changed.decode("latin-1"), what
        changed, what = mutations.altered(intact, random)
        return mutations.toml(changed if isinstance(changed, dict) else {"target": changed}), what

    def read(text: str) -> object:
        found = Schema.from_toml(text)
        again = Schema.from_toml(found.to_toml())
        assert again == found
        return found.row_norm, found.width, found.feature_names

    return Reader(case, read)


def evaluation(folder: Path) -> Reader:
    from sordino.evaluation_file import verify_evaluation
    from sordino.reporting import Evaluation, Measure
    from sordino.reporting.quality import quality_section

    measures = (Measure("right", 0.7, 0.6, 0.8, 0.95, "Wilson"), Measure("error", 2.5))
    public = json.loads(Evaluation("ab" * 32, "public ones", measures, ("once",)).to_json())
    private = json.loads(_private_evaluation())

    def case(random: Random) -> tuple[str, str]:
        if random.randrange(2):
            return mutations.altered_json(random.choice((public, private)), random)
        text, what = mutations.altered_json(private["certificate"], random)
        return json.dumps({**private, "certificate": "here"}).replace('"here"', _sealed(text)), f"certificate: {what}"

    def read(text: str) -> object:
        found = Evaluation.from_json(text)
        assert Evaluation.from_json(found.to_json()) == found
        return quality_section(found, () if found.certificate is None else verify_evaluation(found))

    return Reader(case, read)


def _private_evaluation() -> str:
    from sordino.budget import Budget, Relation
    from sordino.evaluation import Outcomes, ScoreHistogram
    from sordino.evaluation_file import evaluate
    from sordino.privacy.randomness import Randomness
    from sordino.problem import HeldOut

    scores = np.linspace(-3, 3, 400)
    outcomes = Outcomes.of(Relation.REPLACE_ONE, scores, (scores > 0.1).astype(float), np.empty(0), None)
    problem, statistic = HeldOut(400, "ab" * 32, ("no", "yes")), ScoreHistogram(goal="recall", target=0.8)
    return evaluate(problem, Budget(1.0, 1e-6), statistic, outcomes, Randomness.seeded(0), "made-up ones").to_json()


def ledger(folder: Path) -> Reader:
    from sordino.budget import Budget, Relation
    from sordino.identity import Identity
    from sordino.ledger.ledger import ApprovalNeeded, Ledger, State
    from sordino.privacy.events import Gaussian
    from stored_lines import chained, put, rows

    identity = Identity.create(folder / "ada", "Ada")
    book = Ledger(folder / "ledger")
    book.open("survey", Budget(2.0, 1e-6), per_year=1.5, expires="2999-12-31")
    for multiplier in (8.0, 16.0):
        with book.reserve("survey", Gaussian(multiplier), Relation.REPLACE_ONE, "a model", f"run {multiplier}") as paid:
            pass
        paid.name_model("0" * 64)
    book.reserve("survey", Gaussian(32.0), Relation.REPLACE_ONE).release_unused("stopped")
    book.reserve("survey", Gaussian(32.0), Relation.REPLACE_ONE)
    book.settle(3, State.SPENT, "Ada", "its model was used")
    Ledger(folder / "ledger", identity).open("asked", Budget(1.0, 1e-6), approval=True)
    for attempt in range(2):
        try:
            book.reserve("asked", Gaussian(16.0), Relation.REPLACE_ONE)
        except ApprovalNeeded:
            book.approve(attempt)
    bodies, whole = [body for _, body, _ in rows(book)], (folder / "ledger").read_bytes()
    count = iter(range(10**9))

    def case(random: Random) -> tuple[Path, str]:
        path = folder / f"case{next(count)}"
        if random.random() < 0.25:
            content, what = mutations.altered_bytes(whole, random)
            path.write_bytes(content)
            return path, what
        number = random.randrange(len(bodies))
        text, what = mutations.altered_json(json.loads(bodies[number]), random)
        path.write_bytes(whole)
        try:
            put(Ledger(path), chained([*bodies[:number], text, *bodies[number + 1 :]]))
        except UnicodeEncodeError:
            return path, "nothing: a database holds no such text"
        return path, what

    def read(path: Path) -> object:
        ledger = Ledger(path)
        found = [(name, ledger.entries(name), ledger.remaining(name), ledger.spent(name)) for name in ledger.datasets()]
        return found, ledger.check()

    return Reader(case, read)


def journal(folder: Path) -> Reader:
    """A ledger of the first version, which is imported."""
    from sordino.ledger.ledger import Ledger

    charge = {"kind": "Charge", "mu": 0.1, "epsilon": "inf", "leak": 0.0, "distance": 0.0}
    event = {"kind": "Approximate", "event": {"kind": "Gaussian", "multiplier": 9.0}, "distance": 1e-12}
    now = {"created": "2026-01-01T00:00:00+00:00"}
    lines = _chained(
        [
            {"format": "sordino ledger", "version": 1},
            {"kind": "open", "dataset": "survey", "cap": {"kind": "Budget", "epsilon": 2.0, "delta": 1e-6}, **now},
            {"kind": "reserve", "number": 0, "dataset": "survey", "event": event, "charge": charge, "note": "", **now},
            {"kind": "settle", "number": 0, "state": "spent", "who": "", "why": "", **now},
        ]
    )
    case, write = _journal(lines, folder)

    def read(content: bytes) -> object:
        path = write(content)
        ledger = Ledger(f"{path}.new")
        return ledger.import_journal(path), ledger.entries("survey")

    return Reader(case, read)


def checkpoint(folder: Path) -> Reader:
    from sordino.checkpoint_folder import Held, held, read_summary

    @dataclass
    class State:
        w: Any
        step: int

    with held(folder / "run") as writing:
        facts = {"problem": {"records": 9}, "budget": {}, "method": {}, "plan": {}}
        writing.note({"kind": "begun", "facts": facts, "seeded": False, "reservation": 0})
        writing.keep(State(np.zeros(3), 1), 1)
        writing.note({"kind": "shown", "step": 2})
        writing.note({"kind": "resumed", "step": 1, "seen": 2, "seeded": False, "reservation": 0})
        kept = writing.summary.kept
    assert kept is not None
    lines, arrays = ((folder / "run" / name).read_bytes() for name in ("journal.jsonl", kept.file))
    of_journal, _ = _journal(lines, folder)

    def case(random: Random) -> tuple[tuple[bytes, bytes], str]:
        if random.random() < 0.6:
            content, what = of_journal(random)
            return (content, arrays), what
        changed, what = _altered_tensors(arrays, random)
        # the journal names it by its digest
        entries = [json.loads(line)["entry"] for line in lines.splitlines()]
        for entry in entries:
            if entry.get("kind") == "kept":
                entry["digest"] = hashlib.sha256(changed).hexdigest()
        return (_chained(entries), changed), what

    def read(content: tuple[bytes, bytes]) -> object:
        home = _fresh(folder / "case")
        (home / "journal.jsonl").write_bytes(content[0])
        (home / f"state-{hashlib.sha256(content[1]).hexdigest()}.safetensors").write_bytes(content[1])
        summary = read_summary(home)
        state = State(np.zeros(3), 0)
        if summary.kept is not None:
            Held(home, None).restore(summary.kept, state)  # type: ignore[arg-type]
        return summary

    return Reader(case, read)


def plan(folder: Path) -> Reader:
    import owners
    from sordino.federation.plan import FederationPlan

    intact = json.loads(owners.plan_for(3).to_json())

    def read(text: str) -> object:
        found = FederationPlan.from_json(text)
        return found.digest, found.assumed

    return Reader(lambda random: mutations.altered_json(intact, random), read)


def signed_plan(folder: Path) -> Reader:
    from sordino.federation.signed_plan import SignedPlan
    from sordino.methods import NoisyGradientDescent
    from three_owners import found

    federation = found(folder, NoisyGradientDescent(steps=3, step_size=1.0, release="average"))
    identity = federation.member_folder("north").identity
    intact = json.loads((folder / "plan.json").read_text())

    def case(random: Random) -> tuple[str, str]:
        if random.random() < 0.2:
            return mutations.altered_json(intact, random)
        text, what = mutations.altered_json(intact["body"], random)
        try:
            body = json.loads(text)
            signature = identity.sign("plan", wire.digest(body).encode())
        except (ValueError, RecursionError):
            signature = intact["signature"]
        whole = json.dumps({**intact, "body": "@", "signature": signature})
        return whole.replace('"@"', text), what

    return Reader(case, SignedPlan.from_json)


def record(folder: Path) -> Reader:
    from sordino.federation.record import Record, held_record, journal_of, pack_sum, read_record
    from sordino.identity import Identity
    from sordino.privacy.events import Gaussian, to_json

    identity, plan = Identity.create(folder / "north", "north", 1), "0" * 64
    event = to_json(Gaussian(2.0))

    def write(record: Record) -> None:
        record.append("began", {"coins": "00" * 32, "member": 0, "seeded": False})
        record.append("met", {"heads": {"1": ""}, "seeded": False})
        record.append("opening", {"step": 0, "event": event, "commitment": "00" * 32})
        record.append("seen", {"step": 0, "event": event, "sum": pack_sum(np.arange(4))})
        record.append("opened", {"step": 0, "signatures": ["00" * 64] * 3})
        record.append("stopped", {"why": "a test", "event": event})

    with held_record(identity, plan) as opened:
        write(opened)
    journal = journal_of(folder / "north", plan)
    lines = (folder / "north" / "record.jsonl").read_bytes()
    entries = [json.loads(line)["entry"] for line in lines.splitlines()]

    def case(random: Random) -> tuple[bytes, str]:
        number = random.randrange(1, len(entries))
        fact, what = mutations.altered(entries[number]["fact"], random)
        try:
            return _chained(_signed(entries, number, fact)), what
        except (ValueError, RecursionError, UnicodeEncodeError):
            return mutations.altered_bytes(lines, random)

    def _signed(entries: list[Any], number: int, fact: Any) -> list[Any]:
        line = {"previous": entries[number]["previous"], "fact": fact}
        signed = wire.digest({"signed_plan": plan, **line}).encode()
        line["signature"] = identity.sign("record", signed)
        return [*entries[:number], line, *entries[number + 1 :]]

    def read_back(content: bytes) -> object:
        journal.path.write_bytes(content)
        return read_record(journal.entries(), identity.face, plan).event

    return Reader(case, read_back)


def frame(folder: Path) -> Reader:
    """A connection that is sent anything: it hands over the messages of the rounds, or says who broke the agreement."""
    import asyncio

    from sordino.federation.mesh import MemberLost, Refused
    from sordino.federation.tls import _FRAME, Link

    largest = 1 << 16

    def case(random: Random) -> tuple[bytes, str]:
        content = b""
        for number in range(random.randrange(5)):
            told = random.choice([number, number, number, 0, 2**63, 2**64 - 1])
            message = random.choice([b"", b"x", random.randbytes(1000), bytes(largest), bytes(1 << 20)])
            size = random.choice([len(message)] * 4 + [0, 3, largest + 1, 2**40, 2**64 - 1])
            content += _FRAME.pack(told, size) + message
        return mutations.altered_bytes(content, random) if content and random.random() < 0.5 else (content, "frames")

    async def receive(content: bytes) -> list[bytes]:
        reader: Any = asyncio.StreamReader()
        reader.feed_data(content)
        reader.feed_eof()
        link: Any = object.__new__(Link)
        link.peer, link._reader = 1, reader
        return [await link.receive(number, largest) for number in range(5)]

    def read(content: bytes) -> object:
        try:
            return asyncio.run(receive(content))
        except (MemberLost, Refused) as error:
            # the two errors of a connection
            return str(error)

    return Reader(case, read)


def unopened(folder: Path) -> Reader:
    from sordino.federation.unopened import FILE, Contribution, UnopenedContribution

    intact = Contribution(2, np.arange(6).reshape(2, 3), np.arange(12, dtype=np.uint64)).to_bytes()
    head, _, data = intact.partition(b"\n")

    def case(random: Random) -> tuple[bytes, str]:
        if random.random() < 0.2:
            return mutations.altered_bytes(intact, random)
        text, what = mutations.altered_json(json.loads(head), random)
        return text.encode("utf-8", "surrogatepass") + b"\n" + data, what

    def read(content: bytes) -> object:
        (folder / FILE).write_bytes(content)
        return UnopenedContribution(folder).at(2)

    return Reader(case, read)


def _methods() -> list[Any]:
    from sordino.methods import NoisyGradientDescent, ObjectivePerturbation, OutputPerturbation

    return [NoisyGradientDescent(steps=4), OutputPerturbation(), ObjectivePerturbation()]


def _schema() -> Any:
    from sordino.tabular import Boolean, ClassTarget, Number, Schema

    return Schema(ClassTarget("y", ("a", "b")), {"u": Number(-1, 1), "v": Boolean()})


def _fitted(method: Any) -> Any:
    from sordino.estimators.classifiers import PrivateLogisticRegression

    X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    estimator = PrivateLogisticRegression(1.0, 1e-6, row_norm=_schema().row_norm, classes=["a", "b"], method=method)
    return estimator.fit(X, np.where(X[:, 0] > 0, "a", "b"))


def _sealed(text: str) -> str:
    """The text with the digest that its content has, where it can be read at all."""
    try:
        body = json.loads(text)
        stated = body.pop("digest")
        canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
        return text.replace(json.dumps(stated), json.dumps(hashlib.sha256(canonical.encode()).hexdigest()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return text


def packed(members: dict[str, bytes], text: str) -> bytes:
    """A model file with a model.json whose digests are those of its members and of itself."""
    digests = {name: hashlib.sha256(member).hexdigest() for name, member in members.items() if name != "model.json"}
    try:
        body = json.loads(text)
        for name, digest in digests.items():
            text = text.replace(body["members"][name], digest)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return archive.pack({**members, "model.json": _sealed(text).encode("utf-8", "surrogatepass")})


def _journal(lines: bytes, folder: Path) -> tuple[Callable[[Random], tuple[bytes, str]], Callable[[bytes], Path]]:
    """Cases of a journal with one entry changed and the chain made anew; and a writer under ever new names."""
    entries = [json.loads(line)["entry"] for line in lines.splitlines()]
    count = iter(range(10**9))

    def case(random: Random) -> tuple[bytes, str]:
        if random.random() < 0.15:
            return mutations.altered_bytes(lines, random)
        if random.random() < 0.1:
            number = random.randrange(len(entries))
            raw, what = mutations.altered_json(entries[number], random)
            line = f'{{"entry": {raw}, "check": "{"0" * 64}"}}'.encode("utf-8", "surrogatepass")
            return _chained(entries[:number]) + line + b"\n", what
        number = random.randrange(1, len(entries))
        entry, what = mutations.altered(entries[number], random)
        try:
            return _chained([*entries[:number], entry, *entries[number + 1 :]]), what
        except (ValueError, UnicodeEncodeError):
            return mutations.altered_bytes(lines, random)

    def write(content: bytes) -> Path:
        path = folder / f"case{next(count)}"
        path.write_bytes(content)
        return path

    return case, write


def _chained(entries: list[Any]) -> bytes:
    from sordino.ledger.journal import _check, _line

    content, previous = b"", ""
    for entry in entries:
        content += _line(previous, entry)
        previous = _check(previous, entry)
    return content


def _altered_tensors(content: bytes, random: Random) -> tuple[bytes, str]:
    size = int.from_bytes(content[:8], "little")
    match random.randrange(3):
        case 0:
            return mutations.altered_bytes(content, random)
        case 1:
            stated = random.choice([0, 1, 2**31, 2**62, 2**64 - 1])
            return stated.to_bytes(8, "little") + content[8:], f"a header of {stated}"
    text, what = mutations.altered_json(json.loads(content[8 : 8 + size]), random)
    header = text.encode("utf-8", "surrogatepass")
    return len(header).to_bytes(8, "little") + header + content[8 + size :], what


def _fresh(folder: Path) -> Path:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def shown(content: Any) -> str:
    """A content as text, to try it again by hand."""
    plain = content if isinstance(content, bytes) else repr(content).encode("utf-8", "backslashreplace")
    return base64.b64encode(plain[:2000]).decode()
