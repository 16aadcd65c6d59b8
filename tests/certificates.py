"""Certificates of runs that need not take place: everything but the weights follows from public facts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from sordino import sentences, wire
from sordino.budget import Budget, Relation
from sordino.certificate import LIBRARIES, Certificate, weights_digest
from sordino.losses import Logistic
from sordino.methods import NoisyGradientDescent, OutputPerturbation
from sordino.oracle.rows import Rows
from sordino.privacy.accountants import guarantee
from sordino.privacy.randomness import SEEDED, SYSTEM
from sordino.problem import Problem

FEDERATIONS = (
    sentences.OUTSIDERS(plan="0123456789abcdef", owners=7),
    sentences.DISTRIBUTED(plan="0123456789abcdef", colluders=2, owners=5),
    sentences.JOINT(plan="fedcba9876543210", colluders=1, owners=4),
    sentences.COMMITTEE(plan="fedcba9876543210", owners=6),
)


def certificate_of(
    budget: Budget = Budget(1.0, 1e-6),  # noqa: B008 - frozen
    records: int = 500,
    method: Any = None,
    bound: float = 2.5,
    assumed: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    randomness: str = SYSTEM,
) -> Certificate:
    problem, rows = Problem(records, 4, Logistic()), Rows(bound, 0.4)
    method = method or OutputPerturbation(steps=20)
    plan = method.plan(problem, budget)
    found = guarantee(plan.event, budget.delta, budget.relation)
    said = sentences.required(problem, budget, method, rows, budget.epsilon)
    return Certificate(
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation=budget.relation,
        requested=budget,
        problem=problem,
        method=method,
        plan=wire.to_plain(plan),
        event=plan.event,
        accountant=found.accountant,
        accounting_error=found.error,
        rows=rows,
        enforced=said["enforced"],
        assumed=(*said["assumed"], *assumed),
        notes=notes,
        randomness=randomness,
        versions=dict.fromkeys(("python", *LIBRARIES), "0.1.0"),
        created="2025-01-01T00:00:00+00:00",
        weights=weights_digest({}),
    )


@st.composite
def certificates(draw: st.DrawFn) -> Certificate:
    relation = draw(st.sampled_from(Relation))
    budget = Budget(draw(st.floats(0.01, 20)), draw(st.floats(1e-12, 1e-3)), relation)
    # output perturbation is for replace-one alone
    steps = draw(st.integers(1, 30))
    methods: list[Any] = [NoisyGradientDescent(steps=steps)]
    if relation is Relation.REPLACE_ONE:
        methods += [OutputPerturbation(steps=steps)]
        budget = draw(st.sampled_from([budget, Budget(budget.epsilon)]))
        methods = methods[1:] if budget.pure else methods
    return certificate_of(
        budget,
        draw(st.integers(20, 10**7)),
        draw(st.sampled_from(methods)),
        draw(st.floats(0.01, 1000)),
        draw(
            st.sampled_from(
                [
                    (),
                    (sentences.CLASSES_GIVEN(),),
                    (sentences.CLASSES_READ(), sentences.SCHEMA_PUBLIC(schema="12ab34cd56ef7890")),
                    (sentences.COUNTS_PUBLIC(counts="north 120, south 3,400"), FEDERATIONS[1]),
                    *((one,) for one in FEDERATIONS),
                ]
            )
        ),
        draw(st.sampled_from([(), (sentences.WENT_ON(times="3 times"),)])),
        draw(st.sampled_from([SYSTEM, SYSTEM, SEEDED])),
    )
