"""`sordino predict`: a model file and a table to a CSV of predictions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino import outputs
from sordino.cli.console import say

if TYPE_CHECKING:
    from sordino.model_file import LoadedModel

_PREDICTIONS = outputs.Kind("a table of predictions", rb'"prediction"(,"probability( of [^\n]*)?")?(,"low","high")?\n')


def predict(
    model: Annotated[Path, typer.Argument(help="A model file that `sordino fit` wrote.")],
    data: Annotated[Path, typer.Argument(help="The table: a CSV, Parquet or Arrow file, or a folder of them.")],
    out: Annotated[Path, typer.Option(help="The CSV file to write, one line per record in the table's order.")],
    probabilities: Annotated[
        bool,
        typer.Option("--probabilities", help="Write the probability of every class, and not of the likeliest alone."),
    ] = False,
    level: Annotated[
        float | None,
        typer.Option(help="Also an interval that holds this often, such as 0.95, if the model was fitted for them."),
    ] = None,
    evaluation: Annotated[
        Path | None, typer.Option(help="Of two classes: decide by the threshold that this evaluation has chosen.")
    ] = None,
) -> None:
    """Predict the class and its probability, or the value, of every record of a table."""
    from sordino.model_file import read_model

    outputs.require_writable([(out, _PREDICTIONS)], inputs=(model, data, evaluation))
    loaded = read_model(model)
    if loaded.schema is None:
        raise ValueError(
            f"{model} has no schema, so it cannot read a table: save it with `save_model(.., schema=..)`, or use "
            "`load_model` in Python on rows of numbers."
        )

    told = loaded.classes is not None and _has_probabilities(loaded)
    if probabilities and not told:
        what = "a number" if loaded.classes is None else "classes by a margin"
        raise ValueError(f"{model} predicts {what}, which has no probabilities: leave --probabilities out.")
    decide = None if evaluation is None else _by_threshold(loaded, evaluation)

    import io

    import pyarrow as pa
    import pyarrow.csv

    from sordino.tabular.read import open_table, read_features

    X = read_features(open_table(data, loaded.schema), loaded.schema)
    columns = {"prediction": loaded.predict(X) if decide is None else decide(X)}
    if told and loaded.classes is not None:
        table = loaded.predict_proba(X)
        if probabilities:
            labels = loaded.classes.tolist()
            columns |= {f"probability of {label}": table[:, place] for place, label in enumerate(labels)}
        else:
            columns["probability"] = table.max(axis=1)
    if level is not None:
        columns["low"], columns["high"] = _ends(loaded, X, level)
    text = io.BytesIO()
    pa.csv.write_csv(pa.table(columns), text)
    outputs.write(out, text.getvalue(), _PREDICTIONS)
    say(f"{X.shape[0]} prediction{'' if X.shape[0] == 1 else 's'} of {loaded.schema.target.column!r} in {out}.")
    say("A prediction about a person is as sensitive as that person's record: the guarantee covers the model.")


def _has_probabilities(model: LoadedModel) -> bool:
    """Scores of a hinge loss are no logarithms of odds."""
    from sordino.losses import Hinge, unweighted

    loss = getattr(model.certificate.problem, "loss", None)
    return loss is None or not isinstance(unweighted(loss), Hinge)


def _ends(model: LoadedModel, X: Any, level: float) -> Any:
    """Of the number, or of the probability that is told."""
    import numpy as np

    ends = model.predict_interval(X, level)
    if model.classes is None:
        return ends.T
    first = (model.predict(X) == model.classes[0])[:, None]
    # what is told of the first class is one minus the second's probability
    return np.where(first, 1 - ends[:, ::-1], ends).T


def _by_threshold(model: LoadedModel, path: Path) -> Callable[[Any], Any]:
    """Predicts the class that the evaluation calls positive where its score is above the threshold."""
    import numpy as np

    from sordino.evaluation_file import Evaluation
    from sordino.problem import HeldOut

    evaluation = Evaluation.load(path)
    if evaluation.model != model.certificate.weights:
        raise ValueError(f"{path} is an evaluation of another model: give one of this model.")
    certificate, threshold, classes = evaluation.certificate, evaluation.threshold, model.classes
    if threshold is None or classes is None or certificate is None or not isinstance(certificate.problem, HeldOut):
        raise ValueError(f"{path} has chosen no threshold: evaluate with --recall, --precision or --positive-rate.")
    yes = [str(label) for label in classes.tolist()].index(certificate.problem.classes[1])

    def decide(rows: Any) -> Any:
        if getattr(certificate.method, "probabilities", True):
            above = model.predict_proba(rows)[:, yes] > threshold
        else:
            above = (2 * yes - 1) * model.decision_function(rows) > threshold
        return classes[np.where(above, yes, 1 - yes)]

    return decide
