"""Renyi divergences against 50-digit values, and their conversion."""

import json
import math
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from sordino.budget import Relation
from sordino.privacy.accountants.rdp import ORDERS, RenyiAccountant, divergences, largest_divergence, renyi_epsilon
from sordino.privacy.events import FixedSizeSampled, Gaussian, GaussianDP, PoissonSampled, PureDP, repeat

REFERENCE = json.loads((Path(__file__).parent / "reference_values.json").read_text())
ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
RDP = RenyiAccountant()


def at(alpha: float) -> int:
    return int(np.flatnonzero(ORDERS == alpha)[0])


@pytest.mark.parametrize("row", REFERENCE["rdp_poisson_addremove"])
def test_poisson(row: dict[str, str]) -> None:
    rho = divergences(PoissonSampled(Gaussian(float(row["z"])), float(row["q"])), ADD)
    assert rho[at(float(row["alpha"]))] == pytest.approx(float(row["rdp"]), rel=1e-9)


@pytest.mark.parametrize("row", REFERENCE["rdp_wor_replace_WBK"])
def test_fixed_size(row: dict[str, str]) -> None:
    rho = divergences(FixedSizeSampled(Gaussian(float(row["z"])), float(row["q"])), REPLACE)
    assert rho[at(float(row["alpha"]))] == pytest.approx(float(row["rdp"]), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "multiplier", "alpha"), [(0.01, 0.5, 2), (0.01, 0.5, 8), (0.3, 1.0, 32), (1e-5, 2, 4)]
)
def test_poisson_replacing(rate: float, multiplier: float, alpha: int) -> None:
    shift = 1 / (2 * multiplier)
    with mp.workdps(40):
        rate = mp.mpf(rate)
        mixtures = [lambda x, sign=sign: (1 - rate) * mp.npdf(x) + rate * mp.npdf(x - sign * shift) for sign in (1, -1)]
        ends = [-12, -4, 0, 4, 8, 16, 2 * alpha * shift + 16]
        total = mp.quad(lambda x: mixtures[0](x) ** alpha * mixtures[1](x) ** (1 - alpha), sorted(ends))
        exact = float(mp.log(total) / (alpha - 1))
    rho = divergences(PoissonSampled(Gaussian(multiplier), float(rate)), REPLACE)[at(alpha)]
    assert exact <= rho <= exact * (1 + 1e-6)


@pytest.mark.parametrize("row", REFERENCE["rdp_to_dp_CKS"])
def test_conversion(row: dict[str, str]) -> None:
    epsilon = renyi_epsilon(float(row["alpha"]), float(row["rho"]), float(row["delta"]))
    assert epsilon == pytest.approx(float(row["eps"]), rel=1e-9)


def test_the_allowance_inverts_the_conversion() -> None:
    allowed = largest_divergence(1.3, 1e-6)
    for alpha in (2.0, 8.5, 64.0):
        assert renyi_epsilon(alpha, float(allowed[at(alpha)]), 1e-6) == pytest.approx(1.3, rel=1e-12)


def test_gaussian_and_pure_events() -> None:
    assert divergences(Gaussian(2.0), REPLACE)[at(8)] == pytest.approx(1.0)
    assert divergences(repeat(GaussianDP(0.5), 4), ADD)[at(8)] == pytest.approx(4.0)
    # randomised response: sum of p^alpha q^(1 - alpha) with p = e/(1+e), q = 1/(1+e)
    p, q = math.e / (1 + math.e), 1 / (1 + math.e)
    assert divergences(PureDP(1.0), ADD)[at(3)] == pytest.approx(math.log(p**3 / q**2 + q**3 / p**2) / 2, rel=1e-12)
    assert RDP.epsilon(repeat(PureDP(0.25), 4), 0.0, ADD) == pytest.approx(1.0, rel=1e-12)
    assert RDP.delta(PureDP(1.0), 1.0, ADD) == 0.0


def test_between_whole_orders_chords_lie_above() -> None:
    """(alpha - 1) rho is convex; at alpha = 2.5 the exact value, by quadrature, lies under what we use."""
    rate, z, alpha = 0.1, 1.0, 2.5
    with mp.workdps(30):
        ratio = lambda x: 1 - rate + rate * mp.exp((2 * x - 1) / (2 * z * z))  # noqa: E731
        exact = float(mp.log(mp.quad(lambda x: mp.npdf(x, 0, z) * ratio(x) ** alpha, [-12, 0, 3, 12])) / (alpha - 1))
    rho = divergences(PoissonSampled(Gaussian(z), rate), ADD)[at(alpha)]
    assert exact <= rho <= 1.2 * exact


def test_fixed_size_has_no_meaning_when_records_come_and_go() -> None:
    event = FixedSizeSampled(Gaussian(1.0), 0.1)
    assert not RDP.supports(event, ADD)
    with pytest.raises(ValueError, match="fixed-size batches"):
        RDP.epsilon(event, 1e-5, ADD)
