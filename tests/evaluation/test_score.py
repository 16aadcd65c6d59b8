"""`private_score`: every kind of model and of records, charged and certified; a sentence for whatever does not fit."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier

from sordino import (
    Evaluation,
    Ledger,
    NoisyGradientDescent,
    PrivateHuberRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMLPClassifier,
    Schema,
    charged_to,
    explain,
    load_model,
    private_score,
    read_model,
    save_model,
    verify_evaluation,
)
from sordino.budget import Budget
from sordino.certificate import Certificate, verify
from sordino.estimators.score import _Trial, _tried
from sordino.evaluation import Outcomes
from sordino.files import Arrays, EncodedTable, Table
from sordino.ledger.ledger import State
from sordino.model_file import model_of
from sordino.privacy.filter import BudgetExceeded
from sordino.row_bound import RowBound
from sordino.train import PrivacyWarning

pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")

FEW = NoisyGradientDescent(steps=20)
RNG = np.random.default_rng(2)
X = RNG.uniform(-1, 1, (4000, 3))
SCORES = 3 * X[:, 0] - 2 * X[:, 1] + RNG.logistic(size=len(X))
LABELS, THREE, NUMBERS = (SCORES > 0).astype(int), np.digitize(SCORES, [-1, 1]), np.clip(SCORES, -4, 4)
TRAIN, HELD = slice(0, 2000), slice(2000, None)
MANY = 30.0
"""An epsilon at which there is little noise."""

SCHEMA = Schema.from_toml("""
target = { column = "income", classes = ["low", "high"] }
[columns]
a = { low = -1, high = 1 }
b = { low = -1, high = 1 }
""")


@pytest.fixture(scope="module")
def classifier():
    return PrivateLogisticRegression(MANY, 1e-6, method=FEW, row_norm=1.8, classes=[0, 1]).fit(X[TRAIN], LABELS[TRAIN])


@pytest.fixture(scope="module")
def regressor():
    return PrivateHuberRegressor(MANY, 1e-6, method=FEW, row_norm=1.8, target_range=(-4, 4)).fit(
        X[TRAIN], NUMBERS[TRAIN]
    )


def frame(rows=HELD):
    return pd.DataFrame({"a": X[rows, 0], "b": X[rows, 1], "income": np.where(LABELS[rows] == 1, "high", "low")})


@pytest.fixture(scope="module")
def of_tables():
    return PrivateLogisticRegression(MANY, 1e-6, method=FEW, schema=SCHEMA).fit(frame(TRAIN))


def named(evaluation):
    return {one.name: one for one in evaluation.measures}


def holds(evaluation):
    return all(finding.holds for finding in verify_evaluation(evaluation))


def test_two_classes(classifier):
    evaluation = private_score(classifier, X[HELD], LABELS[HELD], epsilon=MANY, delta=1e-6)
    found = named(evaluation)
    assert found["accuracy"].value == pytest.approx(classifier.score(X[HELD], LABELS[HELD]), abs=2e-3)
    assert found["AUC"].value > 0.8
    assert holds(evaluation)
    assert evaluation.model == classifier.certificate_.weights
    assert evaluation.records == "2,000 held-out records, protected by noise"


def test_a_record_of_very_large_numbers_warns_nobody(classifier):
    bound = RowBound(np.zeros(3), np.full(3, 4.0))
    model = replace(model_of(classifier), coef=np.full((1, 3), 0.1), row_bound=bound)
    rows = np.array([[1e308, -1e308, 1e308], [0.1, 0.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        _, said, _, _ = _tried(model, _Trial(None, lambda scores, codes: (scores, codes, codes)), rows, [0, 1])
    assert said[0] == model.intercept[0]


def test_the_other_class_may_be_the_positive_one(classifier):
    found = named(private_score(classifier, X[HELD], LABELS[HELD], epsilon=MANY, delta=1e-6, positive=0))
    said, true = classifier.predict(X[HELD]) == 0, LABELS[HELD] == 0
    assert found["recall of 0"].value == pytest.approx(said[true].mean(), abs=5e-3)
    assert found["precision of 0"].value == pytest.approx(true[said].mean(), abs=5e-3)


def test_a_threshold_of_ones_own(classifier):
    found = named(private_score(classifier, X[HELD], LABELS[HELD], epsilon=MANY, delta=1e-6, threshold=0.7))
    said = classifier.predict_proba(X[HELD])[:, 1] > 0.7
    assert found["recall of 1"].value == pytest.approx(said[LABELS[HELD] == 1].mean(), abs=5e-3)


def test_a_chosen_threshold_goes_into_scikit_learn(classifier):
    evaluation = private_score(classifier, X[HELD], LABELS[HELD], epsilon=MANY, delta=1e-6, recall=0.9)
    decided = FixedThresholdClassifier(FrozenEstimator(classifier), threshold=evaluation.threshold)
    said = decided.fit(X[TRAIN], LABELS[TRAIN]).predict(X[HELD])
    assert 0.87 <= said[LABELS[HELD] == 1].mean() <= 0.93
    assert private_score(classifier, X[HELD], LABELS[HELD], delta=1e-6).threshold is None


@pytest.mark.slow
def test_more_classes():
    model = PrivateLogisticRegression(MANY, 1e-6, method=FEW, row_norm=1.8, classes=[0, 1, 2]).fit(
        X[TRAIN], THREE[TRAIN]
    )
    evaluation = private_score(model, X[HELD], THREE[HELD], epsilon=MANY, delta=1e-6, log_loss_bound=6.0)
    found, said, true = named(evaluation), model.predict(X[HELD]), THREE[HELD]
    assert found["accuracy"].value == pytest.approx(np.mean(said == true), abs=2e-3)
    assert found["2 taken for 1"].value == pytest.approx(np.sum((true == 2) & (said == 1)), abs=1)
    losses = -np.log(model.predict_proba(X[HELD])[np.arange(len(true)), true])
    assert found["log-loss, cut at 6"].value == pytest.approx(np.minimum(losses, 6).mean(), abs=1e-2)
    assert holds(evaluation)


def test_a_number(regressor):
    evaluation = private_score(regressor, X[HELD], NUMBERS[HELD], epsilon=MANY, delta=1e-6)
    found = named(evaluation)
    assert found["R^2"].value == pytest.approx(regressor.score(X[HELD], NUMBERS[HELD]), abs=2e-2)
    errors = np.clip(np.clip(regressor.predict(X[HELD]), -4, 4) - NUMBERS[HELD], -4, 4)
    assert found["RMSE"].value == pytest.approx(np.sqrt(np.mean(errors**2)), abs=1e-2)
    assert evaluation.certificate.problem.target_range == (-4.0, 4.0)
    assert holds(evaluation)


@pytest.mark.slow
def test_a_support_vector_machine_has_scores_and_no_probabilities():
    model = PrivateLinearSVC(MANY, 1e-6, row_norm=1.8, classes=[0, 1]).fit(X[TRAIN], LABELS[TRAIN])
    evaluation = private_score(model, X[HELD], LABELS[HELD], epsilon=MANY, delta=1e-6, recall=0.8)
    said = model.decision_function(X[HELD]) > evaluation.threshold
    assert 0.77 <= said[LABELS[HELD] == 1].mean() <= 0.83
    assert not any(one.group == "calibration" for one in evaluation.measures)
    with pytest.raises(ValueError, match="no log-loss"):
        private_score(model, X[HELD], LABELS[HELD], log_loss_bound=2.0)


@pytest.mark.slow
def test_a_network():
    model = PrivateMLPClassifier(4.0, 1e-6, row_norm=1.8, classes=[0, 1], epochs=1).fit(X[TRAIN], LABELS[TRAIN])
    evaluation = private_score(model, X[HELD], LABELS[HELD], epsilon=MANY, delta=1e-6)
    assert named(evaluation)["accuracy"].value == pytest.approx(model.score(X[HELD], LABELS[HELD]), abs=2e-3)


def test_sparse_rows_frames_loaded_models_and_files_say_the_same(classifier, tmp_path):
    save_model(classifier, tmp_path / "model.sordino")
    np.save(tmp_path / "X.npy", X[HELD])
    np.save(tmp_path / "y.npy", LABELS[HELD])
    pd.DataFrame(X[HELD], columns=list("abc")).assign(y=LABELS[HELD]).to_parquet(tmp_path / "records.parquet")
    given = {"epsilon": 1.0, "delta": 1e-6, "random_state": 4}
    ways = [
        private_score(classifier, X[HELD], LABELS[HELD], **given),
        private_score(classifier, sparse.csr_matrix(X[HELD]), LABELS[HELD], **given),
        private_score(classifier, pd.DataFrame(X[HELD]), pd.Series(LABELS[HELD]), **given),
        private_score(tmp_path / "model.sordino", X[HELD], LABELS[HELD], **given),
        private_score(read_model(tmp_path / "model.sordino"), X[HELD], LABELS[HELD], **given),
        private_score(load_model(tmp_path / "model.sordino"), X[HELD], LABELS[HELD], **given),
        private_score(classifier, Arrays(tmp_path / "X.npy", tmp_path / "y.npy"), **given),
        private_score(classifier, Table(tmp_path / "records.parquet", target="y"), **given),
    ]
    assert all(way.measures == ways[0].measures for way in ways)


@pytest.mark.parametrize("target", ["classes", "number"])
def test_tables_and_files_by_a_schema(of_tables, tmp_path, target):
    if target == "classes":
        model, table = of_tables, frame()
    else:
        schema = Schema.from_toml(
            'target = { column = "income", low = -4, high = 4 }\n[columns]\na = { low = -1, high = 1 }\n'
        )
        table = frame().assign(income=NUMBERS[HELD])
        model = PrivateHuberRegressor(MANY, 1e-6, method=FEW, schema=schema).fit(
            frame(TRAIN).assign(income=NUMBERS[TRAIN])
        )
    table.to_csv(tmp_path / "held.csv", index=False)
    given = {"epsilon": 1.0, "delta": 1e-6, "random_state": 4}
    ways = [
        private_score(model, table, **given),
        private_score(model, table.drop(columns="income"), table["income"], **given),
        private_score(model, EncodedTable(tmp_path / "held.csv", model.schema), **given),
        private_score(model, EncodedTable(tmp_path / "held.csv", model.schema, memory=0), **given),
    ]
    assert all(way.measures == ways[0].measures for way in ways)
    # a seed says so, and everything else holds
    assert [finding.sentence for finding in verify_evaluation(ways[0]) if not finding.holds] == [
        "the noise did not come from the operating system, but from: seeded: not private."
    ]
    true = (model.predict(table) == table["income"]).mean() if target == "classes" else None
    if true is not None:
        exact = named(private_score(model, table, epsilon=MANY, delta=1e-6))
        assert exact["accuracy"].value == pytest.approx(true, abs=2e-3)


def test_persons_count_alike(classifier, of_tables, tmp_path):
    """One person with many records that are all wrong weighs as much as one with a single right one."""
    right = classifier.predict(X[HELD]) == LABELS[HELD]
    owners = np.where(right, np.arange(len(right)), -1)
    evaluation = private_score(classifier, X[HELD], LABELS[HELD], epsilon=MANY, delta=1e-6, person=owners)
    assert named(evaluation)["accuracy"].value == pytest.approx(right.sum() / (right.sum() + 1), abs=2e-3)
    assert "all records of any one person" in evaluation.certificate.statement
    assert evaluation.certificate.problem.records == right.sum() + 1
    assert "persons whose records it was measured on" in explain(evaluation.certificate).promised
    assert holds(evaluation)
    capped = private_score(classifier, X[HELD], LABELS[HELD], delta=1e-6, person=owners, records_per_person=2)
    assert capped.certificate.problem.person.most_records == 2
    assert holds(capped)
    table = frame().assign(who=np.arange(2000) // 4)
    table.to_parquet(tmp_path / "held.parquet")
    given = {"epsilon": 1.0, "delta": 1e-6, "random_state": 4, "person": "who"}
    one = private_score(of_tables, table, **given)
    assert one.measures == private_score(of_tables, EncodedTable(tmp_path / "held.parquet", SCHEMA), **given).measures
    assert one.certificate.problem.records == 500


def test_records_that_may_be_added_have_a_private_number(classifier):
    evaluation = private_score(
        classifier, X[HELD], LABELS[HELD], epsilon=MANY, delta=1e-6, relation="add_remove", records=2500
    )
    # no measure is divided by the stand-in
    assert named(evaluation)["accuracy"].value == pytest.approx(classifier.score(X[HELD], LABELS[HELD]), abs=2e-3)
    assert evaluation.certificate.problem.records == 2500
    assert "about 2,500" in evaluation.records
    assert holds(evaluation)
    with pytest.raises(ValueError, match="records is required"):
        private_score(classifier, X[HELD], LABELS[HELD], relation="add_remove")


def test_it_is_charged_once_named_in_the_ledger_and_refused_where_it_does_not_fit(classifier, tmp_path):
    ledger = Ledger(tmp_path / "a.ledger")
    ledger.open("held out", Budget(1.0, 1e-6))
    with charged_to(ledger, "held out"):
        evaluation = private_score(classifier, X[HELD], LABELS[HELD], epsilon=0.7, delta=1e-6)
        with pytest.raises(BudgetExceeded):
            private_score(classifier, X[HELD], LABELS[HELD], epsilon=0.7, delta=1e-6)
        # refused before a record is used: nothing is reserved
        with pytest.raises(ValueError, match="threshold is 2"):
            private_score(classifier, X[HELD], LABELS[HELD], epsilon=0.1, delta=1e-6, threshold=2.0)
    (entry,) = ledger.entries("held out")
    assert (entry.state, entry.event) == (State.SPENT, evaluation.certificate.event)
    assert entry.note == "evaluation by ScoreHistogram, epsilon 0.7"
    assert entry.model == evaluation.certificate.weights


def test_records_that_were_trained_on_are_noticed(classifier):
    rows = RNG.uniform(-1, 1, (500, 3))
    labels = (rows[:, 0] > 0).astype(int)
    model = PrivateLogisticRegression(1.0, 1e-6, row_norm=1.8, classes=[0, 1], method=FEW).fit(rows, labels)
    with pytest.warns(PrivacyWarning, match="release number 2 on these records"):
        private_score(model, rows, labels, delta=1e-6)


def test_it_survives_its_file_and_every_change_is_noticed(classifier, tmp_path):
    evaluation = private_score(classifier, X[HELD], LABELS[HELD], delta=1e-6, recall=0.8)
    evaluation.save(tmp_path / "evaluation.json")
    again = Evaluation.load(tmp_path / "evaluation.json")
    assert again == evaluation
    assert holds(again)
    first, *others = again.measures
    better = replace(first, value=min(first.value + 0.001, first.high))
    sums = replace(again.released, sums=(again.released.sums[0] + 1, *again.released.sums[1:]))
    for forged in (
        replace(again, measures=(better, *others)),
        replace(again, measures=tuple(others)),
        replace(again, remarks=("The best of all models.",)),
        replace(again, records="a million public records"),
        replace(again, model="ab" * 32),
        replace(again, released=sums),
        replace(again, released=replace(again.released, edges=again.released.edges[1:])),
        replace(again, certificate=classifier.certificate_),
        replace(again, certificate=replace(again.certificate, epsilon=0.5)),
    ):
        assert not holds(forged)
    # and the certificate of an evaluation is none of a model
    assert not all(f.holds for f in verify(again.certificate, {"weights": np.zeros(3)}))


def test_half_a_private_evaluation_is_none(classifier):
    body = json.loads(private_score(classifier, X[HELD], LABELS[HELD], delta=1e-6).to_json())
    for name in ("released", "certificate"):
        with pytest.raises(ValueError, match="go together"):
            Evaluation.from_json(json.dumps({**body, name: None}))
    with pytest.raises(ValueError, match="altered or damaged"):
        Evaluation.from_json(json.dumps({**body, "certificate": {**body["certificate"], "weights": "ab" * 32}}))
    public = Evaluation("ab" * 32, "public ones", ())
    with pytest.raises(ValueError, match="no certificate"):
        verify_evaluation(public)


def test_a_certificate_with_the_method_of_another_kind_is_refused(classifier):
    certificate = private_score(classifier, X[HELD], LABELS[HELD], delta=1e-6).certificate
    for mixed in (
        replace(certificate, method=classifier.certificate_.method),
        replace(classifier.certificate_, method=certificate.method),
    ):
        with pytest.raises(ValueError, match="malformed"):
            Certificate.from_json(mixed.to_json())


SECRET = 0.123454321
SPOILED = X[HELD].copy()
SPOILED[0, 0], SPOILED[1, 0] = np.nan, SECRET
STRANGE = LABELS[HELD].astype(float)
STRANGE[5] = 7.5

WRONG = {
    "an unseen label": ({"y": STRANGE}, "not among the 2 given classes"),
    "a missing label": ({"y": np.array([None, *LABELS[HELD][1:].tolist()], dtype=object)}, "label is missing"),
    "missing features": ({"X": SPOILED}, "contains NaN or infinite"),
    "no records": ({"X": X[:0], "y": LABELS[:0]}, "no record"),
    "no targets": ({"y": None}, "y is None"),
    "targets of another length": ({"y": LABELS[:3]}, "one target each is needed"),
    "another width": ({"X": X[HELD][:, :2]}, "3 features"),
    "one row": ({"X": X[2000], "y": LABELS[2000:2001]}, "Reshape your data"),
    "a mask": ({"X": np.ma.masked_array(X[HELD])}, "masked array"),
    "columns of other names": ({"X": pd.DataFrame(X[HELD], columns=["x", "y", "z"])}, "columns are not those"),
    "a bound for numbers": ({"error_bound": 1.0}, "error_bound was given, and a model of classes has none"),
    "a range of targets": ({"target_range": (0, 1)}, "target_range was given, and a model of classes has none"),
    "another class": ({"positive": "yes"}, "positive is 'yes'"),
    "two thresholds": ({"recall": 0.5, "precision": 0.5}, "give one of recall, precision and positive_rate"),
    "recall in per cent": ({"recall": 80}, "recall is 80"),
    "a recall in words": ({"recall": "high"}, "recall is 'high': it must be a number"),
    "a threshold of one": ({"threshold": 1.0}, "threshold is 1.0"),
    "epsilon": ({"epsilon": -1.0}, "epsilon is -1"),
    "a pure guarantee": ({"delta": 0.0}, "delta is 0, but an evaluation adds Gaussian noise"),
    "a count": ({"records": 10}, "records is 10, but there are 2000"),
    "a level": ({"level": 95.0}, "level is 95"),
    "a bound on losses": ({"log_loss_bound": 0.0}, "log_loss_bound is 0"),
    "nobody's records": ({"records_per_person": 2}, "nothing says whose the records are"),
    "persons of another number": ({"person": np.arange(5)}, "one identifier for every record"),
    "a seed": ({"random_state": "x"}, "random_state is a str"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_gets_a_sentence(case, classifier):
    changed, sentence = WRONG[case]
    given = {"X": X[HELD], "y": LABELS[HELD], "delta": 1e-6, **changed}
    model = classifier
    if case == "columns of other names":
        model = PrivateLogisticRegression(1.0, 1e-6, row_norm=1.8, classes=[0, 1], method=FEW)
        model.fit(pd.DataFrame(X[TRAIN], columns=list("abc")), LABELS[TRAIN])
    with pytest.raises((TypeError, ValueError), match=sentence) as caught:
        private_score(model, given.pop("X"), given.pop("y"), **given)
    assert str(SECRET) not in str(caught.value)


WRONG_OF_NUMBERS = {
    "accuracy at a threshold": ({"threshold": 0.5}, "threshold was given, and a model of a number has none"),
    "a recall": ({"recall": 0.5}, "recall was given, and a model of a number has none"),
    "texts": ({"y": np.array(["a"] * 2000)}, "a text that is not a number"),
    "missing": ({"y": np.where(np.arange(2000) == 3, np.nan, NUMBERS[HELD])}, "contains NaN"),
    "a range that is none": ({"target_range": (1.0,)}, "two finite numbers"),
    "a range upside down": ({"target_range": (1.0, -1.0)}, "two finite numbers"),
    "an error bound": ({"error_bound": -1.0}, "error_bound is -1"),
}


@pytest.mark.parametrize("case", WRONG_OF_NUMBERS)
def test_what_does_not_fit_a_number_gets_a_sentence(case, regressor):
    changed, sentence = WRONG_OF_NUMBERS[case]
    given = {"X": X[HELD], "y": NUMBERS[HELD], "delta": 1e-6, **changed}
    with pytest.raises((TypeError, ValueError), match=sentence):
        private_score(regressor, given.pop("X"), given.pop("y"), **given)


def test_models_that_cannot_be_evaluated_get_a_sentence(classifier, of_tables, tmp_path):
    unbounded = PrivateHuberRegressor(1.0, 1e-6, row_norm=1.8, method=FEW).fit(X[TRAIN], NUMBERS[TRAIN])
    with pytest.raises(ValueError, match=r"target_range=\(low, high\) is required"):
        private_score(unbounded, X[HELD], NUMBERS[HELD])
    assert holds(private_score(unbounded, X[HELD], NUMBERS[HELD], delta=1e-6, target_range=(-4, 4)))
    with pytest.raises(ValueError, match="without a certificate"):
        private_score(PrivateLogisticRegression(), X[HELD], LABELS[HELD])
    changed = PrivateLogisticRegression(1.0, 1e-6, row_norm=1.8, classes=[0, 1], method=FEW).fit(
        X[TRAIN], LABELS[TRAIN]
    )
    changed.coef_ = changed.coef_ + 1
    with pytest.raises(ValueError, match="not the ones that were released"):
        private_score(changed, X[HELD], LABELS[HELD])
    np.save(tmp_path / "X.npy", X[HELD, :2])
    np.save(tmp_path / "y.npy", LABELS[HELD])
    with pytest.raises(ValueError, match="another schema"):
        private_score(of_tables, Arrays(tmp_path / "X.npy", tmp_path / "y.npy"))
    with pytest.raises(ValueError, match="no label among the schema's `classes`"):
        private_score(of_tables, frame().assign(income="none"))
    np.save(tmp_path / "X.npy", X[HELD])
    np.save(tmp_path / "y.npy", STRANGE)
    with pytest.raises(ValueError, match="not among the model's classes"):
        private_score(classifier, Arrays(tmp_path / "X.npy", tmp_path / "y.npy"))


@pytest.mark.parametrize("kind", ["two classes", "more classes", "network", "a number"])
def test_what_is_said_of_a_record_is_its_own_to_the_last_bit(kind, classifier, monkeypatch):
    """Many records may lie at an edge between cells, and one more must not move them across it."""
    models = {
        "two classes": (classifier, LABELS),
        "more classes": (PrivateLogisticRegression(MANY, 1e-6, method=FEW, row_norm=1.8, classes=[0, 1, 2]), THREE),
        "network": (PrivateMLPClassifier(4.0, 1e-6, row_norm=1.8, classes=[0, 1], epochs=1), LABELS),
        "a number": (PrivateHuberRegressor(MANY, 1e-6, method=FEW, row_norm=1.8, target_bound=4.0), NUMBERS),
    }
    model, targets = models[kind]
    model = model if kind == "two classes" else model.fit(X[TRAIN], targets[TRAIN])
    seen = []

    def noted(relation, said, truth, losses, persons):
        seen.append((said, losses))
        return of(relation, said, truth, losses, persons)

    of = Outcomes.of
    monkeypatch.setattr(Outcomes, "of", staticmethod(noted))
    bounds = {} if kind == "a number" else {"log_loss_bound": 3.0}
    for rows in (slice(2000, 4000), slice(2001, 3994), slice(2100, 2101)):
        private_score(model, X[rows], targets[rows], relation="add_remove", records=1000, **bounds)
        (said, losses), (all_said, all_losses) = seen[-1], seen[0]
        where = slice(rows.start - 2000, rows.stop - 2000)
        np.testing.assert_array_equal(said, all_said[where])
        np.testing.assert_array_equal(losses, all_losses[where])
