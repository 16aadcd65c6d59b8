"""A step fitted to the records before a private estimator is refused, however it is called; row-wise steps pass."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from joblib import parallel_backend
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.impute import IterativeImputer
from sklearn.linear_model import RANSACRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.semi_supervised import SelfTrainingClassifier

from sordino import (
    NoisyGradientDescent,
    PrivateHuberRegressor,
    PrivateImageClassifier,
    PrivateLogisticRegression,
    verify,
)
from sordino.estimators.networks import PrivateMLPClassifier
from sordino.estimators.search import PrivateSearch
from sordino.features import HOG
from sordino.privacy.randomness import SEEDED

pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, size=(240, 3))
Y = (X[:, 0] > 0).astype(int)
FEW = NoisyGradientDescent(steps=2)


def logistic(**settings):
    return PrivateLogisticRegression(**{"row_norm": 2.0, "classes": [0, 1], "method": FEW, **settings})


def pictures():
    """Of one row and three columns."""
    return PrivateImageClassifier(features=HOG((1, 3), cells=(1,)), classes=None, method=FEW)


def huber(**settings):
    return PrivateHuberRegressor(**{"row_norm": 2.0, "target_bound": 1.0, "method": FEW, **settings})


def scaled(last=None):
    return make_pipeline(StandardScaler(), logistic() if last is None else last)


class Centred(BaseEstimator, TransformerMixin):
    """Somebody's own."""

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        return self

    def transform(self, X):
        return X - self.mean_


class Sneaky(Normalizer):
    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        return super().fit(X)


def imitation():
    return type("FunctionTransformer", (Centred,), {})()


def in_columns(step):
    return ColumnTransformer([("some", step, [0, 1])], remainder="passthrough")


