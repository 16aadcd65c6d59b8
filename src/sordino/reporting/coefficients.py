"""The released numbers, each with what is known of its error: how far the noise moved it, where that can be derived."""

from __future__ import annotations

import math

import numpy as np

from sordino import sentences
from sordino.arrays import Array
from sordino.certificate import Certificate
from sordino.domains import Everywhere
from sordino.formatting import number
from sordino.methods import OutputPerturbationPlan, PermutationSGDPlan
from sordino.model_file import LoadedModel
from sordino.privacy.noise import GaussianNoise
from sordino.reporting.section import Section, Table

_MOST = 40
"""Rows of the table; a page is read by people."""


def coefficients_section(model: LoadedModel, certificate: Certificate) -> Section:
    if model.hidden is not None:
        return Section(
            "The released model",
            (
                f"A network with {number(sum(array.size for array in model.weights.values()))} weights, noise "
                "included. No single one of them has a meaning of its own, and no error is known for them.",
            ),
        )
    deviation = noise_deviation(certificate)
    rows = _rows(model, None if deviation is None or certificate.rows is None else deviation)
    largest = sorted(rows, key=lambda row: -abs(row[1]))[:_MOST]
    left_out = len(rows) - len(largest)
    shown = tuple(
        (name, _signed(value), *(() if error is None else (_signed(error),))) for name, value, error in largest
    )
    known = deviation is not None
    columns = ("feature", "coefficient", *(("noise, standard deviation",) if known else ()))
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
                " A feature is as the schema encodes it: a number from −1 at its lower bound to 1 at its upper one."
                if model.schema is not None
                else ""
            ),
            "The noise alone moves each of them by about its standard deviation. The choice of records and the "
            "method's own error come on top, and are not in it."
            if known
            else "No error is known for them: this method's noise goes through its steps or its objective, and how far "
            "it moved a coefficient does not follow from the certificate. Do not read a single one as a finding.",
        ),
        tables=(Table(caption, columns, shown, numeric=(1, 2)),),
    )


def noise_deviation(certificate: Certificate) -> float | None:
    """How far the noise moves a raw coefficient, where it was added to the weights themselves and once; else None."""
    if certificate.rows is None or not isinstance(certificate.problem.domain, Everywhere):
        return None
    match certificate.method.plan(certificate.problem, certificate.requested):
        case OutputPerturbationPlan(noise=noise) | PermutationSGDPlan(noise=noise):
            # l2-Laplace: |z|^2 has mean scale^2 dim (dim + 1), shared by dim coordinates
            std = noise.std if isinstance(noise, GaussianNoise) else noise.scale * math.sqrt(noise.dim + 1)
            return float(std * certificate.rows.factor * _target_unit(certificate))
    return None


def _target_unit(certificate: Certificate) -> float:
    """What released weights are multiplied by to predict in the target's own unit."""
    found = (sentences.TARGET_BOUND_PUBLIC.read(text) for text in certificate.assumed)
    return next((float(read["target_bound"]) for read in found if read is not None), 1.0)


def _rows(model: LoadedModel, deviation: float | None) -> list[tuple[str, float, float | None]]:
    names = model.feature_names or tuple(f"feature {place}" for place in range(1, model.features + 1))
    table: Array = np.atleast_2d(model.coef)
    many = len(table) > 1
    labels = [""] if not many or model.classes is None else [f"{label}: " for label in model.classes.tolist()]
    return [
        (f"{label}{name}", float(value), deviation)
        for label, outputs in zip(labels, table, strict=True)
        for name, value in zip(names, outputs, strict=True)
    ]


def _signed(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")
