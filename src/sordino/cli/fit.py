"""`sordino fit`: from a table and its public schema to a model file with its certificate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.budget import Budget, Relation
from sordino.cli.console import complain, progress, say, show_table
from sordino.cli.options import (
    L2,
    OF_CLASSES,
    Contributed,
    Dataset,
    Delta,
    Epsilon,
    Intervals,
    LedgerAddress,
    LossName,
    MethodName,
    Neighbours,
    PerPerson,
    Person,
    Sign,
    StandIn,
    Typical,
    charging,
    class_weights_named,
    estimator_named,
    identity_files,
    method_named,
    require_both,
)

if TYPE_CHECKING:
    from sordino.certificate import Certificate
    from sordino.model_file import LoadedModel
    from sordino.oracle.files.encoded import EncodedTable
    from sordino.tabular.schema import Schema


def fit(
    data: Annotated[Path, typer.Argument(help="The records: a CSV, Parquet or Arrow file, or a folder of them.")],
    schema: Annotated[Path, typer.Option(help="The public description of the table, in TOML (see `sordino schema`).")],
    epsilon: Epsilon,
    out: Annotated[Path, typer.Option(help="The model file to write.")],
    delta: Delta = None,
    relation: Neighbours = Relation.REPLACE_ONE,
    loss: LossName | None = None,
    class_weight: Annotated[
        str | None,
        typer.Option(help="What classes count: no=1,yes=5 (public numbers), or balanced, by a count that is paid for."),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(help="The column that says what a record counts. It needs --weight-bound.")
    ] = None,
    weight_bound: Annotated[
        float | None, typer.Option(help="With --weight: a public bound; weights above it are cut to it.")
    ] = None,
    method: MethodName = "auto",
    l2: L2 = 0.0,
    intervals: Intervals = False,
    records: StandIn = None,
    person: Person = None,
    per_person: PerPerson = None,
    contribution: Contributed = "mean",
    typical_records: Typical = None,
    certificate: Annotated[Path | None, typer.Option(help="Also write the certificate to a file of its own.")] = None,
    sign: Sign = None,
    ledger: LedgerAddress = None,
    dataset: Dataset = None,
    memory: Annotated[
        float,
        typer.Option(
            help="Gigabytes that the encoded records may take, prepared ones included; beyond that, read as needed."
        ),
    ] = 1.0,
    cluster: Annotated[
        str | None, typer.Option(help="Train on the workers of a Ray cluster: its address, or local for this machine.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="With --cluster: how many, two if left out; --memory is what each may take.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For tests only: with known noise the model is NOT PRIVATE.")] = None,
) -> None:
    """Train a private model on a table and write it with its certificate."""
    from sordino.identity import Identity
    from sordino.ledger.store import ledger_file
    from sordino.model_file import model_of, require_places, save_model
    from sordino.tabular.schema import Schema

    # whatever can be refused is refused before a record is read
    described = Schema.load(schema)
    kind, own = _kind(described, loss, class_weight)
    Budget(epsilon, delta or 0.0, relation)
    require_places(out, certificate, inputs=(data, schema, ledger_file(ledger), *identity_files(sign)))
    require_both(ledger, dataset)
    if (weight is None) != (weight_bound is None):
        raise ValueError("--weight and --weight-bound go together: name a column and a public bound, or neither.")
    signer = None if sign is None else Identity.load(sign)
    settings = {
        "epsilon": epsilon,
        "delta": delta,
        "schema": described,
        "method": method_named(method),
        "relation": relation.value,
        "records": records,
        "l2": l2,
        "random_state": seed,
        **own,
    }
    if weight_bound is not None:
        settings["weight_bound"] = weight_bound
    if intervals:
        if "intervals" not in kind().get_params():
            raise ValueError(
                f"--intervals are for logistic, huber and squared loss, and loss is {loss!r}: leave them out."
            )
        settings["intervals"] = True
    if workers is not None and cluster is None:
        raise ValueError(
            f"--workers is {workers}, and they are a cluster's: name it with --cluster, or leave them out."
        )
    if seed is not None:
        complain("NOT PRIVATE: --seed makes the noise known. Use it for tests, never for a model to be released.")
    # with workers to share the records out to, they are not all brought here
    records_in = _opened(data, described, memory if cluster is None else 0.0, (person, weight))
    estimator = kind(**settings)
    budget = f"epsilon {epsilon:g}" + ("" if delta is None else f", delta {delta:g}")
    with (
        _shared_out(records_in, cluster, workers, memory) as source,
        charging(ledger, dataset, signer),
        progress(budget),
    ):
        estimator.fit(
            source,
            sample_weight=weight,
            person=person,
            records_per_person=per_person,
            contribution=contribution,
            typical_records=typical_records,
        )

    for name, values in (estimator.categories_ or {}).items():
        say(f"Values of {name!r} that were found: {', '.join(values) or 'none'}. Any other shares a column.")
    issued = save_model(estimator, out, signer=signer)
    if certificate is not None:
        issued.save(certificate)
    _report(issued, data, out, certificate)
    if intervals:
        _show_intervals(model_of(estimator))


@contextmanager
def _shared_out(table: EncodedTable, address: str | None, workers: int | None, memory: float) -> Iterator[Any]:
    """What to fit on: the table as it is, or on the workers of a cluster."""
    if address is None:
        yield table
        return
    from sordino.cluster import connected

    with connected(address, 2 if workers is None else workers, memory=memory) as cluster:
        yield cluster.hold(table, None)


def _opened(data: Path, schema: Schema, memory: float, others: tuple[str | None, ...]) -> EncodedTable:
    from sordino.oracle.files.encoded import EncodedTable

    table = EncodedTable(data, schema, memory * 2**30)
    unused = [name for name in table.files.names if name not in (*table.columns, *schema.ignore, *others)]
    if unused:
        names = ", ".join(name or "one without a name" for name in unused)
        say(f"Columns of {data} that the schema does not mention, and that are not used: {names}.")
    return table


def _kind(schema: Schema, loss: str | None, class_weight: str | None) -> tuple[Any, dict[str, Any]]:
    """The estimator for the schema's target, or the one for the loss that was named, and what only it is told."""
    from sordino.tabular.columns import ClassTarget

    classes = isinstance(schema.target, ClassTarget)
    loss = ("logistic" if classes else "huber") if loss is None else loss
    kind = estimator_named(loss)
    if (loss in OF_CLASSES) != classes:
        target = "has classes" if classes else "is a number"
        raise ValueError(
            f"loss is {loss!r}, and the schema's target {target}: name a loss for it, or leave --loss out."
        )
    if class_weight is None:
        return kind, {}
    if not isinstance(schema.target, ClassTarget):
        raise ValueError("--class-weight is for classes, and the schema's target is a number: leave it out.")
    return kind, {"class_weight": class_weights_named(class_weight, schema.target.classes)}


