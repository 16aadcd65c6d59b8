r"""Approximate minima perturbation (Iyengar, Near, Song, Thakkar, Thakurta & Wang 2019, Algorithm 1).

Objective perturbation stopped at a gradient norm gamma of the mean objective, with a split of the budget:
epsilon_2 = .01 epsilon and delta_2 = .01 delta for the output, epsilon_3 = f epsilon_1 of the rest for the noise b,

    Lambda = 2 beta / (epsilon_1 - epsilon_3),                         gamma = 1/n^2,
    std(b) = 2 L (1 + sqrt(2 log(1/delta_1))) / epsilon_3,             (sums, replace-one)
    std(output) = (n gamma / Lambda) (1 + sqrt(2 log(1/delta_2))) / epsilon_2.

Two data sets give points in a common ball of radius n gamma/Lambda, so the output's sensitivity is 2 n gamma/Lambda
where the paper has half of that; and its proof has the gap of the one it builds on. The certificate states what this
noise gives by the profile of `ObjectivePerturbation`, which is the same method with the noise calibrated to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from sordino.arrays import Array
from sordino.budget import Budget
from sordino.methods.objective_perturbation import ObjectivePerturbation, ObjectivePerturbationPlan
from sordino.methods.protocol import AnyProblem, Calibration, Release
from sordino.oracle.protocol import ExactOracle, Oracle
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness


@dataclass(frozen=True)
class ApproximateMinimaPerturbation:
    """The printed split; `calibration` can only be "paper", and the tight form is `ObjectivePerturbation`."""

    calibration: Calibration = "paper"

    needs: ClassVar[type[Oracle]] = ExactOracle

    def plan(self, problem: AnyProblem, budget: Budget) -> ObjectivePerturbationPlan:
        if self.calibration != "paper":
            raise ValueError(
                f"calibration is {self.calibration!r}: approximate minima perturbation is the printed split; "
                "its tight form is ObjectivePerturbation()."
            )
        problem = ObjectivePerturbation(calibration="paper").require(problem, budget)
        L, _, mu = problem.constants
        n, d, epsilon, delta = problem.records, problem.dim, budget.epsilon, budget.delta
        epsilon_2, delta_2 = 0.01 * epsilon, 0.01 * delta
        epsilon_1, delta_1 = epsilon - epsilon_2, delta - delta_2
        # the paper's choice without hyper-parameters
        f = max(min(0.887 + 0.0187 / epsilon**0.373, 0.99), 1 - 1 / epsilon + 0.001)
        epsilon_3 = f * epsilon_1
        smoothness = problem.loss.smoothness(problem.row_norm)
        # strong convexity that is there already counts
        Lambda = max(n * mu, 2 * smoothness / (epsilon_1 - epsilon_3))
        tau = 1 / n  # n gamma
        noise = GaussianNoise(2 * L, 2 * L * (1 + math.sqrt(2 * math.log(1 / delta_1))) / epsilon_3, d)
        std = tau / Lambda * (1 + math.sqrt(2 * math.log(1 / delta_2))) / epsilon_2
        reach = tau + noise.step * math.sqrt(d) / 2
        output_noise = GaussianNoise(2 * reach / Lambda, std, d)
        return ObjectivePerturbationPlan(Lambda, Lambda - n * mu, smoothness / Lambda, tau, noise, output_noise)

    def run(
        self,
        plan: ObjectivePerturbationPlan,
        problem: AnyProblem,
        oracle: ExactOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        return ObjectivePerturbation().run(plan, problem, oracle, randomness, start)
