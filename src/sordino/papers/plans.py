"""The numbers of a plan as plain values. A cell of them takes seconds where the runs that follow take hours, so that
`make stale` notices a changed plan of any row."""

from __future__ import annotations

from typing import Any

from sordino.methods.objective_perturbation import ObjectivePerturbationPlan
from sordino.methods.output_perturbation import OutputPerturbationPlan
from sordino.methods.plan import DescentPlan
from sordino.methods.protocol import Plan
from sordino.methods.proximal import ProximalSmoothingPlan
from sordino.oracle.sampling import FullBatch


def numbers(plan: Plan) -> dict[str, Any]:
    if isinstance(plan, ProximalSmoothingPlan):
        return {"sharpness": plan.sharpness, **numbers(plan.inner)}
    if isinstance(plan, ObjectivePerturbationPlan):
        return {"convexity": plan.convexity, "noise": plan.noise.std}
    if isinstance(plan, OutputPerturbationPlan):
        return {"steps": plan.steps, "step size": plan.step_size, "noise": plan.noise.std}
    assert isinstance(plan, DescentPlan)
    return {**settings(plan), "noise": plan.noise.std}


def settings(plan: DescentPlan) -> dict[str, Any]:
    return {
        "steps": plan.steps,
        "step size": plan.step_size,
        "clip": plan.clip,
        "batch": "all" if isinstance(plan.sampling, FullBatch) else plan.sampling.expected_size(plan.records),
    }
