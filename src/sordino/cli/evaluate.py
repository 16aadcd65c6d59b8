"""`sordino evaluate`: how good a model is on held-out private records, with noise and intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sordino import outputs
from sordino.budget import Budget, Relation
from sordino.cli.console import complain, say, show_table
from sordino.cli.options import (
    Dataset,
    Delta,
    Epsilon,
    LedgerAddress,
    Neighbours,
    PerPerson,
    Person,
    Sign,
    StandIn,
    charging,
    identity_files,
    require_both,
)

if TYPE_CHECKING:
    from sordino.evaluation_file import Evaluation


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model file that `sordino fit` wrote.")],
    data: Annotated[
        Path, typer.Argument(help="Records it was not trained on: a CSV, Parquet or Arrow file, or a folder.")
    ],
    epsilon: Epsilon,
    out: Annotated[Path, typer.Option(help="The evaluation to write, in JSON.")],
    delta: Delta = None,
    relation: Neighbours = Relation.REPLACE_ONE,
    records: StandIn = None,
    person: Person = None,
    per_person: PerPerson = None,
    positive: Annotated[str | None, typer.Option(help="Of two classes, the one that recall is about.")] = None,
    threshold: Annotated[float | None, typer.Option(help="The probability above which it is predicted.")] = None,
    recall: Annotated[float | None, typer.Option(help="Find a threshold with this recall.")] = None,
    precision: Annotated[float | None, typer.Option(help="Find a threshold with this precision.")] = None,
    positive_rate: Annotated[float | None, typer.Option(help="Find a threshold with this share of positives.")] = None,
    log_loss_bound: Annotated[float | None, typer.Option(help="Also the log-loss, cut at this public number.")] = None,
    error_bound: Annotated[float | None, typer.Option(help="Of numbers: cut errors at this public number.")] = None,
    level: Annotated[float, typer.Option(help="How sure the intervals are.")] = 0.95,
    description: Annotated[str | None, typer.Option(help="In words, which records these are.")] = None,
    sign: Sign = None,
    ledger: LedgerAddress = None,
    dataset: Dataset = None,
    seed: Annotated[int | None, typer.Option(help="For tests only: with known noise it is NOT PRIVATE.")] = None,
) -> None:
    """Measure a model on held-out private records: accuracy, AUC, calibration, a confusion matrix, or R^2 and RMSE."""
    from sordino.estimators.score import private_score
    from sordino.evaluation_file import EVALUATION
    from sordino.identity import Identity
    from sordino.ledger.store import ledger_file
    from sordino.model_file import read_model
    from sordino.oracle.files.encoded import EncodedTable

    # whatever can be refused is refused before a record is read
    Budget(epsilon, delta or 0.0, relation)
    outputs.require_writable([(out, EVALUATION)], (model, data, ledger_file(ledger), *identity_files(sign)))
    require_both(ledger, dataset)
    signer = None if sign is None else Identity.load(sign)
    loaded = read_model(model)
    if loaded.schema is None:
        raise ValueError(
            f"{model} has no schema, so it cannot read a table: save it with `save_model(.., schema=..)`, or use "
            "`private_score` in Python on rows of numbers."
        )
    if seed is not None:
        complain("NOT PRIVATE: --seed makes the noise known. Use it for tests, never for something to be released.")
    with charging(ledger, dataset, signer):
        evaluation = private_score(
            loaded,
            EncodedTable(data, loaded.schema),
            epsilon=epsilon,
            delta=delta,
            relation=relation.value,
            records=records,
            person=person,
            records_per_person=per_person,
            positive=positive,
            threshold=threshold,
            recall=recall,
            precision=precision,
            positive_rate=positive_rate,
            log_loss_bound=log_loss_bound,
            error_bound=error_bound,
            level=level,
            description=description,
            random_state=seed,
        )
    if signer is not None:
        evaluation = evaluation.sign(signer)
    evaluation.save(out)
    _show(evaluation, out, model)


def _show(evaluation: Evaluation, out: Path, model: Path) -> None:
    certificate = evaluation.certificate
    assert certificate is not None
    for group in dict.fromkeys(one.group for one in evaluation.measures):
        rows = [
            (one.name, f"{one.value:.4g}", "" if one.low is None else f"{one.low:.4g} to {one.high:.4g}")
            for one in evaluation.measures
            if one.group == group
        ]
        show_table(group.capitalize() or f"Measured on {evaluation.records}", ("", "value", "interval"), rows)
    for remark in evaluation.remarks:
        say(f"Note:  {remark}")
    if "not private" in certificate.randomness:
        complain(f"NOT PRIVATE, because of --seed. Without it this would be {certificate.statement}")
    else:
        say(certificate.statement, style="bold")
    say(f"Evaluation: {out}")
    say(f"Next:  sordino verify {out}")
    say(f"       sordino report {model} --evaluation {out}")
