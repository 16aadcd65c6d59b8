"""How good a released model is on held-out private records: measures with noise, paid for, with intervals."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.utils.validation import column_or_1d

from sordino.arrays import Array
from sordino.budget import Budget, Relation
from sordino.estimators.cells import names_of, require_labels, require_numbers
from sordino.estimators.classifiers import codes_of
from sordino.estimators.linear import randomness_of, warn_of_earlier_releases
from sordino.estimators.persons import Whose
from sordino.estimators.saved import stated_target
from sordino.estimators.tables import require_own_targets
from sordino.evaluation import ConfusionMatrix, ErrorMoments, Outcomes, ScoreHistogram
from sordino.evaluation_file import Evaluation, evaluate
from sordino.given import require_number
from sordino.losses import Hinge, unweighted
from sordino.model_file import LoadedModel, model_of, probabilities, read_model
from sordino.oracle.files.source import AS_GIVEN, Coding, Labels, Source
from sordino.problem import HeldOut
from sordino.sentences import SCHEMA_PUBLIC
from sordino.tabular.columns import NumberTarget
from sordino.train import public_count

_REACH_OF_NETWORKS = 8.0
"""Log-odds beyond which nobody needs to tell scores apart."""


def private_score(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: float = 1.0,
    delta: float | None = None,
    relation: str = "replace_one",
    records: int | None = None,
    person: Any = None,
    records_per_person: int | None = None,
    positive: Any = None,
    threshold: float | None = None,
    recall: float | None = None,
    precision: float | None = None,
    positive_rate: float | None = None,
    log_loss_bound: float | None = None,
    target_range: tuple[float, float] | None = None,
    error_bound: float | None = None,
    level: float = 0.95,
    description: str | None = None,
    random_state: int | None = None,
) -> Evaluation:
    """An (epsilon, delta)-private evaluation of a model on records that it was not trained on.

    Two classes: accuracy, AUC, recall, precision, the confusion matrix and a calibration curve; more: accuracy, the
    confusion matrix, recall and precision of every class; a number: RMSE and R^2. Every interval counts the noise.

    Parameters
    ----------
    model : a fitted estimator of Sordino, a loaded model, or a model file.
    X, y : as for `fit`: with a schema a table, whose own column is the target unless `y` is given; or records in files.
    epsilon, delta, relation, records, person, records_per_person, random_state : as for the estimators and `fit`.
    positive : of two classes, the one that recall and thresholds are about; the last one if left out.
    threshold : the probability, or of a support vector machine the score, above which it is predicted. Left out, it is
        the model's own.
    recall, precision, positive_rate : one of them asks for a threshold that has it (see `Evaluation.threshold`).
    log_loss_bound : a public number that asks for the log-loss too; losses above it are cut.
    target_range : of numbers, where the model does not say it. Targets and predictions are clipped to it.
    error_bound : a public bound on errors, in units of y: half the range if left out.
    level : how sure the intervals are.
    description : in words, which records these are.
    """
    loaded = _loaded(model)
    X, whose = Whose.of(X, person, loaded.schema is not None, records_per_person)
    of_classes: dict[str, Any] = {"positive": positive, "threshold": threshold, "log_loss_bound": log_loss_bound}
    goals: dict[str, Any] = {"recall": recall, "precision": precision, "positive rate": positive_rate}
    of_numbers: dict[str, Any] = {"target_range": target_range, "error_bound": error_bound}
    for name, value in {**goals, **of_classes, **of_numbers, "level": level}.items():
        if name not in ("positive", "target_range") and value is not None:
            require_number(name, value)
    if loaded.classes is None:
        _require_none("a model of a number", {**of_classes, **goals})
        trial = _of_numbers(loaded, _range_of(loaded, target_range), error_bound, level)
    else:
        _require_none("a model of classes", of_numbers)
        if len(loaded.classes) > 2:
            _require_none("a model of more than two classes", {**goals, "positive": positive, "threshold": threshold})
            trial = _of_classes(loaded, log_loss_bound, level)
        else:
            trial = _of_two_classes(loaded, positive, threshold, goals, log_loss_bound, level)
    randomness = randomness_of(random_state)
    rows, said, truth, losses = _tried(loaded, trial, X, y)
    persons = whose.persons(randomness)
    if persons is not None and len(persons.owners) != len(truth):
        raise ValueError("person must hold one identifier for every record: it has another length.")
    unit, actual = ("record", len(truth)) if persons is None else ("person", len(persons))
    count = public_count(records, actual, Relation(relation), unit)
    problem = HeldOut(count, loaded.certificate.weights, trial.classes, trial.target_range, whose.unit)
    budget = Budget.of(epsilon, delta, relation, count)
    # whatever can be refused is refused before a release is counted
    trial.statistic.plan(problem, budget)
    warn_of_earlier_releases(rows)
    return evaluate(
        problem,
        budget,
        trial.statistic,
        Outcomes.of(budget.relation, said, truth, losses, persons),
        randomness,
        _described(problem, budget) if description is None else description,
        () if loaded.schema is None else (SCHEMA_PUBLIC(schema=loaded.schema.digest[:16]),),
    )


_Tried = tuple[Array, Array, Array]
"""What a model said, what was true, and log-losses where they are asked for."""


@dataclass(frozen=True, eq=False)
class _Trial:
    """What is measured, and `of`, which makes outcomes of scores and of targets that are coded by `coding`."""

    statistic: Any
    of: Callable[[Array, Array], _Tried]
    coding: Coding = AS_GIVEN
    classes: tuple[str, ...] = ()
    target_range: tuple[float, float] | None = None


def _loaded(model: Any) -> LoadedModel:
    if isinstance(model, str | os.PathLike):
        model = read_model(model)
    loaded = model if isinstance(model, LoadedModel) else model_of(model)
    if not loaded.certificate.is_about(loaded.released):
        raise ValueError(
            "the model's weights are not the ones that were released with its certificate: evaluate it as it was "
            "released, or its measures would be taken for those of another."
        )
    return loaded


def _require_none(of: str, given: dict[str, Any]) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} was given, and {of} has none: leave it out.")


def _of_two_classes(
    model: LoadedModel,
    positive: Any,
    threshold: float | None,
    goals: dict[str, Any],
    loss_bound: float | None,
    level: float,
) -> _Trial:
    assert model.classes is not None
    labels = [str(label) for label in model.classes.tolist()]
    if positive is not None and str(positive) not in labels:
        raise ValueError(f"positive is {positive!r}: it must be one of the model's classes, {' or '.join(labels)}.")
    place = 1 if positive is None else labels.index(str(positive))
    sign = 1.0 if place == 1 else -1.0
    asked: list[tuple[Any, Any]] = [(name, value) for name, value in goals.items() if value is not None]
    if len(asked) > 1:
        raise ValueError("one threshold can be asked for: give one of recall, precision and positive_rate.")
    goal, target = asked[0] if asked else (None, None)
    certificate: Any = model.certificate
    loss = getattr(certificate.problem, "loss", None)
    probabilities = loss is None or not isinstance(unweighted(loss), Hinge)
    if threshold is None:
        turns = 0.0
    elif not probabilities:
        turns = float(threshold)
    elif 0 < threshold < 1:
        turns = float(logit(threshold))
    else:
        raise ValueError(f"threshold is {threshold}: it is a probability above 0 and below 1.")
    if model.hidden is None and certificate.rows is not None:
        centre, reach = sign * float(model.intercept[0]), float(np.linalg.norm(model.coef)) * certificate.rows.bound
    else:
        centre, reach = 0.0, _REACH_OF_NETWORKS
    statistic = ScoreHistogram(centre, max(reach, 1e-6), turns, probabilities, goal, target, loss_bound, level)

    def of(scores: Array, codes: Array) -> _Tried:
        return sign * scores, codes if place else 1 - codes, _losses(scores, codes, loss_bound)

    ordered = (labels[1 - place], labels[place])
    return _Trial(statistic, of, _places(model), ordered)


def _of_classes(model: LoadedModel, loss_bound: float | None, level: float) -> _Trial:
    assert model.classes is not None

    def of(scores: Array, codes: Array) -> _Tried:
        return scores.argmax(axis=1).astype(float), codes, _losses(scores, codes, loss_bound)

    labels = tuple(str(label) for label in model.classes.tolist())
    return _Trial(ConfusionMatrix(loss_bound, level), of, _places(model), labels)


def _of_numbers(model: LoadedModel, ends: tuple[float, float], error_bound: float | None, level: float) -> _Trial:
    def of(scores: Array, targets: Array) -> _Tried:
        return model.numbers(scores), targets, np.empty(0)

    return _Trial(ErrorMoments(error_bound, level), of, target_range=ends)


def _losses(scores: Array, codes: Array, bound: float | None) -> Array:
    if bound is None:
        return np.empty(0)
    with np.errstate(divide="ignore"):
        return -np.log(probabilities(scores)[np.arange(len(codes)), codes.astype(np.intp)])


def _places(model: LoadedModel) -> Labels:
    """Of every label among the sorted classes."""
    assert model.classes is not None
    return Labels(tuple(model.classes.tolist()), tuple(map(float, range(len(model.classes)))))


def _range_of(model: LoadedModel, given: tuple[float, float] | None) -> tuple[float, float]:
    """The public range of targets: the schema's, the one that was given, or the one that the certificate speaks of."""
    match model.schema, given:
        case None, None:
            stated = stated_target(model.certificate)
            bound = stated.get("target_bound")
            ends = stated.get("target_range") if bound is None else (-bound, bound)
            if ends is None:
                raise ValueError(
                    "target_range=(low, high) is required: a range of y that does not come from the data, to which "
                    "targets and predictions are clipped."
                )
            return float(ends[0]), float(ends[1])
        case None, _:
            try:
                low, high = map(float, given or ())
            except (TypeError, ValueError, OverflowError):
                raise ValueError("target_range must be two finite numbers, the lower one first.") from None
            return low, high
        case schema, None if isinstance(schema.target, NumberTarget):
            return schema.target.range
    raise ValueError("the schema has the range of the target: leave target_range out.")


