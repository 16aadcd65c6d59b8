"""One file per published algorithm; `baselines` holds those the papers compare with."""

from sordino.methods.adaptive_moments import DPAdam, DPRMSProp
from sordino.methods.baselines import (
    AdaptiveGradientDescent,
    AdaptiveGradientDescentPlan,
    ApproximateMinimaPerturbation,
    BassilySmithThakurta,
    PermutationSGD,
)
from sordino.methods.bounds import Bound, HasBound
from sordino.methods.constant_model import ConstantModel
from sordino.methods.momentum_sgd import DPSGD
from sordino.methods.noisy_gradient_descent import NoisyGradientDescent
from sordino.methods.noisy_newton import NoisyNewton, NoisyNewtonPlan
from sordino.methods.noisy_sgd import NoisySGD
from sordino.methods.objective_perturbation import ObjectivePerturbation, ObjectivePerturbationPlan
from sordino.methods.output_perturbation import OutputPerturbation, OutputPerturbationPlan
from sordino.methods.phased_sgd import PhasedSGD, PhasedSGDPlan
from sordino.methods.plan import DescentPlan, OneReleasePlan
from sordino.methods.protocol import AnyMethod, Method, Plan, Release
from sordino.methods.proximal import ProximalSmoothing, ProximalSmoothingPlan
from sordino.methods.random_round_sgd import RandomRoundSGD
from sordino.methods.rates import RATES, Constant, Cosine, HalvedMidway, Inverse, InverseRoot, Rate, StepDecay, WarmUp
from sordino.methods.recursive_momentum import RecursiveMomentum
from sordino.methods.repeated_selection import RepeatedSelection, RepeatedSelectionPlan, Setting
from sordino.methods.spider_boost import SpiderBoost
from sordino.methods.sufficient_statistics import SufficientStatistics

METHODS: dict[str, type[AnyMethod]] = {
    method.__name__: method
    for method in (
        OutputPerturbation,
        ObjectivePerturbation,
        NoisyGradientDescent,
        NoisySGD,
        SufficientStatistics,
        NoisyNewton,
        ConstantModel,
        ProximalSmoothing,
        RandomRoundSGD,
        DPSGD,
        DPRMSProp,
        DPAdam,
        RecursiveMomentum,
        SpiderBoost,
        PhasedSGD,
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
    "ApproximateMinimaPerturbation",
    "BassilySmithThakurta",
    "Bound",
    "Constant",
    "ConstantModel",
    "Cosine",
    "DPAdam",
    "DPRMSProp",
    "DescentPlan",
    "HalvedMidway",
    "HasBound",
    "Inverse",
    "InverseRoot",
    "Method",
    "NoisyGradientDescent",
    "NoisyNewton",
    "NoisyNewtonPlan",
    "NoisySGD",
    "ObjectivePerturbation",
    "ObjectivePerturbationPlan",
    "OneReleasePlan",
    "OutputPerturbation",
    "OutputPerturbationPlan",
    "PermutationSGD",
    "PhasedSGD",
    "PhasedSGDPlan",
    "Plan",
    "ProximalSmoothing",
    "ProximalSmoothingPlan",
    "RandomRoundSGD",
    "Rate",
    "RecursiveMomentum",
    "Release",
    "RepeatedSelection",
    "RepeatedSelectionPlan",
    "Setting",
    "SpiderBoost",
    "StepDecay",
    "SufficientStatistics",
    "WarmUp",
]
