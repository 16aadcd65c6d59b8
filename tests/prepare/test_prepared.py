"""Preparation and training as one: everything that is asked is planned, accounted for, certified and charged once."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from sordino import (
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    verify,
)
from sordino.budget import Budget, Relation
from sordino.certificate import Certificate
from sordino.domains import Ball
from sordino.ledger.ledger import Ledger
from sordino.losses import Huber, Logistic, Softmax
from sordino.methods import ConstantModel, NoisyGradientDescent, NoisySGD, ObjectivePerturbation, OutputPerturbation
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.prepare import (
    PREPARATIONS,
    Centre,
    ColumnScales,
    FrequentColumns,
    NormQuantile,
    Prepared,
    StartingScore,
    Whitening,
    left_for_training,
    only_a_constant,
    starting_score,
)
from sordino.prepare.choice import ALMOST_ALL, COLUMN_OF_TEXTS, FAR, OF_TEXTS, WIDTHS_SHARE
from sordino.prepare.starting_score import with_steps
from sordino.privacy.accountants import epsilon
from sordino.privacy.events import Composed, flatten
from sordino.privacy.ledger_context import charged_to
from sordino.privacy.randomness import Randomness
from sordino.problem import PersonUnit, Problem
from sordino.train import train

pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")

N, D = 400, 4
USUAL = (Centre(), NormQuantile())
BUDGET = Budget(1.0, 1e-6)
GIVEN = Rows(8.0, 0.4)


def records(n=N, d=D):
    """Far from zero, and close to each other."""
    rng = np.random.default_rng(0)
    X = rng.normal(scale=0.4, size=(n, d)) + 2.5
    return X, np.where(X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=n) > 0, 1.0, -1.0)


def problem(n=N, d=D, loss=None):
    return Problem(n, d + 1, loss or Logistic())


class Listening:
    """Notes every question and its noise, also of the oracles that are made of this one."""

    def __init__(self, oracle, asked):
        self.oracle, self.asked = oracle, asked

    def __getattr__(self, name):
        return getattr(self.oracle, name)

    def draw(self, sampling, randomness):
        self.asked.append(sampling)
        return self.oracle.draw(sampling, randomness)

    def release(self, query, noise, randomness):
        assert query.sensitivity(self.oracle.model.relation) <= noise.sensitivity * (1 + 1e-12)
        self.asked.append(noise)
        return self.oracle.release(query, noise, randomness)

    def under_rows(self, rows):
        return Listening(self.oracle.under_rows(rows), self.asked)

    def under(self, loss):
        return Listening(self.oracle.under(loss), self.asked)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("kind", PREPARATIONS.values())
def test_what_is_asked_is_what_the_event_counts(kind, relation):
    """One noisy sum for every planned one, each with the planned noise, and nothing exact."""
    budget = replace(BUDGET, relation=relation)
    method = Prepared(NoisyGradientDescent(7, 0.5, release="average"), (kind(), NormQuantile()))
    plan, asked = method.plan(problem(), budget), []
    oracle = Listening(linear_oracle(*records(), problem(), GIVEN, relation), asked)
    released = method.run(plan, problem(), oracle, Randomness.seeded(0))
    noises = [noise for noise in asked if hasattr(noise, "std")]
    counted = {}
    for noise in noises:
        for leaf in flatten(noise.event)[0]:
            counted[leaf] = counted.get(leaf, 0) + 1
    assert counted == flatten(plan.event)[0]
    assert released.event == plan.event
    assert len(noises) == sum(step.times for step in plan.preparation) + 7


INNER = {
    "descent": NoisyGradientDescent(),
    "batches": NoisySGD(20, 40, 0.5, release="last"),
    "objective perturbation": ObjectivePerturbation(),
    "output perturbation": OutputPerturbation(20, 0.5),
}


@pytest.mark.parametrize("name", INNER)
@pytest.mark.parametrize("asked", [0.1, 1.0, 4.0])
def test_the_whole_costs_the_budget(name, asked):
    """By its true events, whatever kind of release the training is."""
    budget = Budget(asked, 1e-6)
    method = Prepared(INNER[name], USUAL)
    plan = method.plan(problem(), budget)
    steps = tuple((step.event, step.times) for step in plan.preparation)
    whole = epsilon(Composed((*steps, (plan.inner.event, 1))), budget.delta, budget.relation)
    assert 0.99 * asked <= whole <= asked
    # training alone is planned for what preparation leaves, and not for all of it
    assert (
        epsilon(plan.inner.event, budget.delta, budget.relation) <= left_for_training(problem(), budget, 0.12).epsilon
    )


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)])
def test_certified_end_to_end(relation, loss):
    budget, facts = replace(BUDGET, relation=relation), problem(loss=loss)
    X, y = records()
    y = y if loss.outputs == 1 else (y + 1) / 2
    method = Prepared(NoisyGradientDescent(), (Centre(), ColumnScales(), Whitening(), NormQuantile()))
    trained = train(facts, budget, method, linear_oracle(X, y, facts, GIVEN, relation), rows=GIVEN)
    again = Certificate.from_json(trained.certificate.to_json())
    assert again == trained.certificate
    assert again.method == method
    assert all(finding.holds for finding in verify(again, {"weights": trained.weights}))
    assert again.epsilon == 1.0
    # less noise in a step than its share buys, or a share that was not planned for, is noticed
    for forged in (
        replace(again, method=replace(method, preparation=(Centre(share=0.2), *method.preparation[1:]))),
        replace(again, method=method.method),
        replace(again, event=Composed(again.event.parts[1:])),
    ):
        assert not all(finding.holds for finding in verify(forged))


def test_released_weights_are_for_the_given_rows():
    """Trained on centred rows, with next to no noise: the scores of an ordinary fit, where nothing is scaled down."""
    X, y = records()
    budget = Budget(15.0, 1e-4)
    method = Prepared(NoisyGradientDescent(), (Centre(), NormQuantile(quantile=0.99)))
    weights = train(problem(), budget, method, linear_oracle(X, y, problem(), GIVEN), Randomness.seeded(1)).weights
    coefficients, intercept = GIVEN.to_raw(weights, 1)
    assert (((X @ coefficients[0] + intercept) > 0) == (y > 0)).mean() > 0.9


def test_a_ledger_is_charged_once_for_all_of_it(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("table", Budget(3.0, 1e-5))
    X, y = records()
    with charged_to(ledger, "table"):
        model = PrivateLogisticRegression(1.0, 1e-6, row_norm=8.0, classes=[-1, 1]).fit(X, y)
    assert isinstance(model.certificate_.method, Prepared)
    (entry,) = ledger.entries("table")
    assert entry.event == model.certificate_.event


# --- What estimators do by default ---


def logistic(**settings):
    return PrivateLogisticRegression(1.0, row_norm=8.0, classes=[-1, 1], **settings)


def method_of(model, X, y):
    return model.fit(X, y).certificate_.method


def test_auto_pays_where_public_facts_say_so():
    X, y = records()
    first, *rows = method_of(logistic(), X, y).preparation
    assert isinstance(first, StartingScore)
    assert tuple(rows) == USUAL
    # columns of equal width take more records, or a larger budget
    _, *more = method_of(logistic().set_params(epsilon=8.0), X, y).preparation
    assert tuple(more) == (*USUAL, ColumnScales(WIDTHS_SHARE), NormQuantile())
    assert isinstance(method_of(PrivateLinearSVC(1.0, row_norm=8.0, classes=[-1, 1]), X, y), Prepared)
    for kind in (PrivateLinearRegression, PrivateHuberRegressor):
        norm = NormQuantile(quantile=ALMOST_ALL)
        for large, widths in ((0.4, ()), (1.0, (ColumnScales(WIDTHS_SHARE), norm))):
            steps = method_of(kind(large, row_norm=8.0, target_bound=1.0), X, y).preparation
            assert steps == (Centre(), norm, *widths)
        # where a classifier still pays, a regression does not
        few, (wide, told) = 0.35, records(d=16)
        assert len(method_of(logistic().set_params(epsilon=few), wide, told).preparation) == 3
        assert not isinstance(method_of(kind(few, row_norm=8.0, target_bound=1.0), wide, told), Prepared)
    for plain in (
        logistic(prepare=None),
        logistic(delta=0.0),
        logistic(fit_intercept=False),
        logistic().set_params(epsilon=0.02),
        logistic(method=NoisyGradientDescent(20)),
    ):
        assert not isinstance(method_of(plain, X, y), Prepared)
    (first,) = method_of(logistic(), sparse.csr_array(X), y).preparation
    assert isinstance(first, StartingScore)
    assert first.column is None


def test_where_noise_would_drown_the_features_the_model_is_a_frequency():
    X, y = records()
    model = logistic().set_params(epsilon=0.05).fit(X, y)
    assert model.certificate_.method == ConstantModel()
    assert not model.coef_.any()
    assert all(finding.holds for finding in verify(model.certificate_))
    # which a method or a preparation of one's own overrides, and which is not known of records that count differently
    for other in (logistic(prepare=None), logistic(method=NoisyGradientDescent()), logistic(class_weight="balanced")):
        assert method_of(other.set_params(epsilon=0.05), X, y) != ConstantModel()
    for price in (0.05, 1.0):
        weighted = logistic(weight_bound=1.0).set_params(epsilon=price).fit(X, y, sample_weight=np.ones(len(y)))
        assert "ConstantModel" not in str(weighted.certificate_.method)
        assert "StartingScore" not in str(weighted.certificate_.method)


def test_where_noise_would_drown_the_features_the_model_is_a_mean():
    X, y = records()
    model = PrivateLinearRegression(0.05, row_norm=8.0, target_bound=2.0).fit(X, y)
    assert model.certificate_.method == ConstantModel()
    assert not model.coef_.any()
    assert abs(model.predict(X[:1])[0]) <= 2.0
    assert all(finding.holds for finding in verify(model.certificate_))
    for other in ({"prepare": None}, {"epsilon": 1.0}, {"method": NoisyGradientDescent()}):
        asked = PrivateLinearRegression(**{"epsilon": 0.05, "row_norm": 8.0, "target_bound": 2.0, **other})
        assert method_of(asked, X, y) != ConstantModel()


def test_the_rarer_a_class_and_the_fewer_records_the_shorter_the_steps():
    many, few = (starting_score(problem(n), BUDGET, True)[0] for n in (10_000, 60))
    assert many.shortening < few.shortening <= 1
    assert many.share < few.share
    for unknown in (
        problem(loss=Softmax(3)),
        problem(loss=Huber(0.25, 1.0)),
        replace(problem(), domain=Ball(1.0)),
        replace(problem(), person=PersonUnit(3, "capped")),
    ):
        assert starting_score(unknown, BUDGET, True) == ()
        assert not only_a_constant(unknown, Budget(0.001, 1e-6), True)
    assert starting_score(problem(), BUDGET, False) == starting_score(problem(), Budget(1.0), True) == ()
    assert starting_score(replace(problem(), person=PersonUnit()), BUDGET, True)


@pytest.mark.parametrize("column", [None, 0.1])
def test_training_begins_at_the_best_score_without_features(column):
    """Steps of next to no length: what is released is where training began."""
    X, y = records(4000)
    y[: len(y) // 2] = 1.0
    still = Prepared(NoisyGradientDescent(5, 1e-9), (StartingScore(0.5, column=column), *USUAL))
    facts = problem(4000)
    trained = train(facts, Budget(10.0, 1e-6), still, linear_oracle(X, y, facts, GIVEN), rows=GIVEN)
    score = trained.weights[-1] * GIVEN.intercept
    p = np.mean(y > 0)
    assert score == pytest.approx(math.log(p / (1 - p)), abs=0.01)
    np.testing.assert_allclose(trained.weights[:-1], 0.0, atol=1e-6)


def test_a_smaller_constant_column_leaves_more_room_to_the_features():
    """A step is as long as what is left beside the column, once in the gradient and once on the way back."""
    X = np.random.default_rng(0).choice([-4.0, 4.0], (4000, 4))
    facts, oracle = problem(4000), linear_oracle(X, np.sign(X[:, 0]), problem(4000), GIVEN)

    def moved(column):
        step = Prepared(NoisyGradientDescent(1, 1.0), (StartingScore(1e-3, column=column), NormQuantile(share=0.01)))
        return train(facts, Budget(20.0, 1e-6), step, oracle, rows=GIVEN).weights[0]

    assert moved(0.1) / moved(None) == pytest.approx((1 - 0.1**2) / (1 - GIVEN.intercept**2), rel=0.04)


def test_steps_are_shortened_where_that_costs_nothing():
    paid = NoisyGradientDescent(5, 0.5).plan(problem(), BUDGET)
    assert with_steps(paid, 0.25) == replace(paid, step_size=0.125)
    amplified = replace(paid, amplification=1.5)
    assert with_steps(amplified, 0.25) is amplified
    exact = OutputPerturbation(5).plan(problem(), BUDGET)
    assert with_steps(exact, 0.25) is exact


def texts(n=300, words=400):
    """Sparse rows of more columns than there are records: one in two is about the first word, most words are rare."""
    rng = np.random.default_rng(1)
    X = np.where(rng.random((n, words)) < 1 / np.arange(2, words + 2), 1.0, 0.0)
    y = rng.choice([-1.0, 1.0], n)
    X[:, 0] = y > 0
    return sparse.csr_array(X), y


def test_auto_brings_texts_down_to_frequent_words():
    X, y = texts()
    model = PrivateLogisticRegression(3.0, row_norm=4.0, classes=[-1, 1]).fit(X, y)
    first, *words = model.certificate_.method.preparation
    assert isinstance(first, StartingScore)
    assert first.column == COLUMN_OF_TEXTS
    assert words == [FrequentColumns(), NormQuantile(quantile=OF_TEXTS)]
    assert all(finding.holds for finding in verify(model.certificate_))
    assert 1 <= np.count_nonzero(model.coef_) < 100
    np.testing.assert_allclose(model.decision_function(X), model.decision_function(X.toarray()), atol=1e-12)
    # without an intercept too; not for numbers, nor for dense rows, nor where there are as many records
    no_constant = PrivateLogisticRegression(3.0, row_norm=4.0, classes=[-1, 1], fit_intercept=False)
    assert list(method_of(no_constant, X, y).preparation) == words
    assert not isinstance(method_of(PrivateLinearRegression(3.0, row_norm=4.0, target_bound=1.0), X, y), Prepared)
    fewer = X[:, :299]
    assert not isinstance(method_of(no_constant, fewer, y), Prepared)
    assert not isinstance(method_of(no_constant, X.toarray(), y), Prepared)


def test_on_frequent_words_of_many_texts_a_descent_goes_far():
    """On all words, with a method of one's own, or with few texts, it is as it would be elsewhere."""

    def chosen(few=False, **settings):
        X, y = texts() if few else texts(1_200, 1_300)
        return method_of(PrivateLogisticRegression(3.0, row_norm=4.0, classes=[-1, 1], **settings), X, y).method

    assert chosen() == chosen(prepare=["frequent columns"]) == NoisyGradientDescent(release="auto", least_deviation=FAR)
    for settings in ({"few": True}, {"prepare": ["norm quantile"]}):
        assert chosen(**settings) == NoisyGradientDescent(release="auto")
    assert chosen(method=NoisyGradientDescent(), prepare=["frequent columns"]) == NoisyGradientDescent()