def _show_intervals(model: LoadedModel) -> None:
    if model.covariance is None:
        from sordino.inference import why_no_intervals

        complain(f"No intervals: {why_no_intervals(model.certificate)}")
        return
    ends, names = model.confidence_intervals(), model.feature_names or ()
    rows = zip((*names, "intercept"), (*model.coef[0], *model.intercept), (*ends.coef, ends.intercept), strict=True)
    show_table(
        "Coefficients of encoded features, with intervals that hold 95 times in 100",
        ("feature", "coefficient", "low", "high"),
        [(name, *(f"{number:.4g}" for number in (value, low, high))) for name, value, (low, high) in rows],
    )


def _report(certificate: Certificate, data: Path, out: Path, separate: Path | None) -> None:
    if "not private" in certificate.randomness:
        complain(f"NOT PRIVATE, because of --seed. Without it this would be {certificate.statement}")
    else:
        say(certificate.statement, style="bold")
        unit = certificate.problem.unit
        say(f"It protects one {unit}, for this one release, and rests on what you have said is public:")
        for sentence in certificate.assumed:
            say(f"  - {sentence}.")
    for note in certificate.notes:
        say(f"Note:  {note}")
    say(f"Model: {out}" + ("" if separate is None else f"   Certificate: {separate}"))
    say(f"Next:  sordino verify {out}    (anyone can, without the records)")
    say(f"       sordino predict {out} {data} --out predictions.csv")