FITTED = {
    "make_pipeline": scaled,
    "Pipeline": lambda: Pipeline([("a", MinMaxScaler()), ("b", logistic())]),
    "a step of one's own": lambda: make_pipeline(Centred(), logistic()),
    "one that derives from a row-wise one": lambda: make_pipeline(Sneaky(), logistic()),
    "one with the name of a trusted one": lambda: make_pipeline(imitation(), logistic()),
    "columns chosen by the records": lambda: make_pipeline(
        ColumnTransformer([("some", "passthrough", lambda X: [X.mean(axis=0).argmax()])]), logistic()
    ),
    "second of three": lambda: make_pipeline(Normalizer(), StandardScaler(), logistic()),
    "in columns": lambda: make_pipeline(in_columns(StandardScaler()), logistic()),
    "in the remaining columns": lambda: make_pipeline(
        ColumnTransformer([("some", "passthrough", [0])], remainder=StandardScaler()), logistic()
    ),
    "in a union": lambda: make_pipeline(FeatureUnion([("a", Normalizer()), ("b", StandardScaler())]), logistic()),
    "a pipeline before": lambda: make_pipeline(make_pipeline(Normalizer(), StandardScaler()), logistic()),
    "a pipeline after": lambda: scaled(make_pipeline(Normalizer(), logistic())),
    "cloned": lambda: clone(scaled()),
    "set later": lambda: make_pipeline(Normalizer(), logistic()).set_params(normalizer=StandardScaler()),
    "pickled": lambda: pickle.loads(pickle.dumps(scaled())),
    "searched": lambda: GridSearchCV(scaled(), {"privatelogisticregression__l2": [0.1]}, cv=2, error_score="raise"),
    "a search after": lambda: scaled(GridSearchCV(logistic(), {"l2": [0.1]}, cv=2, error_score="raise")),
    "a private search after": lambda: scaled(PrivateSearch(logistic(method="auto"), {"l2": [0.1, 0.2]})),
    "calibrated": lambda: CalibratedClassifierCV(scaled(), cv=2),
    "calibrated after": lambda: scaled(CalibratedClassifierCV(logistic(), cv=2)),
    "bagged after": lambda: scaled(BaggingClassifier(logistic(), n_estimators=1)),
    "stacked": lambda: StackingClassifier([("a", logistic())], final_estimator=logistic(), cv=2),
    "a network": lambda: scaled(PrivateMLPClassifier(row_norm=2.0, classes=[0, 1], epochs=1)),
    "weighed by errors of all": lambda: AdaBoostClassifier(logistic(weight_bound=1.0), n_estimators=2),
    "drawn by errors of all": lambda: AdaBoostRegressor(huber(), n_estimators=2),
    "chosen by a median of all": lambda: RANSACRegressor(huber(), min_samples=50),
    "chosen by their classes": lambda: OneVsOneClassifier(logistic()),
    "a model for every class that occurs": lambda: OneVsRestClassifier(logistic()),
    # of a book in which both classes have the same code there is nothing to fit
    "recoded by the classes that occur": lambda: OutputCodeClassifier(logistic(classes=[-1, 1]), random_state=0),
    "filled with means of all": lambda: IterativeImputer(huber(), max_iter=1),
    "chosen by their rank": lambda: SelfTrainingClassifier(logistic(), criterion="k_best"),
    "drawn more than once": lambda: BaggingClassifier(PrivateMLPClassifier(row_norm=2.0, epochs=1), n_estimators=1),
    "drawn more than once for a pipeline": lambda: BaggingClassifier(
        make_pipeline(Normalizer(), logistic(classes=None)), n_estimators=1
    ),
    "weighed classes by their numbers": lambda: BaggingClassifier(logistic(weight_bound=2.0), n_estimators=1),
    "classes by their numbers": lambda: VotingClassifier([("a", logistic())]),
    "classes by their numbers below": lambda: StackingClassifier([("a", logistic())], cv=2),
    "a target": lambda: TransformedTargetRegressor(
        PrivateHuberRegressor(row_norm=2.0, target_bound=1.0), transformer=StandardScaler()
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*unlabeled samples")
@pytest.mark.parametrize("name", FITTED)
def test_a_fitted_step_is_refused(name):
    if name in ("a network", "drawn more than once"):
        pytest.importorskip("torch")
    given = np.where(np.eye(*X.shape) > 0, np.nan, X) if name == "filled with means of all" else X
    with pytest.raises(ValueError, match=r"fitted to the records: .* FrozenEstimator"):
        FITTED[name]().fit(given, Y)


def test_ensembles_that_leave_every_record_alone():
    """Weights that count how often a record was drawn, and numbers of classes where those that occur are public."""
    assert len(MultiOutputClassifier(logistic()).fit(X, np.c_[Y, Y]).estimators_) == 2
    voted = VotingClassifier([("a", logistic(classes=None))]).fit(X, Y).estimators_[0]
    assert all(finding.holds for finding in verify(voted.certificate_))
    # scikit-learn gives these a seed, which their certificates say
    drawn = BaggingRegressor(huber(weight_bound=2.0), n_estimators=1).fit(X, X[:, 0]).estimators_[0]
    once = BaggingRegressor(make_pipeline(huber()), n_estimators=1, bootstrap=False).fit(X, X[:, 0]).estimators_[0][-1]
    assert drawn.certificate_.randomness == once.certificate_.randomness == SEEDED


def test_cross_validation_is_refused_too():
    with pytest.raises(ValueError, match="fitted to the records"):
        cross_val_score(scaled(), X, Y, cv=2, error_score="raise")


@pytest.mark.parametrize("backend", [pytest.param("loky", marks=pytest.mark.slow), "threading"])
@pytest.mark.parametrize(
    "meta",
    [
        lambda: GridSearchCV(logistic(), {"l2": [0.0, 0.1]}, cv=2, n_jobs=2, refit=False, error_score="raise"),
        lambda: VotingClassifier([("a", logistic()), ("b", logistic())], n_jobs=2),
        # copies are made by the workers here
        lambda: MultiOutputClassifier(logistic(), n_jobs=2),
        # the estimator that trains is made by the workers
        lambda: VotingClassifier([("a", pictures()), ("b", pictures())], n_jobs=2),
    ],
    ids=["search", "vote", "several targets", "vote on pictures"],
)
def test_what_a_pipeline_hands_to_workers_is_refused_there(backend, meta):
    with parallel_backend(backend), pytest.raises(ValueError, match="fitted to the records"):
        make_pipeline(StandardScaler(), meta()).fit(X, np.c_[Y, Y] if "MultiOutput" in repr(meta()) else Y)


ROW_WISE = {
    "Normalizer": Normalizer(),
    "pictures": HOG((1, 3), cells=(1,)),
    "Binarizer": Binarizer(),
    "PolynomialFeatures": PolynomialFeatures(2),
    "passthrough": "passthrough",
    "in columns": in_columns(Normalizer()),
    "in a union": FeatureUnion([("a", Normalizer()), ("b", Binarizer())]),
    "in a pipeline": make_pipeline(Normalizer(), Binarizer()),
}


@pytest.mark.parametrize("name", ROW_WISE)
def test_a_row_wise_step_passes_and_leaves_no_mark(name):
    model = Pipeline([("first", ROW_WISE[name]), ("last", logistic())]).fit(X, Y)["last"]
    assert all(finding.holds for finding in verify(model.certificate_))
    assert not any("steps before" in sentence for sentence in model.certificate_.assumed)


def test_nobody_counts_the_zeros_of_all_records():
    """By default a ColumnTransformer gives sparse rows where fewer than three tenths of all records' numbers are not 0,
    and dense ones are prepared otherwise than sparse ones."""
    public_codes = FrozenEstimator(OneHotEncoder(handle_unknown="ignore").fit(np.arange(3.0)[:, None]))
    own = FunctionTransformer(sparse.csr_array)
    for given, step in (
        (X, public_codes),
        (X, own),
        (X, make_pipeline(Normalizer(), own)),
        (sparse.csr_array(X), Normalizer()),
    ):
        some = {"transformers": [("some", step, [0])], "remainder": "drop"}
        with pytest.raises(ValueError, match="sparse_threshold=0"):
            make_pipeline(ColumnTransformer(**some), logistic()).fit(given, Y)
        make_pipeline(ColumnTransformer(**some, sparse_threshold=0), logistic()).fit(given, Y)


def test_sparse_columns_of_a_data_frame_are_sparse_rows():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": X[:, 0], "b": pandas.arrays.SparseArray(X[:, 1], fill_value=0.0)})
    for step in (Normalizer(), FunctionTransformer(np.tanh)):
        with pytest.raises(ValueError, match="sparse_threshold=0"):
            make_pipeline(ColumnTransformer([("some", step, ["b"])]), logistic()).fit(table, Y)
    some = ColumnTransformer([("some", Normalizer(), ["b"])], sparse_threshold=0)
    assert make_pipeline(some, logistic()).fit(table, Y)[-1].n_features_in_ == 1


@pytest.mark.parametrize("function", [None, np.tanh])
def test_a_function_that_leaves_dense_rows_dense_counts_no_zeros(function):
    assert make_pipeline(in_columns(FunctionTransformer(function)), logistic()).fit(X, Y)[-1].n_features_in_ == 3


@pytest.mark.parametrize("chosen", [{"dtype_include": "int64"}, {"dtype_exclude": "float64"}])
def test_the_types_of_columns_choose_none(chosen):
    """One missing cell makes floats of a data frame's whole numbers, and the column would be there or not for all."""
    table = pytest.importorskip("pandas").DataFrame({"a": np.arange(len(Y)) % 3, "b": X[:, 0]})
    some = ColumnTransformer([("some", "passthrough", make_column_selector(**chosen)), ("b", "passthrough", ["b"])])
    for records in (table, table.replace({"a": {2: None}})):
        with pytest.raises(ValueError, match=r"fitted to the records: .* columns by their names or numbers"):
            make_pipeline(some, logistic()).fit(records, Y)


def test_columns_may_be_chosen_by_their_names():
    table = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b", "c"])
    some = ColumnTransformer([("some", "passthrough", make_column_selector("a|b"))])
    assert make_pipeline(some, logistic()).fit(table, Y)[-1].n_features_in_ == 2


def public():
    return FrozenEstimator(StandardScaler().fit(np.eye(3)))


@pytest.mark.parametrize("step", [public(), FunctionTransformer(np.tanh)])
def test_what_is_taken_on_trust_is_in_the_certificate(step):
    model = make_pipeline(step, logistic()).fit(X, Y)[-1]
    assert f"by itself: {type(step).__name__}" in model.certificate_.assumed[-1]
    assert all(finding.holds for finding in verify(model.certificate_))


def test_a_function_of_the_target_is_taken_on_trust():
    plain = PrivateHuberRegressor(row_norm=2.0, target_bound=2.0, method=FEW)
    model = TransformedTargetRegressor(plain, func=np.arcsinh, inverse_func=np.sinh).fit(X, X[:, 0])
    assert "FunctionTransformer" in model.regressor_.certificate_.assumed[-1]


def test_nothing_sticks_to_an_estimator_that_left_its_pipeline():
    """Copies of a pipeline that is not being fitted, and steps that were replaced before it was."""
    inner = logistic()
    pipeline = scaled(inner)
    with pytest.raises(ValueError, match="fitted to the records"):
        pipeline.fit(X, Y)
    assert inner.fit(X, Y).coef_.shape == (1, 3)
    assert clone(pipeline)[-1].fit(X, Y).certificate_.notes == ()
    assert clone(pipeline).set_params(standardscaler=public())[-1].fit(X, Y).certificate_
    grid = {"standardscaler": [Normalizer(), public()]}
    assert GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, Y).best_score_ >= 0
    again = pickle.loads(pickle.dumps(inner))
    assert again.coef_.tolist() == inner.coef_.tolist()


def test_a_copy_keeps_what_was_found_for_what_it_is_made_of():
    """Here as in a worker: the linear model of pictures is made where nothing is before it."""
    inner = pictures()
    inner._found = (StandardScaler,)
    for copy in (clone(inner), pickle.loads(pickle.dumps(inner))):
        with pytest.raises(ValueError, match="StandardScaler comes before PrivateLogisticRegression"):
            copy.fit(abs(X), Y)
    inner._found = (FunctionTransformer,)
    assert any("FunctionTransformer" in said for said in clone(inner).fit(abs(X), Y).certificate_.assumed)
