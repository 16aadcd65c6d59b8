"""A released model as one file: an uncompressed zip archive that is safe to read whoever wrote it.

    model.json          what it predicts and how, with the SHA-256 of every other member
    coef.npy            outputs x features, double precision; of a network, its last layer
    intercept.npy       outputs
    covariance.npy      of the coefficients and the intercept, where there are intervals
    row_centre.npy, row_scale.npy                 where rows were prepared: what they are kept within
    hidden0_coef.npy, hidden0_intercept.npy ..    a network's hidden layers, first to last
    certificate.json    the guarantee, as `Certificate.save` writes it
    schema.toml         the public description of the table, where there was one

Reading never unpickles and needs neither the training nor the accounting libraries. The digests find damage and
careless edits; they are no signature. `verify` checks the guarantee, and that the certificate is about this model: its
weights, and whatever else in the file says what they mean.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from sordino import archive, outputs, wire
from sordino.arrays import Array
from sordino.hidden_layers import HiddenLayers
from sordino.intervals import Intervals, coefficient_intervals, score_intervals
from sordino.row_bound import RowBound, linear_scores
from sordino.row_by_row import Product, row_by_row
from sordino.tabular.columns import ClassTarget, NumberTarget
from sordino.tabular.schema import Schema

if TYPE_CHECKING:
    from sordino.certificate import Certificate, Finding
    from sordino.identity import Identity

FORMAT = "sordino model"
VERSION, NETWORK_VERSION, LINK_VERSION = 3, 4, 5
"""Of linear models, of networks, and of models whose prediction is the exponential of a score."""
MODEL = outputs.Kind("a model file", rb"PK\x03\x04.{26}model\.json")


_REQUIRED = ("model.json", "coef.npy", "intercept.npy", "certificate.json")
_OPTIONAL, _COVARIANCE, _BOUND = "schema.toml", "covariance.npy", ("row_centre.npy", "row_scale.npy")
Link = Literal["identity", "log"]
_LARGEST_LOGARITHM = 700.0
"""Of a prediction: beyond it there are no doubles."""
_LONGEST = 1 << 26
"""Characters of a model.json: the names of very many features."""


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model from a file. Rows, dense or sparse, are raw features, or with a schema what `encode_features` gives."""

    task: str
    coef: Array
    intercept: Array
    classes: NDArray[Any] | None
    feature_names: tuple[str, ...] | None
    schema: Schema | None
    certificate_json: str
    hidden: HiddenLayers | None = None
    """What rows pass through before the weights; None for a linear model."""
    covariance: Array | None = None
    """Of the coefficients and, last, the intercept, over other records and other noise."""
    link: Link = "identity"
    """What a number that is predicted is of the score: itself, or with "log" its exponential."""
    row_bound: RowBound | None = None
    """What the rows of a linear model are kept within; None where they are taken as they are."""

    def __post_init__(self) -> None:
        outputs = len(self.intercept)
        if self.coef.ndim != 2 or self.intercept.ndim != 1 or len(self.coef) != outputs:
            raise ValueError(f"the weights have shapes {self.coef.shape} and {self.intercept.shape}, which do not fit.")
        if not (np.isfinite(self.coef).all() and np.isfinite(self.intercept).all()):
            raise ValueError("the weights are not all finite numbers.")
        wanted = 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)
        if self.task not in ("classification", "regression") or (self.task == "regression") != (self.classes is None):
            raise ValueError(f"the task {self.task!r} does not fit the classes.")
        if self.link not in get_args(Link) or (
            self.link == "log" and not (self.classes is None and self.hidden is None)
        ):
            raise ValueError(f"the link {wire.shown(self.link)} is not one of a linear model that predicts a number.")
        if outputs != wanted or (self.classes is not None and len(self.classes) < 2):
            raise ValueError(f"the model has {outputs} outputs, and its classes ask for another number.")
        if self.hidden is not None and self.hidden.width not in (None, self.coef.shape[1]):
            raise ValueError(f"the last layer takes {self.coef.shape[1]} numbers, and {self.hidden.width} come.")
        if self.covariance is not None and not self._covers(self.covariance):
            raise ValueError("the covariance is not that of the coefficients and the intercept of one score.")
        if self.row_bound is not None and (self.hidden is not None or len(self.row_bound.centre) != self.features):
            raise ValueError(f"the bound on rows is not one for linear models of {self.features} features.")
        if self.schema is not None and not self._fits(self.schema):
            raise ValueError("the schema describes other columns or classes than the weights have.")

    @property
    def features(self) -> int:
        """How many numbers a row has."""
        return int(self.coef.shape[1] if self.hidden is None else self.hidden.features or self.coef.shape[1])

    @property
    def weights(self) -> dict[str, Array]:
        """The arrays by the names they have in the file, without the ending."""
        return _named(self.coef, self.intercept, self.hidden, self.covariance, self.row_bound)

    @property
    def released(self) -> dict[str, NDArray[Any]]:
        """What a certificate is about: the weights, and all that decides what they predict."""
        return _released(
            self.coef,
            self.intercept,
            self.hidden,
            self.covariance,
            self.row_bound,
            self.classes,
            self.feature_names,
            self.schema,
            self.link,
        )

    @cached_property
    def certificate(self) -> Certificate:
        from sordino.certificate import Certificate

        return Certificate.from_json(self.certificate_json)

    def decision_function(self, X: Any) -> Array:
        """One score per row for two classes, one per row and class for more."""
        self._require_classes("decision_function")
        return self._scores(X)

    def predict_proba(self, X: Any) -> Array:
        """One probability per row and class, in the order of `classes`."""
        self._require_classes("predict_proba")
        return probabilities(self._scores(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes, or numbers: with a schema in the target's own unit and range."""
        scores = self._scores(X)
        if self.classes is not None:
            labels: NDArray[Any] = self.classes[scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)]
            return labels
        return self.numbers(scores)

    def scores_alone(self, X: Any) -> Array:
        """What predictions are made of, every row's its own to the last bit (`row_by_row`)."""
        return self._scores(X, row_by_row)

    def numbers(self, scores: Array) -> Array:
        """Of a model of a number, what scores predict."""
        return self._within_range(linked(scores, self.link))

    def confidence_intervals(self, level: float = 0.95) -> Intervals:
        """Of every coefficient, and of the intercept: each holds with this probability, all together with less."""
        return coefficient_intervals(self.coef[0], float(self.intercept[0]), self._covariance(), level)

    def predict_interval(self, X: Any, level: float = 0.95) -> Array:
        """Low and high end of every prediction, or of the second class's probability (records x 2)."""
        covariance, rows = self._covariance(), self._rows(X)
        ends = score_intervals(rows, self._scores(rows), covariance, level)
        if self.classes is not None:
            # e^a / (1 + e^a), and no overflow
            return np.asarray(np.exp(-np.logaddexp(0.0, -ends)))
        return self.numbers(ends)

    @property
    def asked_for_intervals(self) -> bool:
        """Whether they were paid for; they may have been refused all the same."""
        from sordino.certificate import said_of_intervals

        return said_of_intervals(self.certificate.method) != ()

    def _covariance(self) -> Array:
        if self.covariance is None:
            from sordino.inference import why_no_intervals

            raise ValueError(why_no_intervals(self.certificate))
        return self.covariance

    def _rows(self, X: Any) -> Any:
        rows: Any = X if hasattr(X, "tocsr") else _numbers(X)
        if rows.ndim != 2 or rows.shape[1] != self.features:
            raise ValueError(
                f"the rows have shape {rows.shape}, and the model takes rows of {self.features} features: "
                "encode them the way the training records were."
            )
        return rows

    def _within_range(self, predicted: Array) -> Array:
        match self.schema:
            case Schema(target=NumberTarget(range=ends)):
                return np.clip(predicted, *ends)
        return predicted

    def _scores(self, X: Any, product: Product = operator.matmul) -> Array:
        rows = self._rows(X)
        if self.hidden is not None:
            rows = self.hidden.after(rows.toarray() if hasattr(rows, "toarray") else rows, product)
        scores = linear_scores(rows, self.coef, self.row_bound, product) + self.intercept
        if not np.isfinite(scores).all():
            raise ValueError("the rows hold missing or infinite numbers: a prediction needs finite ones.")
        return scores if len(self.intercept) > 1 else scores.ravel()

    def _require_classes(self, method: str) -> None:
        if self.classes is None:
            raise ValueError(f"{method} is for classifiers, and this model predicts a number: use predict.")

    def _covers(self, covariance: Array) -> bool:
        size = self.features + 1
        return bool(
            self.hidden is None
            and len(self.intercept) == 1
            and covariance.shape == (size, size)
            and np.isfinite(covariance).all()
            and (np.diag(covariance) >= 0).all()
            and (covariance == covariance.T).all()
        )

    def _fits(self, schema: Schema) -> bool:
        if schema.task != self.task or schema.width != self.features:
            return False
        listed = schema.target.classes if isinstance(schema.target, ClassTarget) else ()
        return sorted(listed) == sorted([] if self.classes is None else self.classes.tolist())


def probabilities(scores: Array) -> Array:
    """One per row and class. A score of two classes is the softmax of (-score/2, score/2)."""
    table = np.column_stack([-scores / 2, scores / 2]) if scores.ndim == 1 else scores
    powers = np.exp(table - table.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def linked(scores: Array, link: Link) -> Array:
    """The numbers that scores predict."""
    return np.exp(np.minimum(scores, _LARGEST_LOGARITHM)) if link == "log" else scores


def save_model(
    estimator: Any, path: str | os.PathLike[str], schema: Schema | None = None, signer: Identity | None = None
) -> Certificate:
    """Write a fitted estimator; on failure the old file stays.

    `schema` is that by which the table was encoded that it was fitted on, where the estimator has none of its own.
    The certificate is returned as it is in the file: about the model with its schema, and signed by `signer` if any.
    """
    certificate = _issued(estimator, schema)
    if signer is not None:
        certificate = certificate.sign(signer)
    outputs.write(path, _pack(_with(certificate, estimator, schema)), MODEL)
    return certificate


def model_of(estimator: Any, schema: Schema | None = None) -> LoadedModel:
    """What `read_model` will give once a fitted estimator is saved."""
    return _with(_issued(estimator, schema), estimator, schema)


def _issued(estimator: Any, schema: Schema | None) -> Certificate:
    """The estimator's certificate, about the model with its schema."""
    if not hasattr(estimator, "certificate_"):
        raise ValueError(
            f"a {type(estimator).__name__} without a certificate cannot be saved, reported on or evaluated: fit one "
            "of Sordino's estimators first, and give that estimator itself rather than a pipeline around it."
        )
    if hasattr(estimator, "best_estimator_"):
        raise ValueError(
            f"a {type(estimator).__name__} is saved, reported on and evaluated as the model that it found: give its "
            "best_estimator_, whose certificate covers the whole search."
        )
    certificate: Certificate = estimator.certificate_
    # weights that were changed since leave it about those that were released
    if schema is None or not certificate.is_about(released_weights(estimator)):
        return certificate
    if certificate.signature is not None:
        raise ValueError(
            "the certificate was signed before the schema was known, which is a part of the model: leave it unsigned, "
            "and let save_model sign it with `signer`."
        )
    return certificate.about(released_weights(estimator, schema))


def _with(certificate: Certificate, estimator: Any, schema: Schema | None) -> LoadedModel:
    coef, intercept, hidden, covariance, row_bound, classes, names, schema, link = _parts(estimator, schema)
    return LoadedModel(
        task=_task(classes),
        coef=coef,
        intercept=intercept,
        classes=classes,
        feature_names=names,
        schema=schema,
        certificate_json=certificate.to_json(),
        hidden=hidden,
        covariance=covariance,
        link=link,
        row_bound=row_bound,
    )


def require_places(
    model: str | os.PathLike[str], certificate: str | os.PathLike[str] | None, inputs: outputs.Paths = ()
) -> None:
    """Before training: may a model and its certificate be written here? A certificate only beside its own model."""
    if certificate is None:
        outputs.require_writable([(model, MODEL)], inputs)
        return
    from sordino.certificate import CERTIFICATE

    outputs.require_writable([(model, MODEL), (certificate, CERTIFICATE)], inputs)
    there = Path(certificate).read_bytes() if Path(certificate).exists() else b""
    if there and not _is_certificate_of(there, model):
        raise FileExistsError(
            f"{certificate} is the certificate of another model than the one in {model}, so it is not replaced: name "
            "another file, or remove it first."
        )


def released_weights(estimator: Any, schema: Schema | None = None) -> dict[str, NDArray[Any]]:
    """What a model file of this fitted estimator will say, and its certificate is about."""
    return _released(*_parts(estimator, schema))


def read_model(path: str | os.PathLike[str]) -> LoadedModel:
    """The model, or a sentence on why the file is not an intact one."""
    content = Path(path).read_bytes()
    try:
        return _unpack(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def verify_model(model: LoadedModel) -> tuple[Finding, ...]:
    """Whether the model is the one that the certificate speaks of, then every check of the certificate."""
    from sordino.certificate import Finding, verify

    if not isinstance(model, LoadedModel):
        raise TypeError(f"{wire.shown(model)} is not a model as it was read: give read_model(..) of its file.")
    certificate = model.certificate
    fits = _fits(model, certificate.problem, certificate.rows)
    findings = [Finding(fits, f"the weights {'are' if fits else 'are not'} of the shape the certificate speaks of.")]
    if model.schema is not None:
        bound = model.hidden.row_norm if model.hidden else certificate.rows.bound if certificate.rows else None
        bounded = bound == model.schema.row_norm
        verb = "are" if bounded else "are not"
        findings.append(Finding(bounded, f"the schema's rows {verb} within the bound the certificate speaks of."))
    if model.covariance is not None:
        paid = model.asked_for_intervals
        verb = "follow" if paid else "do not follow"
        findings.append(Finding(paid, f"its intervals {verb} from sums that the certificate counts."))
    return (*findings, *verify(certificate, model.released))


def _fits(model: LoadedModel, problem: Any, rows: Any) -> bool:
    if model.hidden is not None:
        return bool(getattr(problem, "features", None) is None and problem.dim == model.hidden.size + _size(model))
    features = model.coef.shape[1] + (rows is not None and rows.has_intercept)
    if getattr(problem, "features", None) != features or problem.loss.outputs != len(model.intercept):
        return False
    return (type(problem.loss).__name__ in ("Poisson", "Gamma")) == (model.link == "log")


def _size(model: LoadedModel) -> int:
    return model.coef.size + model.intercept.size


def _is_certificate_of(certificate: bytes, model: str | os.PathLike[str]) -> bool:
    try:
        return read_model(model).certificate_json.encode() == certificate
    except (OSError, ValueError):
        return False


def _numbers(X: Any) -> Array:
    try:
        return np.asarray(X, dtype=float)
    except (TypeError, ValueError):
        pass
    # outside of the block above, because what NumPy says quotes the cell
    raise ValueError(
        "the rows hold something that is not a number, or have different lengths: give a table of numbers."
    )


def _layers(estimator: Any) -> tuple[Array, Array, HiddenLayers | None]:
    if hasattr(estimator, "file_layers"):
        return estimator.file_layers()  # type: ignore[no-any-return]
    coef = np.atleast_2d(np.asarray(estimator.coef_, dtype=float))
    return coef, np.atleast_1d(np.asarray(estimator.intercept_, dtype=float)), None


def _named(
    coef: Array,
    intercept: Array,
    hidden: HiddenLayers | None,
    covariance: Array | None,
    row_bound: RowBound | None,
) -> dict[str, Array]:
    layers = () if hidden is None else hidden.layers
    bound = {} if row_bound is None else {"row_centre": row_bound.centre, "row_scale": row_bound.scale}
    return {
        "coef": coef,
        "intercept": intercept,
        **({} if covariance is None else {"covariance": covariance}),
        **bound,
        **{
            f"hidden{number}_{name}": array
            for number, layer in enumerate(layers)
            for name, array in zip(("coef", "intercept"), layer, strict=True)
        },
    }


def _parts(
    estimator: Any, schema: Schema | None
) -> tuple[
    Array,
    Array,
    HiddenLayers | None,
    Array | None,
    RowBound | None,
    NDArray[Any] | None,
    tuple[str, ...] | None,
    Schema | None,
    Link,
]:
    if schema is None and getattr(estimator, "encoded_by", None) is not None:
        schema = estimator.schema_
    names = getattr(estimator, "feature_names_in_", None) if schema is None else schema.feature_names
    classes = getattr(estimator, "classes_", None)
    known = getattr(estimator, "covariance_", None), getattr(estimator, "row_bound_", None)
    link = cast(Link, getattr(estimator, "link", "identity"))
    return *_layers(estimator), *known, classes, None if names is None else tuple(map(str, names)), schema, link


def _released(
    coef: Array,
    intercept: Array,
    hidden: HiddenLayers | None,
    covariance: Array | None,
    row_bound: RowBound | None,
    classes: NDArray[Any] | None,
    names: tuple[str, ...] | None,
    schema: Schema | None,
    link: Link,
) -> dict[str, NDArray[Any]]:
    # the classes in their order, with their kind: 1 and "1" are two labels
    labels = None if classes is None else [f"{type(label).__name__} {label}" for label in classes.tolist()]
    meaning = {
        **_meaning(hidden, classes, names, link),
        "classes": labels,
        "schema": None if schema is None else schema.to_toml(),
    }
    return {**_named(coef, intercept, hidden, covariance, row_bound), "meaning": np.array(wire.canonical(meaning))}


def _meaning(
    hidden: HiddenLayers | None, classes: NDArray[Any] | None, names: tuple[str, ...] | None, link: Link
) -> dict[str, Any]:
    """What model.json says of the weights, and a certificate binds. Whatever else it comes to say belongs in here."""
    said: dict[str, Any] = {"task": _task(classes), "features": None if names is None else list(names)}
    if hidden is not None:
        row_norm, layers = float(hidden.row_norm), len(hidden.layers)
        said["network"] = {"activation": hidden.activation, "row_norm": row_norm, "hidden": layers}
    if link != "identity":
        said["link"] = link
    return said


def _task(classes: NDArray[Any] | None) -> str:
    return "regression" if classes is None else "classification"


def _pack(model: LoadedModel) -> bytes:
    members = {
        **{f"{name}.npy": archive.from_array(array) for name, array in model.weights.items()},
        "certificate.json": model.certificate_json.encode(),
    }
    if model.schema is not None:
        members[_OPTIONAL] = model.schema.to_toml().encode()
    body = _body(model, members)
    return archive.pack(
        {"model.json": json.dumps({**body, "digest": wire.digest(body)}, indent=1, allow_nan=False).encode(), **members}
    )


def _body(model: LoadedModel, members: dict[str, bytes]) -> dict[str, Any]:
    """model.json, without its digest."""
    return {
        "format": FORMAT,
        "version": NETWORK_VERSION
        if model.hidden is not None
        else VERSION
        if model.link == "identity"
        else LINK_VERSION,
        "classes": None if model.classes is None else _plain_classes(model.classes),
        "members": {name: _sha256(content) for name, content in members.items()},
        **_meaning(model.hidden, model.classes, model.feature_names, model.link),
    }


def _unpack(content: bytes) -> LoadedModel:
    members = archive.unpack(content, _is_model)
    try:
        body = wire.parse(members["model.json"].decode(), _LONGEST)
        if body["format"] != FORMAT:
            raise KeyError("format")
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"this is not a Sordino model file: its model.json is not that of a {FORMAT}.") from None
    if body.get("version") not in (VERSION, NETWORK_VERSION, LINK_VERSION):
        raise ValueError(
            f"this model file has version {wire.shown(body.get('version'))}, and versions {VERSION} to {LINK_VERSION} "
            "are known here: use the Sordino release that wrote it, or a newer one."
        )
    others = {name: member for name, member in members.items() if name != "model.json"}
    stated = {name: _sha256(member) for name, member in others.items()}
    if body.pop("digest", None) != wire.digest(body) or body.get("members") != stated:
        raise ValueError("this model file was altered or damaged: its digests do not match its content.")
    try:
        classes, names = body["classes"], body["features"]
        model = LoadedModel(
            task=body["task"],
            coef=archive.to_array(members["coef.npy"]),
            intercept=archive.to_array(members["intercept.npy"]),
            classes=None if classes is None else np.array(_plain_classes(classes)),
            feature_names=None if names is None else tuple(map(str, names)),
            schema=Schema.from_toml(members[_OPTIONAL].decode()) if _OPTIONAL in members else None,
            certificate_json=members["certificate.json"].decode(),
            hidden=_hidden(body["network"], members) if body["version"] == NETWORK_VERSION else None,
            covariance=archive.to_array(members[_COVARIANCE]) if _COVARIANCE in members else None,
            link=body["link"] if body["version"] == LINK_VERSION else "identity",
            row_bound=_row_bound(members) if members.keys() & set(_BOUND) else None,
        )
        again = _body(model, others)
    except (KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"this model file is incomplete: {wire.shown(error)} is missing or malformed.") from None
    arrays = {f"{name}.npy" for name in model.weights} == {name for name in others if name.endswith(".npy")}
    if not arrays or wire.canonical(body) != wire.canonical(again):
        raise ValueError("this model file was not written by Sordino: it would write the same values otherwise.")
    return model


def _hidden(stated: Any, members: dict[str, bytes]) -> HiddenLayers:
    layers = tuple(
        (
            archive.to_array(members[f"hidden{number}_coef.npy"]),
            archive.to_array(members[f"hidden{number}_intercept.npy"]),
        )
        for number in range(stated["hidden"])
    )
    return HiddenLayers(stated["row_norm"], stated["activation"], layers)


def _row_bound(members: dict[str, bytes]) -> RowBound:
    centre, scale = (archive.to_array(members[name]) for name in _BOUND)
    return RowBound(centre, scale)


def _is_model(names: set[str]) -> bool:
    hidden = {name for name in names if re.fullmatch(r"hidden\d+_(coef|intercept)\.npy", name)}
    return names - hidden - {_OPTIONAL, _COVARIANCE, *_BOUND} == set(_REQUIRED)


def _plain_classes(classes: Any) -> list[Any]:
    plain = list(classes.tolist() if isinstance(classes, np.ndarray) else classes)
    # one kind only: an array of texts and numbers would turn the numbers into texts
    if {type(value) for value in plain} not in ({str}, {int}, {float}, {bool}):
        raise ValueError("the classes must be all texts or all numbers to have a place in a file.")
    return plain


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