def _tried(model: LoadedModel, trial: _Trial, X: Any, y: Any) -> tuple[Any, Array, Array, Array]:
    """The rows, or where they are, and what the model says of them, piece by piece where they are in files."""
    parts, rows = [], X
    for rows, targets in _pieces(model, trial, X, y):
        if np.isnan(targets).any():
            raise ValueError("at least one record has no target, or a label that is not among the model's classes.")
        # one record more must not move others across an edge by the last bits of their scores; and a warning of NumPy
        # would tell that there is a record of very large numbers
        with np.errstate(all="ignore"):
            parts.append(trial.of(model.scores_alone(rows), targets))
    if not parts or not sum(len(truth) for _, truth, _ in parts):
        raise ValueError("there is no record to evaluate on.")
    said, truth, losses = (np.concatenate(part) for part in zip(*parts, strict=True))
    return (X if isinstance(X, Source) else rows), said, truth, losses


def _pieces(model: LoadedModel, trial: _Trial, X: Any, y: Any) -> Iterator[tuple[Any, Array]]:
    if isinstance(X, Source):
        yield from _of_files(model, trial, X, y)
    elif model.schema is not None:
        from sordino.tabular.encode import encode_codes, encode_features

        targets = X if y is None else {model.schema.target.column: column_or_1d(y)}
        yield encode_features(model.schema, X), _in_units(model, encode_codes(model.schema, targets))
    else:
        require_numbers("X", X)
        if y is None:
            raise ValueError("y is None: give the true target of every record.")
        names = names_of(X)
        if names is not None and model.feature_names is not None and list(map(str, names)) != list(model.feature_names):
            raise ValueError("the columns are not those that the model was fitted on: give the same, in their order.")
        rows = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X, dtype=float)
        if model.classes is None:
            require_numbers("y", y)
            targets = np.asarray(y, dtype=float)
        else:
            require_labels(y)
            targets = codes_of(column_or_1d(y), model.classes).astype(float)
        if targets.shape != (rows.shape[0],):
            raise ValueError(f"y has shape {targets.shape} and X has {rows.shape[0]} rows: one target each is needed.")
        yield rows, targets


