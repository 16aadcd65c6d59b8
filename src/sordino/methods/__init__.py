"""One file per published algorithm; `baselines` holds those the papers compare with."""

from sordino.methods.baselines import (
    AdaptiveGradientDescent,
    AdaptiveGradientDescentPlan,
    ApproximateMinimaPerturbation,
    BassilySmithThakurta,
    PermutationSGD,
    PermutationSGDPlan,
)
from sordino.methods.noisy_gradient_descent import NoisyGradientDescent, NoisyGradientDescentPlan
from sordino.methods.noisy_sgd import NoisySGD, NoisySGDPlan
from sordino.methods.objective_perturbation import ObjectivePerturbation, ObjectivePerturbationPlan
from sordino.methods.output_perturbation import OutputPerturbation, OutputPerturbationPlan
from sordino.methods.proximal import ProximalSmoothing, ProximalSmoothingPlan
from sordino.methods.repeated_selection import RepeatedSelection, RepeatedSelectionPlan, Setting

METHODS: dict[str, type] = {
    method.__name__: method
    for method in (
        OutputPerturbation,
        ObjectivePerturbation,
        NoisyGradientDescent,
        NoisySGD,
        ProximalSmoothing,
        BassilySmithThakurta,
        ApproximateMinimaPerturbation,
        PermutationSGD,
        AdaptiveGradientDescent,
        RepeatedSelection,
    )
}

__all__ = [
    "METHODS",
    "AdaptiveGradientDescent",
    "AdaptiveGradientDescentPlan",
    "ApproximateMinimaPerturbation",
    "BassilySmithThakurta",
    "NoisyGradientDescent",
    "NoisyGradientDescentPlan",
    "NoisySGD",
    "NoisySGDPlan",
    "ObjectivePerturbation",
    "ObjectivePerturbationPlan",
    "OutputPerturbation",
    "OutputPerturbationPlan",
    "PermutationSGD",
    "PermutationSGDPlan",
    "ProximalSmoothing",
    "ProximalSmoothingPlan",
    "RepeatedSelection",
    "RepeatedSelectionPlan",
    "Setting",
]
