"""Intervals: the numbers worked out by hand, gradients by differences, and how often the truth is inside."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import r2_score, roc_auc_score

from sordino.budget import Budget, Relation
from sordino.evaluation import ConfusionMatrix, ErrorMoments, Outcomes, ScoreHistogram
from sordino.evaluation.class_counts import CountsByClass
from sordino.evaluation.measure import quantile, rate_interval
from sordino.privacy.randomness import Randomness
from sordino.problem import HeldOut, PersonUnit

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
Z = quantile(0.95)


@pytest.mark.parametrize(
    ("rate", "records", "noise", "low", "high"),
    [
        # (p - rate)^2 = z^2 (p (1 - p)/m + s^2/m^2), solved with mpmath
        (0.85, 1000, 4.2246788893, 0.8250385, 0.8722828),
        (0.85, 1000, 0.0, 0.8265313, 0.8707899),
        (0.97, 200, 8.0, 0.8795501, 1.0427353),
    ],
)
def test_a_rate_with_noise(rate, records, noise, low, high):
    assert rate_interval(rate, records, noise, Z) == pytest.approx((low, high), abs=5e-8)
    for end in rate_interval(rate, records, noise, Z):
        assert (rate - end) ** 2 == pytest.approx(Z**2 * (end * (1 - end) / records + (noise / records) ** 2))


def test_the_area_of_a_small_table():
    counts = CountsByClass(np.array([[30.0, 15, 10, 5], [1.0, 2, 5, 12]]), 0.4, False, 0.95)
    area = counts.area()
    assert area.value == pytest.approx(0.8583333, abs=1e-7)
    # pair by pair, half for those in one cell
    pairs = [
        (i > j) + 0.5 * (i == j)
        for i, a in enumerate((1, 2, 5, 12))
        for j, b in enumerate((30, 15, 10, 5))
        for _ in range(a * b)
    ]
    assert area.value == pytest.approx(np.mean(pairs))
    far = (area.high - area.value) / Z if area.high < 1 else (area.value - area.low) / Z
    positive, negative = np.array([1.0, 2, 5, 12]), np.array([30.0, 15, 10, 5])
    above = (20 - np.cumsum(positive) + positive / 2) / 20
    below = (np.cumsum(negative) - negative / 2) / 60
    sampling = (negative * (above - area.value) ** 2).sum() / 60**2 + (
        positive * (below - area.value) ** 2
    ).sum() / 20**2
    assert far**2 == pytest.approx(sampling + 0.00118364197 * 0.4**2)


def finite_differences(measure, table, step=1e-4):
    gradient = np.zeros(table.shape)
    for place in np.ndindex(table.shape):
        for sign in (1, -1):
            moved = table.copy()
            moved[place] += sign * step
            gradient[place] += sign * measure(moved) / (2 * step)
    return gradient


@pytest.mark.parametrize("public", [False, True])
def test_intervals_follow_the_gradient(public):
    """Of a measure's own value, by differences: what the docstring says of the noise and of other records."""
    table, s = np.array([[400.0, 150, 80, 30], [20.0, 40, 90, 150]]), 3.0
    part, whole = np.array([[0, 0, 1, 1], [0, 0, 1, 1]], bool), np.array([[0] * 4, [1] * 4], bool)
    measures = {
        "area": lambda h: CountsByClass(h, s, public, 0.95).area(),
        "rate": lambda h: CountsByClass(h, s, public, 0.95).rate("", part, whole),
    }
    for name, measure in measures.items():
        g = finite_differences(lambda h, measure=measure: measure(h).value, table)
        # scaling the table changes nothing
        assert (g * table).sum() == pytest.approx(0, abs=1e-6)
        noise = s**2 * ((g**2).sum() - (g.sum() ** 2 / g.size if public else 0))
        found = measure(table)
        if name == "area":
            far = Z * math.sqrt((table * g**2).sum() + noise)
            assert (found.low, found.high) == pytest.approx((found.value - far, found.value + far), rel=1e-4)
        else:
            ends = rate_interval(found.value, table[whole].sum(), table[whole].sum() * math.sqrt(noise), Z)
            assert (found.low, found.high) == pytest.approx(ends, rel=1e-4)


def tried(rng, n, slope=1.5, shift=-3.0):
    """Scores that are log-odds of the truth."""
    scores = shift + slope * rng.normal(size=n)
    return scores, (rng.random(n) < expit(scores)).astype(float)


def of_scores(rng, statistic, n, relation, epsilon=1.0, **how):
    scores, truth = tried(rng, n, **how)
    losses = np.logaddexp(0, np.where(truth == 1, -scores, scores))
    problem, budget = HeldOut(n, "ab", ("no", "yes")), Budget(epsilon, 1e-6, relation)
    outcomes = Outcomes.of(relation, scores, truth, losses, None)
    released = statistic.run(
        statistic.plan(problem, budget), problem, outcomes, Randomness.seeded(int(rng.integers(1 << 40)))
    )
    return {one.name: one for one in statistic.found(problem, budget, released).measures}, scores, truth


