"""One file per published algorithm."""

from sordino.methods.noisy_gradient_descent import NoisyGradientDescent, NoisyGradientDescentPlan
from sordino.methods.output_perturbation import OutputPerturbation, OutputPerturbationPlan

METHODS: dict[str, type] = {method.__name__: method for method in (OutputPerturbation, NoisyGradientDescent)}

__all__ = [
    "METHODS",
    "NoisyGradientDescent",
    "NoisyGradientDescentPlan",
    "OutputPerturbation",
    "OutputPerturbationPlan",
]
