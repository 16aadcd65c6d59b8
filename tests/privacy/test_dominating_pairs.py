"""The worst cases themselves, and that putting their losses on a grid errs to the side it should."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from sordino.privacy.accountants.discretise import Atoms, Grid, lower, upper
from sordino.privacy.accountants.pairs import Added, Dominating, FixedPair, Pure, Removed, Replaced
from sordino.privacy.gaussian_profile import gdp_delta

REFERENCE = json.loads((Path(__file__).parent / "reference_values.json").read_text())


def profile(pair: Dominating, epsilon: float) -> float:
    """delta(epsilon) = P(L > epsilon) - e^epsilon Q(L > epsilon)"""
    edges = np.array([epsilon, 0.0, np.inf]) if epsilon < 0 else np.array([epsilon, np.inf])
    mass, excess = pair.cells(edges)
    if epsilon >= 0:
        return float(excess[0])
    beyond = (mass[1] - excess[1]) * -math.expm1(epsilon)
    return float(excess[0] + excess[1] + beyond + pair.atom * -math.expm1(epsilon))


@pytest.mark.parametrize("row", REFERENCE["profile_wor_replace_single"])
def test_fixed_size_profile(row: dict[str, str]) -> None:
    pair = FixedPair(float(row["q"]), float(row["mu"]))
    assert profile(pair, float(row["eps"])) == pytest.approx(float(row["delta"]), rel=1e-9)


@pytest.mark.parametrize("row", REFERENCE["profile_poisson_single"])
def test_poisson_profile(row: dict[str, str]) -> None:
    q, mu, epsilon = float(row["q"]), float(row["mu"]), float(row["eps"])
    assert profile(Removed(q, mu), epsilon) == pytest.approx(float(row["delta_remove"]), rel=1e-9)
    assert profile(Added(q, mu), epsilon) == pytest.approx(float(row["delta_add"]), rel=1e-9)


def test_sampling_everybody_is_the_gaussian_mechanism() -> None:
    for epsilon in (-1.0, 0.0, 0.5, 3.0):
        assert profile(Removed(1.0, 0.8), epsilon) == pytest.approx(gdp_delta(epsilon, 0.8), rel=1e-9)
        assert profile(Replaced(1.0, 0.4), epsilon) == pytest.approx(gdp_delta(epsilon, 0.8), rel=1e-9)


@pytest.mark.parametrize("pair", [Replaced(0.02, 0.7), FixedPair(0.02, 0.7)])
@pytest.mark.parametrize("epsilon", [0.01, 0.2, 1.0])
def test_replacing_is_symmetric(pair: Dominating, epsilon: float) -> None:
    # H(-e) = 1 - e^-e + e^-e H(e) exactly when (P, Q) and (Q, P) are equally hard to tell apart
    mirrored = -math.expm1(-epsilon) + math.exp(-epsilon) * profile(pair, epsilon)
    assert profile(pair, -epsilon) == pytest.approx(mirrored, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.3])
def test_adding_is_removing_the_other_way_round(epsilon: float) -> None:
    forth, back = Removed(0.05, 1.1), Added(0.05, 1.1)
    mirrored = -math.expm1(-epsilon) + math.exp(-epsilon) * profile(back, epsilon)
    assert profile(forth, -epsilon) == pytest.approx(mirrored, rel=1e-12)


@pytest.mark.parametrize(("rate", "shift"), [(0.01, 1.0), (0.1, 1.6), (0.5, 0.5)])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5])
def test_opposite_contributions_are_the_worst_replacement(rate: float, shift: float, epsilon: float) -> None:
    """Two contributions x, x' anywhere in the disc of radius `shift`, by quadrature over the plane.

    By rotation x may lie on an axis.  The antipodal pair is computed the same way, so quadrature errors cancel.
    """
    line = np.linspace(-8 - shift, 8 + shift, 401)
    first, second = np.meshgrid(line, line)

    def mixture(x: float, y: float) -> np.ndarray:
        moved = np.exp(-0.5 * ((first - x) ** 2 + (second - y) ** 2))
        return (1 - rate) * np.exp(-0.5 * (first**2 + second**2)) + rate * moved

    area = (line[1] - line[0]) ** 2 / (2 * math.pi)
    worst = np.maximum(0.0, mixture(shift, 0) - math.exp(epsilon) * mixture(-shift, 0)).sum() * area
    assert worst == pytest.approx(profile(Replaced(rate, shift), epsilon), rel=5e-3)
    for radius in (0.5, 1.0):
        for angle in (0.3, 0.6, 0.9, 1.0):
            for length in (0.5, 1.0):
                x = shift * radius
                a, b = shift * length * math.cos(math.pi * angle), shift * length * math.sin(math.pi * angle)
                pair = np.maximum(0.0, mixture(x, 0) - math.exp(epsilon) * mixture(a, b)).sum() * area
                assert pair <= worst * (1 + 1e-9)


PAIRS = [
    Removed(1.0, 0.5),
    Removed(0.01, 1.0),
    Removed(0.001, 3.0),
    Removed(0.3, 0.1),
    Added(0.01, 1.0),
    Added(0.4, 2.0),
    Replaced(0.01, 1.0),
    Replaced(0.2, 0.2),
    FixedPair(0.01, 1.0),
    FixedPair(0.3, 2.5),
]


def discrete_profile(atoms: Atoms, step: float, epsilon: float) -> float:
    losses = atoms.losses(step)
    beyond = losses > epsilon
    return atoms.infinite + float(atoms.mass[beyond] @ -np.expm1(epsilon - losses[beyond]))


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("fineness", [0.02, 0.3, 5.0])
def test_grids_bound_the_profile_from_both_sides(pair: Dominating, fineness: float) -> None:
    grid = Grid(fineness * pair.scale, 0.01, -60.0, -60.0)
    above, below = upper(pair, grid), lower(pair, grid)
    losses = above.losses(grid.step)
    # on the points, between them, and left of all
    for epsilon in np.concatenate((losses[::97], losses[::89] + 0.37 * grid.step, [losses[0] - 1])):
        exact = profile(pair, float(epsilon))
        rounding = 1e-12 + 1e-9 * exact
        assert discrete_profile(above, grid.step, epsilon) >= exact - 1e-15
        assert discrete_profile(below, grid.step, epsilon) <= exact + rounding


def test_random_pairs_are_bounded_from_both_sides() -> None:
    random = np.random.default_rng(7)
    for _ in range(60):
        kind = [Removed, Added, Replaced, FixedPair][random.integers(4)]
        pair = kind(10 ** random.uniform(-5, -0.01), 10 ** random.uniform(-2, 0.8))
        grid = Grid(10 ** random.uniform(-2, 1) * pair.scale, 10 ** random.uniform(-3, -1), -50.0, -50.0)
        above, below = upper(pair, grid), lower(pair, grid)
        losses = above.losses(grid.step)
        for epsilon in random.uniform(losses[0], losses[-1], 20) * random.uniform(0, 1, 20) ** 2:
            exact = profile(pair, float(epsilon))
            assert discrete_profile(above, grid.step, epsilon) >= exact * (1 - 1e-12) - 1e-16
            assert discrete_profile(below, grid.step, epsilon) <= exact * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_fine_grids_are_close_from_both_sides(pair: Dominating) -> None:
    grid = Grid(0.01 * pair.scale, 0.001, -60.0, -60.0)
    above, below = upper(pair, grid), lower(pair, grid)
    for epsilon in (0.0, pair.scale, 3 * pair.scale):
        exact = profile(pair, epsilon)
        assert discrete_profile(above, grid.step, epsilon) == pytest.approx(exact, rel=2e-3, abs=1e-12)
        assert discrete_profile(below, grid.step, epsilon) == pytest.approx(exact, rel=2e-3, abs=1e-12)
    assert above.mass.sum() + above.infinite == pytest.approx(1, abs=1e-12)
    assert below.mass.sum() <= 1 + 1e-12


@pytest.mark.parametrize("epsilon", [0.5, 1.2345])
def test_randomised_response_on_and_off_the_grid(epsilon: float) -> None:
    step = 0.1
    above, below = upper(Pure(epsilon), Grid(step, 0.01, -60, -60)), lower(Pure(epsilon), Grid(step, 0.01, -60, -60))
    for e in np.linspace(-1.4, 1.4, 57):
        # P(epsilon) - e^e Q(epsilon), and both outcomes once e < -epsilon
        likely = 1 / (1 + math.exp(-epsilon))
        first = max(0.0, likely - math.exp(e) * (1 - likely))
        exact = first + max(0.0, (1 - likely) - math.exp(e) * likely)
        assert discrete_profile(above, step, e) >= exact - 1e-12
        assert discrete_profile(below, step, e) <= exact + 1e-12


def test_cells_lose_nothing_to_cancellation() -> None:
    """The excess of narrow cells against the difference it stands for, in extended precision."""
    import mpmath as mp

    q, shift = 1e-6, 0.01
    edges = np.array([1e-9, 1.01e-9])
    mass, excess = Removed(q, shift).cells(edges)
    with mp.workdps(60):
        x = [mp.log(1 + mp.expm1(mp.mpf(float(edge))) / q) / shift + mp.mpf(shift) / 2 for edge in edges]
        still = mp.ncdf(x[1]) - mp.ncdf(x[0])
        moved = mp.ncdf(x[1] - shift) - mp.ncdf(x[0] - shift)
        exact = (1 - q) * still + q * moved - mp.exp(mp.mpf(float(edges[0]))) * still
        assert float(excess[0]) == pytest.approx(float(exact), rel=1e-9)
    assert float(mass[0]) == pytest.approx(float(ndtr(float(x[1])) - ndtr(float(x[0]))), rel=1e-5)
