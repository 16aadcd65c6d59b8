"""`sordino federation`: owners who train one model together and show their records to nobody."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sordino.budget import Relation
from sordino.cli.console import complain, progress, say, show_table
from sordino.cli.options import (
    L2,
    Contributed,
    Delta,
    Epsilon,
    MethodName,
    Neighbours,
    PerPerson,
    Typical,
    method_named,
)

if TYPE_CHECKING:
    from sordino.federation.member_folder import MemberFolder
    from sordino.federation.signed_plan import SignedPlan
    from sordino.train import Trained

app = typer.Typer(
    help="Several owners train one model, and show their records to nobody: init, join, run, status.",
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Option(help="This member's own folder: its key, the plan, and its record.")]


@app.command()
def init(
    members: Annotated[Path, typer.Argument(help="The list of members, in TOML: [[owner]] and [[server]] tables.")],
    schema: Annotated[Path, typer.Option(help="The public description of everybody's table, in TOML.")],
    epsilon: Epsilon,
    folder: Folder,
    out: Annotated[Path, typer.Option(help="The plan to write.")],
    delta: Delta = None,
    relation: Neighbours = Relation.REPLACE_ONE,
    method: MethodName = "auto",
    steps: Annotated[
        int | None, typer.Option(help="How many sums to open; the method's own choice if left out.")
    ] = None,
    l2: L2 = 0.0,
    row_norm: Annotated[
        float | None, typer.Option(help="A public bound on a row's norm; the schema's own if left out.")
    ] = None,
    noise: Annotated[str, typer.Option(help="Who adds it: distributed, committee or joint.")] = "distributed",
    colluders: Annotated[int, typer.Option(help="How many owners may pool all they know.")] = 1,
    identifiers: Annotated[
        str, typer.Option(help="A column that tells records apart: the owners count common ones, and show none.")
    ] = "",
    person: Annotated[
        str,
        typer.Option(help="A column that says whose a record is: persons are protected, and the list counts them."),
    ] = "",
    per_person: PerPerson = None,
    contribution: Contributed = "mean",
    typical_records: Typical = None,
) -> None:
    """Write the plan that all members accept, signed by this one. No record is needed, and none is read."""
    from sordino import outputs
    from sordino.federation.proposal import method_with, propose, read_members
    from sordino.federation.signed_plan import PLAN
    from sordino.federation.trust import Mode
    from sordino.identity import CERTIFICATE, KEY, Identity
    from sordino.problem import PersonUnit
    from sordino.tabular.schema import Schema

    unit = PersonUnit(per_person, contribution, typical_records)  # type: ignore[arg-type]  # refuses other words
    if identifiers and person:
        raise ValueError("--identifiers and --person were given: by the latter the owners tell persons apart; name it.")
    if not person and unit != PersonUnit():
        raise ValueError("--per-person, --contribution and --typical-records are about persons: name them by --person.")
    outputs.require_writable([(out, PLAN)], inputs=(members, schema, folder / KEY, folder / CERTIFICATE))
    author = Identity.load(folder)
    signed_plan = propose(
        read_members(members),
        Schema.load(schema),
        (epsilon, delta, relation),
        method_with(method_named(method), steps),
        row_norm,
        l2,
        cast(Mode, noise),
        colluders,
        person or identifiers,
        unit if person else None,
    ).signed_by(author)
    signed_plan.save(out)
    _show(signed_plan)
    say(f"Plan:  {out}")
    say("Next:  send it to every member; each runs sordino federation join.")


@app.command()
def join(
    plan: Annotated[Path, typer.Argument(help="The plan, as it was sent.")],
    folder: Folder,
    accept: Annotated[str, typer.Option(help="The plan's hash, to accept it without being asked.")] = "",
) -> None:
    """Show a plan, and accept it for this member."""
    from sordino.federation import member_folder
    from sordino.federation.signed_plan import SignedPlan
    from sordino.identity import Identity

    signed_plan = SignedPlan.load(plan)
    signed_plan.number_of(Identity.load(folder).face)
    _show(signed_plan)
    given = accept or typer.prompt("To accept, type the first eight letters of the hash that the others have")
    if len(given) < 8 or not signed_plan.digest.startswith(given.lower()):
        raise ValueError(
            f"the plan was not accepted: {given!r} is not the hash of this plan, or fewer than eight letters of it. "
            "Compare the hash with the other members."
        )
    taken = member_folder.accept(signed_plan, folder)
    say(f"{taken.name} accepts the plan {signed_plan.digest[:16]}.", style="bold")
    say(f"Next:  sordino federation run {'DATA ' if taken.is_owner else ''}--folder {folder} --out model.sordino")


@app.command()
def run(
    folder: Folder,
    data: Annotated[Path | None, typer.Argument(help="This owner's records: a CSV or Parquet file.")] = None,
    out: Annotated[Path | None, typer.Option(help="The model file to write.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Also write the certificate to a file of its own.")] = None,
    wait: Annotated[float, typer.Option(help="Seconds to wait for all members to come.")] = 600.0,
    patience: Annotated[float, typer.Option(help="Seconds to wait for an answer once they are there.")] = 60.0,
    ledger: Annotated[str | None, typer.Option(help="Charge the release to this owner's ledger.")] = None,
    dataset: Annotated[str | None, typer.Option(help="The data set's name in the ledger.")] = None,
    seed: Annotated[int | None, typer.Option(help="For tests only: with known noise the model is NOT PRIVATE.")] = None,
) -> None:
    """Take part until the model is there; after an interruption, go on from the record."""
    from sordino.federation.member_folder import FILES, MemberFolder
    from sordino.federation.runner import Waiting, run as take_part
    from sordino.ledger.store import ledger_file
    from sordino.model_file import require_places

    out = folder / "model.sordino" if out is None else out
    certificate = folder / "certificate.json" if certificate is None else certificate
    require_places(out, certificate, inputs=(data, ledger_file(ledger), *(folder / name for name in FILES)))
    if (ledger is None) != (dataset is None):
        raise ValueError("--ledger and --dataset go together: name both, or neither.")
    member_folder = MemberFolder.load(folder)
    if seed is not None:
        complain("NOT PRIVATE: --seed makes the noise known. Use it for tests, never for a model to be released.")
    charged = None if ledger is None or dataset is None else (ledger, dataset)
    budget = member_folder.signed_plan.plan.budget
    say(f"{member_folder.name}: plan {member_folder.signed_plan.digest[:16]}, waiting for the others.")
    with progress(f"epsilon {budget.epsilon:g}, delta {budget.delta:g}"):
        trained = take_part(member_folder, data, Waiting(wait, patience), seed, charged)
    _write(member_folder, trained, out, certificate)


@app.command()
def status(folder: Folder) -> None:
    """How far this member has come: from its own record, also while it runs."""
    from sordino.federation.member_folder import MemberFolder
    from sordino.federation.status import status_of

    found = status_of(MemberFolder.load(folder))
    summary = found.summary
    say(f"{found.name}: {found.words}", style="bold")
    say(f"Sums opened: {found.opened} of {found.planned}" + (", one more under way" if summary.in_flight else ""))
    say(f"Spent so far: epsilon {found.epsilon:.6g}, by what was opened or may have been")
    if summary.seeded:
        complain("NOT PRIVATE: a seed made the noise known.")
    say(f"Sessions: {summary.sessions}" + (f", last entry {summary.last}" if summary.last else ""))
    for name, head in found.peers.items():
        say(
            f"  {name}: "
            + (f"met, its record ended at {head[:16] or 'nothing'}" if summary.sessions else "not met yet")
        )


def _write(member_folder: MemberFolder, trained: Trained, out: Path, certificate: Path) -> None:
    from sordino.federation.release import save

    released = save(member_folder, trained, out)
    released.save(certificate)
    if "not private" in released.randomness:
        complain(f"NOT PRIVATE, because of --seed. Without it this would be {released.statement}")
    else:
        say(released.statement, style="bold")
        for sentence in released.assumed:
            say(f"  - {sentence}.")
    for note in released.notes:
        say(f"Note:  {note}")
    say(f"Model: {out}   Certificate: {certificate}")
    say(f"Next:  sordino verify {out}    (anyone can, without the records)")


def _show(signed_plan: SignedPlan) -> None:
    from sordino import wire
    from sordino.cli.plan import shown_number, shown_rows
    from sordino.privacy.events import flatten

    plan = signed_plan.plan
    facts: dict[str, Any] = {
        "method": type(plan.method).__name__,
        "sums to open": sum(flatten(plan.planned.event)[0].values()),
        "epsilon": plan.budget.epsilon,
        "delta": plan.budget.delta,
        "relation": plan.relation.value,
        f"{plan.problem.unit}s of all owners": plan.problem.records,
        "weights": plan.problem.dim,
        "bound on a row's norm": "" if plan.rows is None else plan.rows.bound,
        "noise": plan.mode,
        "owners who may pool what they know": plan.colluders,
        f"{plan.problem.unit}s told apart by": signed_plan.identifiers or "nothing: common records are not looked for",
        "schema (SHA-256)": plan.schema[:16],
        "proposed by": signed_plan.members[signed_plan.by].name,
    }
    show_table("Plan", ("", ""), [(name, shown_number(value)) for name, value in facts.items()])
    show_table(f"Numbers of {facts['method']}", ("", ""), shown_rows(wire.to_plain(plan.planned)))
    owners = {owner.name: str(owner.records) for owner in plan.owners}
    rows = [
        (
            str(number),
            m.name,
            m.address,
            owners.get(m.name, "server"),
            m.face.fingerprint[:16],
            f"{m.face.expires:%Y-%m-%d}",
        )
        for number, m in enumerate(signed_plan.members, start=1)
    ]
    show_table("Members", ("", "name", "address", f"{plan.problem.unit}s", "certificate", "valid until"), rows)
    say("Schema", style="bold")
    say(signed_plan.schema.to_toml())
    for sentence in plan.assumed:
        say(f"Assumed: {sentence}")
    say(f"Hash:  {signed_plan.digest}", style="bold")
