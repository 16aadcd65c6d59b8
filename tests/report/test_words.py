"""The sentences of the report make claims: these are checked."""

import math
import re

import numpy as np
import pytest
from scipy.stats import norm

from sordino.privacy.events import (
    Approximate,
    Composed,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    ObjectivePerturbed,
    PoissonSampled,
    PureDP,
)
from sordino.report.words import best_guess, described, detection_bound, number, percent


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_no_attack_on_a_gaussian_release_beats_the_bound(mu, epsilon):
    # the best attack on N(0, 1) against N(mu, 1) detects with probability Phi(mu - Phi^-1(1 - a))
    delta = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
    for alarms in np.linspace(0.001, 0.999, 200):
        detected = norm.cdf(mu - norm.isf(alarms))
        assert detected <= detection_bound(alarms, epsilon, delta) + 1e-12
    # the sum of both errors is least at the threshold mu/2
    assert norm.cdf(mu / 2) <= best_guess(epsilon, delta) + 1e-12


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_randomised_response_attains_the_bounds(epsilon):
    told = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert best_guess(epsilon, 0.0) == pytest.approx(told)
    assert detection_bound(1 - told, epsilon, 0.0) == pytest.approx(told)


def test_extremes_do_not_overflow():
    assert best_guess(5000.0, 0.0) == 1
    assert detection_bound(0.01, 5000.0, 0.0) == 1
    assert detection_bound(0.01, math.inf, 0.0) == 1
    assert best_guess(math.inf, 0.0) == 1
    assert best_guess(1e-12, 0.0) == pytest.approx(0.5)
    assert detection_bound(0.01, 1e-12, 0.0) == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (0.1, "10 %"),
        (0.731059, "73.2 %"),
        (0.05, "5 %"),
        (0.0027183, "0.28 %"),
        (0.001, "0.1 %"),
        (1, "100 %"),
    ],
)
def test_percentages_are_rounded_up_and_no_further(share, text):
    assert percent(share) == text


@pytest.mark.parametrize("share", np.random.default_rng(0).uniform(0, 1, 50) ** 4)
def test_a_rounded_percentage_is_never_below_the_share(share):
    shown = float(percent(share).removesuffix(" %")) / 100
    assert share - 1e-9 <= shown <= share + 1e-3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0, "0"),
        (6366, "6,366"),
        (4.4e-8, "4.4 × 10⁻⁸"),
        (2.5e9, "2.5 × 10⁹"),
        (0.1234567, "0.123457"),
        (1.0, "1"),
        (-3.5, "-3.5"),
        (math.inf, "unbounded"),
    ],
)
def test_numbers_are_written_for_reading(value, text):
    assert number(value) == text


def test_every_kind_of_event_has_a_phrase_with_its_numbers():
    event = Composed(
        (
            (Gaussian(4.25), 7),
            (GaussianDP(0.125), 1),
            (PureDP(0.5), 2),
            (PoissonSampled(Gaussian(1.5), 0.01), 100),
            (FixedSizeSampled(Gaussian(2.5), 0.02), 3),
            (Approximate(Gaussian(3.5), 1e-19), 1),
            (ObjectivePerturbed(0.5, 6.5, 8.5), 1),
        )
    )
    phrase = described(event)
    for value in (
        "4.25",
        "7 ×",
        "0.125",
        "0.5",
        "0.01",
        "1.5",
        "0.02",
        "2.5",
        "3.5",
        "1 × 10⁻¹⁹",
        "100 ×",
        "6.5",
        "8.5",
    ):
        assert value in phrase
    assert not re.search(r"[A-Z]\w+\(", phrase)
