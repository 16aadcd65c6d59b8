"""Options that several commands share."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.budget import Relation

if TYPE_CHECKING:
    from sordino.identity import Identity

Epsilon = Annotated[float, typer.Option(help="How much one record may matter: smaller is more private; 0.1 to 10.")]
Delta = Annotated[
    float | None,
    typer.Option(help="The probability outside epsilon's promise: 1/n^2 if left out, 0 for a pure guarantee."),
]
Neighbours = Annotated[
    Relation, typer.Option(help="What may change: one record's values (n is public), or whether it is there at all.")
]
MethodName = Annotated[str, typer.Option(help="auto, or a method: output-perturbation, noisy-gradient-descent, ..")]
Intervals = Annotated[
    bool, typer.Option("--intervals", help="Also pay for intervals of coefficients and predictions, from the budget.")
]
L2 = Annotated[float, typer.Option("--l2", help="Strength of the penalty (l2/2)|w|^2 on rows scaled to norm one.")]
StandIn = Annotated[int | None, typer.Option(help="With add_remove: a public stand-in for the number of records.")]
Person = Annotated[
    str | None, typer.Option(help="The column that says whose a record is: persons are protected, not records.")
]
Sign = Annotated[
    Path | None, typer.Option(help="Sign the certificate with the key in this folder (see `sordino identity`).")
]
LedgerAddress = Annotated[
    str | None, typer.Option(help="Charge the release to this ledger, and sign there too (see `sordino ledger`).")
]
Dataset = Annotated[str | None, typer.Option(help="The data set's name in the ledger.")]


def require_both(ledger: str | None, dataset: str | None) -> None:
    if (ledger is None) != (dataset is None):
        raise ValueError("--ledger and --dataset go together: name both, or neither.")


def charging(ledger: str | None, dataset: str | None, signer: Identity | None) -> AbstractContextManager[None]:
    """A block whose releases are charged, where a ledger is named."""
    if ledger is None or dataset is None:
        return nullcontext()
    from sordino.ledger.ledger import Ledger
    from sordino.privacy.ledger_context import charged_to

    return charged_to(Ledger(ledger, signer), dataset)


def identity_files(folder: Path | None) -> tuple[Path, ...]:
    """The files of whoever signs, which no result may take the place of."""
    from sordino.identity import CERTIFICATE, KEY

    return () if folder is None else (folder / KEY, folder / CERTIFICATE)


PerPerson = Annotated[
    int | None, typer.Option(help="With persons: use at most so many records of each, drawn at random.")
]
Contributed = Annotated[
    str, typer.Option(help="With persons: how their records count as one: mean, capped, or sum, clipped as one.")
]
Typical = Annotated[
    float | None, typer.Option(help="With --contribution sum: a public guess of how many records a person has.")
]
LossName = Annotated[
    str,
    typer.Option(
        help="What is trained: logistic or hinge for classes; huber, squared, quantile, insensitive, poisson (counts) "
        "or gamma (costs) for a number."
    ),
]
_ESTIMATORS = {
    "logistic": "PrivateLogisticRegression",
    "hinge": "PrivateLinearSVC",
    "huber": "PrivateHuberRegressor",
    "squared": "PrivateLinearRegression",
    "quantile": "PrivateQuantileRegressor",
    "insensitive": "PrivateLinearSVR",
    "poisson": "PrivatePoissonRegressor",
    "gamma": "PrivateGammaRegressor",
}

OF_CLASSES = ("logistic", "hinge")


def estimator_named(loss: str) -> Any:
    """The estimator that trains with this loss."""
    import sordino

    if loss not in _ESTIMATORS:
        close = difflib.get_close_matches(loss, _ESTIMATORS, 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise ValueError(f"loss is {loss!r}: it must be {', '.join(_ESTIMATORS)}.{hint}")
    return getattr(sordino, _ESTIMATORS[loss])


def class_weights_named(given: str | None, labels: Iterable[Any]) -> Any:
    """None, "balanced", or `label=number` for some labels, as estimators take them."""
    if given is None or given == "balanced":
        return given
    named = {str(label): label for label in labels}
    found = {}
    for part in given.split(","):
        label, separator, number = part.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            separator = ""
        if not separator or label.strip() not in named:
            raise ValueError(
                f"class-weight is {given!r}: it must be balanced, or the classes of the schema's target with public "
                "numbers, such as no=1,yes=5."
            )
        found[named[label.strip()]] = weight
    return found


def method_named(name: str) -> Any:
    """'auto', or the method with its default settings."""
    from sordino.methods import METHODS

    known = {_spelled(kind): method for kind, method in METHODS.items()}
    if name == "auto":
        return name
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise ValueError(f"method is {name!r}: it must be auto, {', '.join(known)}.{hint}")
    return known[name]()


def _spelled(kind: str) -> str:
    """NoisySGD is noisy-sgd, DPRMSProp dp-rms-prop: capitals in a row are one word, but DP is one of its own."""
    return re.sub(r"(?<=^DP)(?=[A-Z])|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", kind).lower()