@pytest.fixture(scope="module")
def population():
    """So many that what is measured on them is the truth."""
    return tried(np.random.default_rng(99), 500_000)


def share_inside(found, true):
    return np.mean([one.low <= true <= one.high for one in found])


RUNS = 400


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(Relation))
def test_intervals_of_two_classes_cover_the_truth(relation, population):
    """Over other records and over the noise, at a rare class (9 per cent) and epsilon 1."""
    scores, truth = population
    yes = truth == 1
    facts = {
        "accuracy": np.mean((scores > 0) == yes),
        "AUC": roc_auc_score(truth, scores),
        "recall of yes": np.mean(scores[yes] > 0),
        "share predicted yes": np.mean(scores > 0),
        "log-loss, cut at 4": np.mean(np.minimum(np.logaddexp(0, np.where(yes, -scores, scores)), 4.0)),
    }
    rng, statistic = np.random.default_rng(5), ScoreHistogram(-3.0, 10.0, loss_bound=4.0)
    runs = [of_scores(rng, statistic, 8000, relation)[0] for _ in range(RUNS)]
    for name, true in facts.items():
        found = [run[name] for run in runs]
        # 400 runs know a coverage of .95 to +-.011, and the binned AUC is slightly biased
        assert 0.92 <= share_inside(found, true) <= 0.985, name


@pytest.mark.slow
def test_a_calibration_curve_covers_what_is_so(population):
    scores, truth = population
    rng, inside, probabilities = np.random.default_rng(6), [], expit(scores)
    for _ in range(100):
        measures, _, _ = of_scores(rng, ScoreHistogram(-3.0, 10.0), 8000, REPLACE)
        for one in measures.values():
            if one.group == "calibration":
                low, high = (float(word) for word in one.name.replace("yes, where ", "").split(" was")[0].split(" to "))
                there = (probabilities > low) & (probabilities <= high)
                inside.append(one.low <= truth[there].mean() <= one.high)
    assert len(inside) > 500
    assert 0.92 <= np.mean(inside) <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize(("goal", "target"), [("recall", 0.8), ("precision", 0.5), ("positive rate", 0.1)])
def test_a_threshold_has_what_was_asked_for(goal, target, population):
    """On records of whom nobody has seen any, at a class of 9 per cent; and what is said of it covers."""
    scores, truth = population
    rng, statistic = np.random.default_rng(7), ScoreHistogram(-3.0, 10.0, goal=goal, target=target)
    reached, covered, probabilities = [], [], expit(scores)
    for _ in range(100):
        measures, _, _ = of_scores(rng, statistic, 12_000, REPLACE)
        threshold = next(one.value for one in measures.values() if one.group == "threshold")
        said = probabilities > threshold
        truly = {
            "recall": said[truth == 1].mean(),
            "precision": truth[said].mean(),
            "positive rate": said.mean(),
        }[goal]
        reached.append(truly)
        name = {"recall": "recall of yes", "precision": "precision of yes", "positive rate": "share predicted yes"}[
            goal
        ]
        one = measures[f"{name}, there"]
        covered.append(one.low <= truly <= one.high)
    # the next edge may lie beyond, never far before
    assert target - 0.03 <= np.mean(reached) <= target + 0.08
    assert np.mean(covered) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(Relation))
def test_intervals_of_numbers_cover_the_truth(relation):
    """Errors with heavy tails, targets that are skewed: moments alone, no law."""
    statistic, problem, budget = ErrorMoments(2.0), HeldOut(6000, "ab", (), (-2.0, 6.0)), Budget(1.0, 1e-6, relation)

    def draw(n):
        x = rng.normal(size=n)
        return 1 + x, np.clip(1 + x + np.clip(0.4 * rng.standard_t(5, size=n), -2, 2), -2, 6)

    rng = np.random.default_rng(8)
    predicted, true = draw(1_000_000)
    predicted = np.clip(predicted, -2, 6)
    facts = {"R^2": r2_score(true, predicted), "RMSE": math.sqrt(np.mean((true - predicted) ** 2))}
    found = {name: [] for name in facts}
    for run in range(RUNS):
        said, truth = draw(6000)
        outcomes = Outcomes.of(relation, said, truth, np.empty(0), None)
        released = statistic.run(statistic.plan(problem, budget), problem, outcomes, Randomness.seeded(run))
        for one in statistic.found(problem, budget, released).measures:
            found[one.name].append(one)
    for name, true_value in facts.items():
        assert len(found[name]) == RUNS
        assert 0.92 <= share_inside(found[name], true_value) <= 0.985, name


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(Relation))
def test_intervals_of_several_classes_cover_the_truth(relation):
    rng, n = np.random.default_rng(9), 4000
    law = np.array([[0.3, 0.05, 0.05], [0.04, 0.3, 0.06], [0.02, 0.08, 0.1]])
    statistic, problem, budget = ConfusionMatrix(), HeldOut(n, "ab", ("a", "b", "c")), Budget(0.5, 1e-6, relation)
    facts = {
        "accuracy": np.trace(law),
        "recall of c": law[2, 2] / law[2].sum(),
        "precision of b": law[1, 1] / law[:, 1].sum(),
    }
    found = {name: [] for name in facts}
    for run in range(RUNS):
        truth, said = np.divmod(rng.choice(9, size=n, p=law.ravel()), 3)
        outcomes = Outcomes.of(relation, said.astype(float), truth.astype(float), np.empty(0), None)
        released = statistic.run(statistic.plan(problem, budget), problem, outcomes, Randomness.seeded(run))
        for one in statistic.found(problem, budget, released).measures:
            if one.name in found:
                found[one.name].append(one)
    for name, true in facts.items():
        assert 0.92 <= share_inside(found[name], true) <= 0.985, name


