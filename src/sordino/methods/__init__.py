"""One file per published algorithm."""

from sordino.methods.noisy_gradient_descent import NoisyGradientDescent, NoisyGradientDescentPlan
from sordino.methods.noisy_sgd import NoisySGD, NoisySGDPlan
from sordino.methods.output_perturbation import OutputPerturbation, OutputPerturbationPlan

METHODS: dict[str, type] = {
    method.__name__: method
    for method in (
        OutputPerturbation,
        NoisyGradientDescent,
        NoisySGD,
    )
}

__all__ = [
    "METHODS",
    "NoisyGradientDescent",
    "NoisyGradientDescentPlan",
    "NoisySGD",
    "NoisySGDPlan",
    "OutputPerturbation",
    "OutputPerturbationPlan",
]
