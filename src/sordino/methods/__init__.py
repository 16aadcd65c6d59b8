"""One file per published algorithm; `baselines` holds those the papers compare with."""

from sordino.methods.adaptive_moments import AdaptiveMomentsPlan, DPAdam, DPRMSProp
from sordino.methods.baselines import (
    AdaptiveGradientDescent,
    AdaptiveGradientDescentPlan,
    ApproximateMinimaPerturbation,
    BassilySmithThakurta,
    PermutationSGD,
    PermutationSGDPlan,
)
from sordino.methods.momentum_sgd import DPSGD, DPSGDPlan
from sordino.methods.noisy_gradient_descent import NoisyGradientDescent, NoisyGradientDescentPlan
from sordino.methods.noisy_sgd import NoisySGD, NoisySGDPlan
from sordino.methods.objective_perturbation import ObjectivePerturbation, ObjectivePerturbationPlan
from sordino.methods.output_perturbation import OutputPerturbation, OutputPerturbationPlan
from sordino.methods.proximal import ProximalSmoothing, ProximalSmoothingPlan
from sordino.methods.random_round_sgd import RandomRoundSGD, RandomRoundSGDPlan
from sordino.methods.rates import RATES, Constant, Cosine, HalvedMidway, Rate, StepDecay, WarmUp
from sordino.methods.recursive_momentum import RecursiveMomentum, RecursiveMomentumPlan
from sordino.methods.repeated_selection import RepeatedSelection, RepeatedSelectionPlan, Setting

METHODS: dict[str, type] = {
    method.__name__: method
    for method in (
        OutputPerturbation,
        ObjectivePerturbation,
        NoisyGradientDescent,
        NoisySGD,
        ProximalSmoothing,
        RandomRoundSGD,
        DPSGD,
        DPRMSProp,
        DPAdam,
        RecursiveMomentum,
        BassilySmithThakurta,
        ApproximateMinimaPerturbation,
        PermutationSGD,
        AdaptiveGradientDescent,
        RepeatedSelection,
    )
}

__all__ = [
    "DPSGD",
    "METHODS",
    "RATES",
    "AdaptiveGradientDescent",
    "AdaptiveGradientDescentPlan",
    "AdaptiveMomentsPlan",
    "ApproximateMinimaPerturbation",
    "BassilySmithThakurta",
    "Constant",
    "Cosine",
    "DPAdam",
    "DPRMSProp",
    "DPSGDPlan",
    "HalvedMidway",
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
    "RandomRoundSGD",
    "RandomRoundSGDPlan",
    "Rate",
    "RecursiveMomentum",
    "RecursiveMomentumPlan",
    "RepeatedSelection",
    "RepeatedSelectionPlan",
    "Setting",
    "StepDecay",
    "WarmUp",
]