def test_without_noise_to_speak_of_measures_are_those_of_scikit_learn():
    rng, epsilon = np.random.default_rng(3), 50.0
    measures, scores, truth = of_scores(
        rng, ScoreHistogram(-3.0, 10.0, goal="recall", target=0.8), 20_000, REPLACE, epsilon
    )
    yes = truth == 1
    assert measures["accuracy"].value == pytest.approx(np.mean((scores > 0) == yes), abs=1e-3)
    assert measures["AUC"].value == pytest.approx(roc_auc_score(truth, scores), abs=5e-3)
    assert measures["recall of yes"].value == pytest.approx(np.mean(scores[yes] > 0), abs=1e-3)
    assert measures["precision of yes"].value == pytest.approx(np.mean(yes[scores > 0]), abs=1e-3)
    assert measures["yes taken for no"].value == pytest.approx(np.sum(yes & (scores <= 0)), abs=1)
    threshold = measures["threshold for a recall of 0.8"].value
    assert measures["recall of yes, there"].value == pytest.approx(np.mean(expit(scores[yes]) > threshold), abs=1e-3)
    assert 0.8 <= measures["recall of yes, there"].value <= 0.9
    curve = [one for one in measures.values() if one.group == "calibration"]
    assert len(curve) > 10


def test_too_few_of_a_class_is_said_and_not_shown():
    rng, statistic = np.random.default_rng(3), ScoreHistogram(-6.0, 10.0, goal="recall", target=0.8)
    scores, truth = tried(rng, 2000, shift=-6.0)
    problem, budget = HeldOut(2000, "ab", ("no", "yes")), Budget(0.5, 1e-6)
    outcomes = Outcomes.of(REPLACE, scores, truth, np.empty(0), None)
    released = statistic.run(statistic.plan(problem, budget), problem, outcomes, Randomness.seeded(1))
    found = statistic.found(problem, budget, released)
    names = [one.name for one in found.measures]
    assert "accuracy" in names
    assert not any(name.startswith(("AUC", "recall", "threshold")) for name in names)
    left_out, no_threshold = found.remarks
    assert "AUC, recall of yes" in left_out
    assert "records of yes are needed" in no_threshold


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: ScoreHistogram(level=95), "level is 95"),
        (lambda: ScoreHistogram(goal="recall"), "go together"),
        (lambda: ScoreHistogram(goal="luck", target=0.5), "goal is 'luck'"),
        (lambda: ScoreHistogram(goal="recall", target=80.0), "recall is 80"),
        (lambda: ScoreHistogram(reach=math.inf), "finite numbers"),
        (lambda: ScoreHistogram(loss_bound=-1.0), "log_loss_bound is -1"),
        (lambda: ScoreHistogram(loss_bound=1.0, probabilities=False), "no probabilities"),
        (lambda: ErrorMoments(0.0), "error_bound is 0"),
        (lambda: HeldOut(0, "ab", ("a", "b")), "records is 0"),
        (lambda: HeldOut(10, "ab"), "two classes at least"),
        (lambda: HeldOut(10, "ab", (), (1.0, 1.0)), "the lower one first"),
        (
            lambda: ConfusionMatrix().plan(HeldOut(9, "ab", tuple("c" * k for k in range(101))), Budget(1.0, 1e-6)),
            "101 classes",
        ),
        (lambda: HeldOut(9, "ab", ("a", "b"), None, PersonUnit(2, "capped")), "counts as the mean"),
        (lambda: ErrorMoments().plan(HeldOut(9, "ab", ("a", "b")), Budget(1.0, 1e-6)), "this one predicts classes"),
        (lambda: ConfusionMatrix().plan(HeldOut(9, "ab", (), (0.0, 1.0)), Budget(1.0, 1e-6)), "predicts a number"),
        (lambda: ScoreHistogram().plan(HeldOut(9, "ab", ("a", "b", "c")), Budget(1.0, 1e-6)), "for two classes"),
        (lambda: ErrorMoments().plan(HeldOut(9, "ab", (), (0.0, 1.0)), Budget(1.0)), "delta is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()
