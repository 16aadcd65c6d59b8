"""Two workers give the bits of one process, whoever is killed on the way."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import few_steps
import stored
from plain_gradients import exact
from sordino import NoisyGradientDescent, PrivateLogisticRegression, verify
from sordino.budget import Relation
from sordino.cluster import connected
from sordino.files import Table
from sordino.oracle import linear_oracle
from sordino.oracle.cluster import ClusterBlocks, Spread
from sordino.oracle.files import source as source_module
from sordino.oracle.files.memory import Memory
from sordino.oracle.persons import Persons
from sordino.oracle.query import Gradient
from sordino.oracle.sampling import Poisson
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import PersonUnit
from sordino.progress import watching

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:This is release number")]

RECORDS, FEATURES = 2 * 65536 + 1037, 5


@pytest.fixture(scope="module")
def data():
    return few_steps.data(RECORDS, FEATURES, np.float32)


def spread(cluster, form, folder, X, y):
    """With the source it is of."""
    source = Memory.of(X, y) if form == "memory" else stored.FORMS[form](folder, X, y)
    return Spread(source, cluster), source


@pytest.fixture(scope="module")
def shared(cluster, data, tmp_path_factory):
    """Starting workers takes longer than asking them."""
    return spread(cluster, "npy", tmp_path_factory.mktemp("shared"), *data)


@pytest.mark.parametrize("name", few_steps.SETTINGS)
def test_every_method_has_the_bits_of_one_process(shared, name):
    method = few_steps.SETTINGS[name]
    problem = few_steps.problem(method, RECORDS, FEATURES)
    here, source = shared
    assert source.units.blocks == 3
    assert [last - first for first, last in here.crew.ranges] == [1, 2]
    want = few_steps.weights(method, problem, linear_oracle(source, None, problem, few_steps.ROWS))
    oracle = linear_oracle(here, None, problem, few_steps.ROWS)
    assert isinstance(oracle.blocks, ClusterBlocks)
    np.testing.assert_array_equal(few_steps.weights(method, problem, oracle), want)


@pytest.mark.parametrize(
    "weights", [None, np.resize([0.25, 1.0, 0.0, 40.0, 0.7], RECORDS)], ids=["one each", "weighted"]
)
@pytest.mark.parametrize(
    ("form", "memory"), [("memory", 1 << 30), ("parquet_folder", 0), ("parquet_folder", 1 << 30), ("npy_files", 0)]
)
def test_every_source_kept_or_read(cluster, data, tmp_path, form, memory, weights):
    here, source = spread(replace(cluster, memory=memory), form, tmp_path, *data)
    problem = few_steps.problem(NoisyGradientDescent(1), RECORDS, FEATURES)
    public = problem, few_steps.ROWS, Relation.REPLACE_ONE, None, weights
    oracle, want = (linear_oracle(s, None, *public) for s in (here, source))
    at = np.random.default_rng(1).normal(size=(9, problem.dim))
    some = oracle.draw(Poisson(0.01), Randomness.seeded(0))
    one = np.array([70_000])
    for batch in (None, some, one, one[:0]):
        np.testing.assert_array_equal(oracle.gradient(at, batch), want.gradient(at, batch))
    np.testing.assert_array_equal(oracle.value(at), want.value(at))
    np.testing.assert_array_equal(oracle.curvature_product(at[0])(at[1]), want.curvature_product(at[0])(at[1]))
    parts = replace(problem, records=RECORDS - len(some)), replace(problem, records=len(some))
    for mine, theirs in zip(oracle.divide(some, *parts), want.divide(some, *parts), strict=True):
        np.testing.assert_array_equal(mine.gradient(at), theirs.gradient(at))
        np.testing.assert_array_equal(
            mine.gradient(at[0], np.array([5, 600])), theirs.gradient(at[0], np.array([5, 600]))
        )
        np.testing.assert_array_equal(mine.value(at), theirs.value(at))


def test_sparse_rows(cluster):
    X = sparse.random_array((3000, 40), density=0.1, rng=np.random.default_rng(0), format="csr")
    y = np.sign(np.random.default_rng(1).normal(size=3000))
    problem = few_steps.problem(NoisyGradientDescent(1), 3000, 40)
    at = np.random.default_rng(1).normal(size=(3, problem.dim))
    want = linear_oracle(X, y, problem, few_steps.ROWS)
    oracle = linear_oracle(cluster.hold(X, y), None, problem, few_steps.ROWS)
    for batch in (None, np.arange(0, 3000, 7)):
        np.testing.assert_allclose(oracle.gradient(at, batch), want.gradient(at, batch), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(oracle.value(at), want.value(at), rtol=1e-12)


def test_records_that_are_kept_are_not_read_again_for_their_weights(cluster, data):
    """A fit asks whether all targets are known first, and workers keep what they have read for that."""
    X, y = data
    here = Spread(Memory.of(X, y), cluster)
    assert here.check() == 0
    problem = few_steps.problem(NoisyGradientDescent(1), RECORDS, FEATURES)
    weights, at = np.resize([0.25, 0.0, 1.0], RECORDS), np.ones(problem.dim)
    public = problem, few_steps.ROWS, Relation.REPLACE_ONE, None
    weighted, plain = linear_oracle(here, None, *public, weights), linear_oracle(here, None, *public)
    np.testing.assert_allclose(weighted.gradient(at), linear_oracle(X, y, *public, weights).gradient(at), rtol=1e-10)
    np.testing.assert_allclose(plain.gradient(at), linear_oracle(X, y, *public).gradient(at), rtol=1e-10)
    kill(here.crew, 1)
    np.testing.assert_allclose(weighted.gradient(at), linear_oracle(X, y, *public, weights).gradient(at), rtol=1e-10)


def kill(crew, number):
    os.kill(crew.processes()[number], signal.SIGKILL)


def test_a_killed_worker_changes_neither_the_result_nor_the_certificate(cluster, data, tmp_path):
    X, y = data
    source = stored.parquet_folder(tmp_path, X, y)
    crews, started = [], []

    class Watched(Spread):
        """Tells who works for it."""

        def coded(self, coding):
            coded = super().coded(coding)
            crews.append(coded.crew)
            started[:] = coded.crew.processes()
            return coded

    def fitted(killed):
        def listener(done, planned):
            if done in killed:
                kill(crews[-1], killed[done])

        model = PrivateLogisticRegression(
            2.0, row_norm=3.0, classes=[-1, 1], method=NoisyGradientDescent(8), random_state=5
        )
        with watching(listener):
            return model.fit(Watched(source, cluster))

    calm = fitted({})
    disturbed = fitted({2: 0, 5: 1})
    np.testing.assert_array_equal(disturbed.coef_, calm.coef_)
    np.testing.assert_array_equal(disturbed.intercept_, calm.intercept_)
    a, b = calm.certificate_, disturbed.certificate_
    assert (a.event, a.plan, a.epsilon, a.delta) == (b.event, b.plan, b.epsilon, b.delta)
    # who answered in the end was not there in the beginning
    assert not set(crews[-1].processes()) & set(started)


def test_a_worker_that_is_lost_while_it_answers(cluster, data):
    """The answer is repeated and perturbed once: the noise is the first that this randomness draws."""
    X, y = data
    problem = few_steps.problem(NoisyGradientDescent(1), RECORDS, FEATURES)
    here = cluster.hold(X, y)
    oracle = linear_oracle(here, None, problem, few_steps.ROWS)
    at = np.ones((200, problem.dim))
    noise = GaussianNoise.at(1.0, 0.2, problem.dim)
    want = oracle.release(Gradient(at, 0.1), noise, Randomness.seeded(3))
    processes = here.crew.processes()
    kill(here.crew, 1)
    np.testing.assert_array_equal(oracle.release(Gradient(at, 0.1), noise, Randomness.seeded(3)), want)
    after = here.crew.processes()
    assert after[0] == processes[0]
    assert after[1] != processes[1]


def test_a_worker_that_dies_again_and_again_is_a_sentence(cluster, data, monkeypatch):
    from sordino.oracle import cluster as module

    monkeypatch.setattr(module, "_ATTEMPTS", 0)
    here = cluster.hold(*data)
    problem = few_steps.problem(NoisyGradientDescent(1), RECORDS, FEATURES)
    oracle = linear_oracle(here, None, problem, few_steps.ROWS)
    kill(here.crew, 0)
    with pytest.raises(RuntimeError, match=r"a worker was lost, .* nothing computed from its records was released"):
        oracle.gradient(problem.start())


def test_errors_of_the_workers_arrive_as_they_are(cluster, data, tmp_path):
    X, y = data
    source = stored.npy(tmp_path, X, y)
    problem = few_steps.problem(NoisyGradientDescent(1), RECORDS, FEATURES)
    oracle = linear_oracle(Spread(source, replace(cluster, memory=0)), None, problem, few_steps.ROWS)
    oracle.gradient(problem.start())
    os.utime(tmp_path / "X.npy", ns=(0, 0))
    with pytest.raises(RuntimeError, match=r"X\.npy was changed since it was opened"):
        oracle.gradient(problem.start())
    model = PrivateLogisticRegression(row_norm=2.0, classes=["a", "b"])
    with pytest.raises(ValueError, match="at least one label is not among the 2 given classes"):
        model.fit(cluster.hold(X, y))
    with pytest.raises(ValueError, match="leave it out"):
        cluster.hold(source, y)


def test_files_named_from_the_folder_of_the_driver(cluster, data, tmp_path, monkeypatch):
    """Workers were started in another one."""
    stored.parquet_folder(tmp_path, *data)
    monkeypatch.chdir(tmp_path)
    assert cluster.hold(Table(".", "y")).check() == 0


def test_estimators(cluster, tmp_path):
    X, y = few_steps.data(3000, 4)
    names = np.where(y > 0, "yes", "no")
    model = PrivateLogisticRegression(2.0, row_norm=3.0, classes=["no", "yes"], random_state=1)
    want = model.fit(X, names).coef_.copy()
    np.testing.assert_array_equal(model.fit(cluster.hold(X, names)).coef_, want)
    np.testing.assert_array_equal(model.fit(cluster.hold(stored.parquet(tmp_path, X, names))).coef_, want)
    private = model.set_params(random_state=None).fit(cluster.hold(Table(tmp_path / "t.parquet", "y")))
    assert all(finding.holds for finding in verify(private.certificate_))


UNITS = (PersonUnit(3), PersonUnit(3, "capped"), PersonUnit(None, "sum", 3))


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize(("form", "memory"), [("memory", 1 << 30), ("parquet_folder", 0), ("npy_files", 1 << 30)])
def test_persons_have_the_bits_of_one_process(cluster, data, tmp_path, form, memory, unit):
    """Whose records are with both workers, in every block."""
    here, source = spread(replace(cluster, memory=memory), form, tmp_path, *data)
    whose = np.random.default_rng(3).integers(RECORDS // 4, size=RECORDS)
    persons = Persons.of(whose, unit, Randomness.seeded(1))
    plain = few_steps.problem(NoisyGradientDescent(1), len(persons), FEATURES)
    problem = replace(plain, person=unit)
    oracle, want = (
        linear_oracle(s, None, problem, few_steps.ROWS, Relation.REPLACE_ONE, persons) for s in (here, source)
    )
    at = np.random.default_rng(1).normal(size=(2, problem.dim))
    some = oracle.draw(Poisson(0.01), Randomness.seeded(0))
    for batch in (None, some, some[:1], some[:0]):
        np.testing.assert_array_equal(exact(oracle, Gradient(at, 0.1, batch)), exact(want, Gradient(at, 0.1, batch)))
    np.testing.assert_array_equal(oracle.value(at), want.value(at))
    parts = replace(problem, records=len(persons) - len(some)), replace(problem, records=len(some))
    for mine, theirs in zip(oracle.divide(some, *parts), want.divide(some, *parts), strict=True):
        np.testing.assert_array_equal(exact(mine, Gradient(at, 0.1)), exact(theirs, Gradient(at, 0.1)))


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_estimators_of_persons(cluster, tmp_path, unit):
    X, y = few_steps.data(3000, 4)
    whose = np.random.default_rng(3).integers(800, size=3000)
    names = np.where(y > 0, "yes", "no")
    asked = {
        "person": whose,
        "records_per_person": unit.most_records,
        "contribution": unit.contribution,
        "typical_records": unit.typical_records,
    }
    model = PrivateLogisticRegression(2.0, row_norm=3.0, classes=["no", "yes"], random_state=1)
    want = model.fit(X, names, **asked).coef_.copy()
    np.testing.assert_allclose(model.fit(cluster.hold(X, names), **asked).coef_, want, rtol=1e-9)
    files = stored.parquet(tmp_path, X, names)
    private = model.set_params(random_state=None).fit(cluster.hold(files), **asked)
    assert private.certificate_.problem.person == unit
    assert all(finding.holds for finding in verify(private.certificate_))


def test_workers_are_dismissed_with_what_they_worked_for(cluster, data):
    import gc
    import time

    here = cluster.hold(*data)
    processes = here.crew.processes()
    problem = few_steps.problem(NoisyGradientDescent(1), RECORDS, FEATURES)
    oracle = linear_oracle(here, None, problem, few_steps.ROWS)
    half = np.arange(0, RECORDS, 2)
    parts = oracle.divide(half, replace(problem, records=RECORDS - len(half)), replace(problem, records=len(half)))
    parts[0].gradient(problem.start())
    del here, oracle, parts
    gc.collect()
    for _ in range(100):
        if not any(os.path.exists(f"/proc/{process}") for process in processes):
            break
        time.sleep(0.1)
    assert not any(os.path.exists(f"/proc/{process}") for process in processes)


def test_a_second_connection_uses_the_first(cluster):
    with connected("local", workers=1) as again:
        assert again.workers == 1
    # and has not ended it
    assert cluster.hold(np.ones((10, 2)), np.ones(10)).check() == 0


def test_settings_that_make_no_sense(cluster):
    for settings in ({"workers": 0}, {"threads": 0}, {"memory": -1.0}, {"memory": float("nan")}):
        with pytest.raises(ValueError, match="there must be one worker at least"), connected("local", **settings):
            pass
    with pytest.raises(ValueError, match="a matrix and one target per row"):
        cluster.hold(np.ones((10, 2)), np.ones(9))
    with pytest.raises(ValueError, match="X has no records"):
        cluster.hold(np.ones((0, 2)), np.ones(0))
    assert source_module.record_units(10, FEATURES).block == 65536