def _of_files(model: LoadedModel, trial: _Trial, X: Any, y: Any) -> Iterator[tuple[Any, Array]]:
    from sordino.oracle.cluster import Spread
    from sordino.oracle.files.encoded import EncodedTable
    from sordino.oracle.files.row_major import RowMajor

    require_own_targets(y)
    if isinstance(X, Spread):
        raise ValueError("records on a cluster cannot be evaluated on: give the files themselves.")
    encoded = isinstance(X, EncodedTable)
    if encoded != (model.schema is not None) or (encoded and X.schema != model.schema):
        raise ValueError("the records are encoded by another schema than the model's: give EncodedTable with the same.")
    source, in_rows = X.coded(trial.coding), RowMajor()
    with source.reader() as reader:
        for number in range(source.units.blocks):
            rows, targets = reader.rows(*source.units.span(number), None)
            yield in_rows(rows), _in_units(model, targets) if encoded else targets


def _in_units(model: LoadedModel, coded: Array) -> Array:
    """Numbers of a schema in the target's own unit; of classes they are places already."""
    if model.schema is None or not isinstance(model.schema.target, NumberTarget):
        return coded
    bounds = model.schema.target.bounds
    return bounds.centre + bounds.half * coded


def _described(problem: HeldOut, budget: Budget) -> str:
    about = "" if budget.relation is Relation.REPLACE_ONE else "about "
    whose = f"{problem.unit}s" if problem.person is None else "persons with their records"
    return f"{about}{problem.records:,} held-out {whose}, protected by noise"
