"""The released numbers, each with what is known of its error: how far the noise moved it, where that can be derived."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sordino import sentences
from sordino.arrays import Array
from sordino.certificate import Certificate
from sordino.domains import Everywhere
from sordino.formatting import number
from sordino.inference import why_no_intervals
from sordino.methods import OutputPerturbationPlan
from sordino.model_file import LoadedModel
from sordino.privacy.noise import GaussianNoise
from sordino.problem import HeldOut
from sordino.reporting.section import Section, Table

_MOST = 40
"""Rows of the table; a page is read by people."""

LEVEL = 0.95

_INTERVALS = (
    f"Each interval holds its coefficient {LEVEL:.0%} of the time, over other records like these and other noise: both "
    "are counted, and what the intervals follow from is within the guarantee. The coefficients they speak of are those "
    "that all such records together would give, with rows and targets bounded, and weights penalised, as they were "
    "here. Many intervals hold together less often than each of them."
)
_NOISE = (
    "The noise alone moves each of them by about its standard deviation. The choice of records and the method's own "
    "error come on top, and are not in it."
)
_UNKNOWN = (
    "No error is known for them: this method's noise goes through its steps or its objective, and how far it moved a "
    "coefficient does not follow from the certificate. Do not read a single one as a finding; a model that is fitted "
    "with intervals has them."
)


def coefficients_section(model: LoadedModel, certificate: Certificate) -> Section:
    if model.hidden is not None:
        return Section(
            "The released model",
            (
                f"A network with {number(sum(array.size for array in model.weights.values()))} weights, noise "
                "included. No single one of them has a meaning of its own, and no error is known for them.",
            ),
        )
    heading, errors, said = _errors(model, certificate)
    listed = list(zip(_rows(model), errors, strict=True))
    largest = sorted(listed, key=lambda row: -abs(row[0][1]))[:_MOST]
    left_out = len(listed) - len(largest)
    caption = (
        "Coefficients"
        if not left_out
        else f"The {_MOST} largest coefficients; {number(left_out)} more are in the model file"
    )
    return Section(
        "The released model",
        (
            "These are the released numbers, noise included: they may be read, used and published like any others."
            + (
                " A feature is as the schema encodes it: a number from −1 at its lower bound to 1 at its upper one, or "
                "0 at what it names as typical."
                if model.schema is not None
                else ""
            )
            + (
                " A prediction is the exponential of their sum: a coefficient of 0.1 is about a tenth more of what is "
                "predicted, for every unit of its feature."
                if model.link == "log"
                else ""
            )
            + (
                " A row that lies further out than most of the training records is predicted as if it were at the "
                "edge of them, which the file holds: there the prediction no longer grows with a coefficient."
                if model.row_bound is not None
                else ""
            ),
            said,
        ),
        tables=(
            Table(
                caption,
                ("feature", "coefficient", *heading),
                tuple((name, _signed(value), *error) for (name, value), error in largest),
                numeric=tuple(range(1, 2 + len(heading))),
            ),
        ),
    )


def _errors(model: LoadedModel, certificate: Certificate) -> tuple[tuple[str, ...], list[tuple[str, ...]], str]:
    """The columns that tell of errors, their cells for every coefficient, and what they mean."""
    if model.covariance is not None:
        ends = model.confidence_intervals(LEVEL).coef
        intervals = [f"{_signed(low)} to {_signed(high)}" for low, high in ends]
        if model.classes is None:
            return (f"{LEVEL:.0%} interval",), [(cell,) for cell in intervals], _INTERVALS
        with np.errstate(over="ignore"):
            odds = [f"× {low:.3g} to × {high:.3g}" for low, high in np.exp(ends)]
        headings = (f"{LEVEL:.0%} interval", f"odds of {model.classes[1]} for one more, {LEVEL:.0%}")
        return headings, list(zip(intervals, odds, strict=True)), _INTERVALS
    nothing: list[tuple[str, ...]] = [()] * model.coef.size
    if model.asked_for_intervals:
        why = why_no_intervals(certificate)
        return (), nothing, f"{why[0].upper()}{why[1:]}"
    deviation = noise_deviation(certificate)
    if deviation is None:
        return (), nothing, _UNKNOWN
    return ("noise, standard deviation",), [(_signed(deviation),)] * model.coef.size, _NOISE


def noise_deviation(certificate: Certificate) -> float | None:
    """How far the noise moves a raw coefficient, where it was added to the weights themselves and once; else None."""
    method: Any = certificate.method
    problem = certificate.problem
    if certificate.rows is None or isinstance(problem, HeldOut) or not isinstance(problem.domain, Everywhere):
        return None
    match method.plan(problem, certificate.requested):
        case OutputPerturbationPlan(noise=noise):
            # l2-Laplace: |z|^2 has mean scale^2 dim (dim + 1), shared by dim coordinates
            std = noise.std if isinstance(noise, GaussianNoise) else noise.scale * math.sqrt(noise.dim + 1)
            return float(std * certificate.rows.factor * _target_unit(certificate))
    return None


def _target_unit(certificate: Certificate) -> float:
    """What released weights are multiplied by to predict in the target's own unit."""
    found = (sentences.TARGET_BOUND_PUBLIC.read(text) for text in certificate.assumed)
    return next((float(read["target_bound"]) for read in found if read is not None), 1.0)


def _rows(model: LoadedModel) -> list[tuple[str, float]]:
    names = model.feature_names or tuple(f"feature {place}" for place in range(1, model.features + 1))
    table: Array = np.atleast_2d(model.coef)
    many = len(table) > 1
    labels = [""] if not many or model.classes is None else [f"{label}: " for label in model.classes.tolist()]
    return [
        (f"{label}{name}", float(value))
        for label, outputs in zip(labels, table, strict=True)
        for name, value in zip(names, outputs, strict=True)
    ]


def _signed(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")
