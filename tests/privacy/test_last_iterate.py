"""Amplification by iteration: vectors, exact laws of quadratics, and propagated densities on a bounded domain."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from sordino.privacy.accountants import gdp_delta
from sordino.privacy.last_iterate import contraction_factor, domain_factor, last_iterate_factor


def amplification(steps, contraction, step_size, diameter, sensitivity, std):
    """mu_G of the last iterate."""
    return sensitivity / std * last_iterate_factor(steps, contraction, diameter / (step_size * sensitivity))


REFERENCE = json.loads((Path(__file__).parent / "reference_values.json").read_text())


@pytest.mark.parametrize(
    ("contraction", "steps", "ratio", "mu"),
    [
        *((float(r["c"]), r["T"], float(r["Dg_over_sigma"]), float(r["mu"]))
          for r in REFERENCE["last_iterate_strongly_convex_gdp"]),
        (0.995, 1000, 0.1, 1.984251070857),
    ],
)  # fmt: skip
def test_contraction(contraction: float, steps: int, ratio: float, mu: float) -> None:
    assert ratio * contraction_factor(steps, contraction) == pytest.approx(mu, rel=1e-9)
    assert amplification(steps, contraction, 0.1, math.inf, ratio, 1.0) == pytest.approx(mu, rel=1e-9)


@pytest.mark.parametrize("row", REFERENCE["last_iterate_bounded_gdp"])
def test_bounded_domain(row: dict[str, str]) -> None:
    names = ("c", "T", "Dg", "sigma", "eta", "diameter", "mu")
    c, steps, sensitivity, std, eta, diameter, mu = (float(row[name]) for name in names)
    assert amplification(int(steps), c, eta, diameter, sensitivity, std) == pytest.approx(mu, rel=1e-9)


@pytest.mark.parametrize(
    ("strong", "eta", "steps", "sensitivity", "std"),
    [(1.0, 0.1, 50, 0.02, 0.1), (0.2, 0.5, 7, 1.0, 3.0), (3.0, 0.2, 20, 1.0, 1.0)],
)
def test_contraction_is_the_exact_law_of_a_quadratic(
    strong: float, eta: float, steps: int, sensitivity: float, std: float
) -> None:
    """F(w) = strong w^2 / 2 +- sensitivity w / 2: both laws are Gaussian, with the same variance."""
    mean, variance = 0.0, 0.0
    for _ in range(steps):
        mean = (1 - eta * strong) * mean + eta * sensitivity
        variance = (1 - eta * strong) ** 2 * variance + (eta * std) ** 2
    exact = mean / math.sqrt(variance)
    assert amplification(steps, abs(1 - eta * strong), eta, math.inf, sensitivity, std) == pytest.approx(
        exact, rel=1e-10
    )


def propagated_delta(
    strong: float, radius: float, eta: float, std: float, sensitivity: float, steps: int, epsilon: float
) -> float:
    """delta(epsilon) between the laws of projected noisy descent on strong w^2/2 +- sensitivity w/2 over [-R, R].

    The density is kept on cells; whatever leaves the interval is projected to its ends, which carry atoms.
    """
    edges = np.linspace(-radius, radius, 401)
    centres = np.concatenate(([-radius], (edges[1:] + edges[:-1]) / 2, [radius]))

    def final(sign: float) -> np.ndarray:
        means = centres - eta * (strong * centres + sign * sensitivity / 2)
        below = ndtr((edges[None, :] - means[:, None]) / (eta * std))
        moves = np.hstack((below[:, :1], np.diff(below, axis=1), 1 - below[:, -1:]))
        law = (np.abs(centres) < 1e-12).astype(float)
        law[np.argmin(np.abs(centres))] = 1.0
        law /= law.sum()
        for _ in range(steps):
            law = law @ moves
        return law

    return float(np.maximum(0.0, final(-1) - math.exp(epsilon) * final(1)).sum())


@pytest.mark.parametrize(
    ("strong", "radius", "eta", "std", "sensitivity", "steps", "epsilon", "exact", "bound"),
    [
        # own computation, two grids: the first is the linear loss, c = 1, the second strongly convex, c < 1
        (0.0, 0.25, 0.1, 0.5, 0.05, 500, 0.5, 0.105, 0.599),
        (0.02, 0.1, 0.2, 0.6, 0.2, 500, 0.1, 0.197, 0.518),
    ],
)
def test_bounded_domain_is_above_the_propagated_law(
    strong: float, radius: float, eta: float, std: float, sensitivity: float, steps: int, epsilon: float, exact: float,
    bound: float,
) -> None:  # fmt: skip
    mu = amplification(steps, 1 - eta * strong, eta, 2 * radius, sensitivity, std)
    assert mu < sensitivity / std * contraction_factor(steps, 1 - eta * strong)
    assert gdp_delta(epsilon, mu) == pytest.approx(bound, abs=6e-4)
    measured = propagated_delta(strong, radius, eta, std, sensitivity, steps, epsilon)
    assert measured == pytest.approx(exact, abs=2e-3)
    for other in (0.0, 0.2, 1.0, 2.0):
        assert propagated_delta(strong, radius, eta, std, sensitivity, steps, other) <= gdp_delta(other, mu)


def test_few_steps_are_nearly_composition() -> None:
    """While the domain has not been felt, the propagated law must be as distinguishable as the bound says, nearly."""
    mu = amplification(3, 1.0, 0.1, 20.0, 0.5, 1.0)
    assert mu == pytest.approx(0.5 * math.sqrt(3), rel=1e-9)
    measured = propagated_delta(0.0, 1.0, 0.1, 1.0, 0.5, 3, 0.5)
    assert measured == pytest.approx(gdp_delta(0.5, mu), rel=0.05)
    assert measured <= gdp_delta(0.5, mu) * (1 + 1e-6)


@pytest.mark.parametrize("contraction", [0.0, 0.3, 0.9, 0.999, 1.0])
@pytest.mark.parametrize("reach", [0.5, 30.0, 1e4])
def test_the_best_horizon_is_found(contraction: float, reach: float) -> None:
    steps = 3000
    powers = contraction ** np.arange(steps + 1)
    horizons = np.arange(1, steps + 1)
    bounds = (powers[horizons] * reach + np.cumsum(powers[:-1])) / np.sqrt(np.cumsum(powers[:-1] ** 2))
    found = domain_factor(steps, contraction, reach)
    assert bounds.min() * (1 - 1e-12) <= found <= bounds.min() * (1 + 1e-3)


def test_more_steps_never_cost_less_and_never_more_than_composition() -> None:
    factors = [last_iterate_factor(steps, 0.98, 50.0) for steps in (1, 2, 5, 20, 100, 1000, 10**6)]
    assert factors == sorted(factors)
    assert factors[0] == pytest.approx(1.0)
    assert all(f <= math.sqrt(t) * (1 + 1e-9) for f, t in zip(factors, (1, 2, 5, 20, 100, 1000, 10**6), strict=True))


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"contraction is 1\.01.*account for every step"):
        contraction_factor(10, 1.01)
    with pytest.raises(ValueError, match="steps is 0"):
        domain_factor(0, 0.5, 1.0)
    with pytest.raises(ValueError, match="must not be negative"):
        domain_factor(10, 0.5, -1.0)