def test_steps_by_name_with_any_method():
    X, y = records()
    named = logistic(prepare=["centre", "column scales", "norm quantile"], method=NoisyGradientDescent(30))
    method = method_of(named, X, y)
    assert method == Prepared(NoisyGradientDescent(30), (Centre(), ColumnScales(), NormQuantile()))
    assert method_of(logistic(prepare=[NormQuantile(quantile=0.9)], fit_intercept=False), X, y).intercept is False
    thin = logistic(prepare=["column scales", "norm quantile"])
    assert isinstance(method_of(thin, sparse.csr_array(X), y), Prepared)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"prepare": "always"}, "it must be 'auto', None, or a list"),
        ({"prepare": ["center"]}, "prepare names 'center': known are 'centre'"),
        ({"prepare": ["centre"], "fit_intercept": False}, "a centre needs an intercept"),
        ({"prepare": ["centre"], "delta": 0.0}, "delta is 0, but preparation adds Gaussian noise"),
        ({"prepare": [Centre(share=0.6), Centre(share=0.6)]}, "take 1.2 of the budget"),
        ({"prepare": ["centre"], "method": NoisyGradientDescent(calibration="paper")}, "not calibrated to the budget"),
    ],
)
def test_what_is_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        logistic(**settings).fit(*records())


def test_what_else_is_refused():
    X, y = records()
    with pytest.raises(ValueError, match="would make them dense"):
        logistic(prepare=["centre"]).fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="rows are prepared once"):
        Prepared(Prepared(NoisyGradientDescent(), USUAL), USUAL)
    with pytest.raises(ValueError, match="a ball of them with it"):
        Prepared(NoisyGradientDescent(), USUAL).plan(replace(problem(), domain=Ball(1.0)), BUDGET)
    method = Prepared(NoisyGradientDescent(), USUAL)
    oracle = linear_oracle(X, y, problem(), GIVEN)
    with pytest.raises(ValueError, match="a first iterate"):
        train(problem(), BUDGET, method, oracle, start=np.zeros(D + 1))


def test_centring_helps_where_rows_are_far_from_zero():
    X, y = records(800)
    scores = [
        math.fsum(logistic(prepare=prepare, random_state=seed).fit(X, y).score(X, y) for seed in range(3)) / 3
        for prepare in ("auto", None)
    ]
    assert scores[0] > scores[1] + 0.05
