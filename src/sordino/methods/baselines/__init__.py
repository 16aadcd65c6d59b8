"""What the papers compare with, one file per algorithm, corrected where what was published does not hold."""

from sordino.methods.baselines.adaptive_gradient_descent import AdaptiveGradientDescent, AdaptiveGradientDescentPlan
from sordino.methods.baselines.approximate_minima import ApproximateMinimaPerturbation
from sordino.methods.baselines.bassily_smith_thakurta import BassilySmithThakurta
from sordino.methods.baselines.permutation_sgd import PermutationSGD

__all__ = [
    "AdaptiveGradientDescent",
    "AdaptiveGradientDescentPlan",
    "ApproximateMinimaPerturbation",
    "BassilySmithThakurta",
    "PermutationSGD",
]
