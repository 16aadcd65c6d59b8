"""What saw the records, and what left."""

from __future__ import annotations

from sordino import sentences
from sordino.certificate import Certificate
from sordino.formatting import number
from sordino.inference import WithIntervals
from sordino.model_file import LoadedModel
from sordino.oracle.protocol import ExactOracle
from sordino.prepare import Discovered, Prepared
from sordino.reporting.section import Section, Table
from sordino.words import unit_of


def flow_section(certificate: Certificate, model: LoadedModel | None, has_schema: bool) -> Section:
    """`model` is None where there is only a certificate."""
    unit = unit_of(certificate)
    method, plan = certificate.method, certificate.plan
    prepared: tuple[tuple[str, str, str], ...] = ()
    noisy = f"yes: noise was added where the records are, to sums of one bounded contribution of each {unit.one}"
    if isinstance(method, Discovered):
        values = f"the values of {number(method.columns)} columns that occur often: they are a part of the schema"
        prepared = (("Discovery of categories", "yes: noise was added to how often each of them occurs", values),)
        method, plan = method.method, plan["inner"]
    if isinstance(method, Prepared):
        names = ", ".join(type(step).__name__ for step in method.preparation)
        nothing = "nothing by itself: it is a part of the weights"
        prepared = (*prepared, (f"Preparation of the rows: {names}", noisy, nothing))
        method, plan = method.method, plan["inner"]
    further: tuple[tuple[str, str, str], ...] = ()
    if isinstance(method, WithIntervals):
        asked = noisy if plan["newton"] else "no: they follow from the same sums as the weights"
        refused = model is not None and model.covariance is None
        left = "nothing: no interval would be true" if refused else "the covariance of the weights"
        further = (("Intervals, within the same guarantee", asked, left),)
        method, plan = method.method, plan["inner"]
    # a protocol's own kinds, by name: issubclass asks for methods alone
    exact = ExactOracle in method.needs.__mro__
    saw = "yes: exact sums stayed inside the program, and noise was added before anything left" if exact else noisy
    steps = plan.get("steps")
    weights = () if model is None else (array.size for name, array in model.weights.items() if name != "covariance")
    rows = [
        ("Planning: method, steps, noise", "no", "nothing: every number was fixed before a record was read"),
        *([("Encoding by the schema", "each record by itself", "nothing")] if has_schema else []),
        *prepared,
        (
            f"Training by {type(method).__name__}" + (f", {number(steps)} steps" if steps else ""),
            saw,
            "the weights" if model is None else f"{number(sum(weights))} numbers: the weights",
        ),
        *further,
        ("Certificate", "no", "the guarantee, its public numbers and a digest of the weights"),
        ("This page", "no", "what is on it, made from the files it names"),
    ]
    read = (sentences.PLAN_OF_OWNERS.read(text) for text in certificate.notes)
    owners = next((found["owners"] for found in read if found is not None), None)
    federated = f"The records stayed with {owners} owners, who sent one another nothing but shares of noisy sums."
    return Section(
        "What saw the records, and what left",
        () if owners is None else (federated,),
        tables=(Table("The way of the records", ("step", "saw the records", "what left it"), tuple(rows)),),
    )
