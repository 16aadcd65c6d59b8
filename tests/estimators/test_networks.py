from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from sordino.budget import Budget
from sordino.certificate import verify
from sordino.estimators.networks import PrivateMLPClassifier, PrivateMLPRegressor
from sordino.estimators.perceptron import network
from sordino.ledger.ledger import Ledger, State
from sordino.methods import DPSGD
from sordino.privacy.ledger_context import charged_to
from sordino.train import PrivacyWarning

pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")


# scikit-learn's checks ask for accuracy on a few dozen rows, so they are run where the noise is negligible
@pytest.mark.slow
@parametrize_with_checks(
    [
        PrivateMLPClassifier(epsilon=1e5, row_norm=10.0, hidden_layer_sizes=(8,), epochs=150, step_size=0.05),
        PrivateMLPRegressor(
            epsilon=1e5, row_norm=4.0, target_bound=2.0, hidden_layer_sizes=(8,), epochs=150, step_size=0.03
        ),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rings():
    """Two classes that no line divides."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3000, 2))
    return X, np.where(np.hypot(*X.T) > 0.75, "out", "in")


def classifier(**settings):
    return PrivateMLPClassifier(
        **{
            "epsilon": 3.0,
            "row_norm": 1.5,
            "classes": ["in", "out"],
            "hidden_layer_sizes": (16,),
            "epochs": 15,
            "random_state": 0,
            **settings,
        }
    )


def test_learns_what_no_line_divides_and_certifies(rings):
    X, y = rings
    assert classifier(step_size=0.1).fit(X, y).score(X, y) > 0.85
    model = classifier(random_state=None, epochs=1).fit(X, y)
    assert [weights.shape for weights in model.coefs_] == [(2, 16), (16, 1)]
    certificate = model.certificate_
    assert (certificate.epsilon, certificate.delta) == (3.0, 1 / 3000**2)
    assert certificate.problem.dim == 2 * 16 + 16 + 16 + 1
    assert all(finding.holds for finding in verify(certificate))
    assert "rows with a norm above 1.5 are scaled down to it" in certificate.enforced
    assert "the class labels were given" in certificate.assumed
    np.testing.assert_allclose(model.predict_proba(X[:5]).sum(1), 1)


def test_many_classes():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, size=(4000, 3))
    y = np.abs(X).argmax(1)
    model = PrivateMLPClassifier(
        epsilon=4.0, row_norm=2.0, classes=[0, 1, 2], hidden_layer_sizes=(24,), random_state=0
    ).fit(X, y)
    assert model.score(X, y) > 0.7
    np.testing.assert_allclose(model.predict_proba(X[:5]).sum(1), 1)
    assert model.coefs_[-1].shape == (24, 3)


def test_numbers():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(3000, 2))
    y = 5 * np.sin(3 * X[:, 0]) * X[:, 1]
    model = PrivateMLPRegressor(
        epsilon=4.0, row_norm=1.5, target_bound=5.0, hidden_layer_sizes=(24,), epochs=30, random_state=0
    ).fit(X, y)
    assert model.score(X, y) > 0.5
    assert "targets are clipped to [-5, 5]" in model.certificate_.enforced


@pytest.mark.parametrize("name", ["adam", "rmsprop", "sgd", "recursive_momentum"])
def test_methods_by_name(rings, name):
    model = classifier(method=name, epochs=1).fit(*rings)
    assert model.certificate_.plan["clip"] == 1.0


def test_a_method_of_ones_own(rings):
    model = classifier(method=DPSGD(clip=0.5, step_size=1.0), epochs=1).fit(*rings)
    assert model.certificate_.plan["clip"] == 0.5


def test_predictions_are_those_of_the_network(rings):
    X, _ = rings
    model = classifier(activation="relu", hidden_layer_sizes=(5, 4), epochs=1).fit(*rings)
    twin = network((2, 5, 4, 1), "relu").double()
    with torch.no_grad():
        for layer, weights, shift in zip(twin[::2], model.coefs_, model.intercepts_, strict=True):
            layer.weight.copy_(torch.tensor(weights.T))
            layer.bias.copy_(torch.tensor(shift))
        far = 3 * X[:50]  # beyond the row bound
        inputs = far / np.maximum(1, np.linalg.norm(far, axis=1, keepdims=True) / 1.5) * np.sqrt(2) / 1.5
        outputs = twin(torch.tensor(inputs)).numpy().ravel()
    np.testing.assert_allclose(model.decision_function(far), outputs, rtol=1e-10)


def test_a_seed_repeats_and_global_generators_are_left_alone(rings):
    X, y = rings
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one, other = (clone(classifier(epochs=1)).fit(X, y) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    np.testing.assert_array_equal(one.coefs_[0], other.coefs_[0])
    assert not verify(one.certificate_)[-1].holds
    fresh = [classifier(epochs=1, random_state=None).fit(X, y).coefs_[0] for _ in range(2)]
    assert (fresh[0] != fresh[1]).all()


def test_add_remove_and_the_ledger(rings, tmp_path):
    X, y = rings
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("rings", Budget(3.0, 1e-6, "add_remove"))
    with charged_to(ledger, "rings"):
        model = classifier(relation="add_remove", records=2900, delta=1e-6, epochs=1).fit(X, y)
    assert model.certificate_.problem.records == 2900
    assert [entry.state for entry in ledger.entries("rings")] == [State.SPENT]


def test_a_second_release_is_noted(rings):
    X, y = rings
    classifier(epochs=1).fit(X, y)
    with pytest.warns(PrivacyWarning, match="release number"):
        model = classifier(epochs=1).fit(X, y)
    assert model.certificate_.notes == ()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"row_norm": None}, "row_norm is None, but it is required"),
        ({"delta": 0}, "needs delta > 0"),
        ({"epsilon": -1}, "epsilon is -1"),
        ({"method": "auto"}, "method is 'auto': it must be 'adam'"),
        ({"activation": "step"}, "activation is 'step'"),
        ({"hidden_layer_sizes": (16, 0)}, "hidden_layer_sizes"),
        ({"hidden_layer_sizes": (1.5,)}, "hidden_layer_sizes"),
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 4000}, "between 1 and the 3000 records"),
        ({"batch_size": 0}, "between 1 and the 3000 records"),
        ({"clip": -1.0}, "clip is -1"),
        ({"classes": ["in"]}, "at least two"),
        ({"classes": ["in", "elsewhere"]}, "not among the 2 given classes"),
        ({"relation": "add_remove"}, "records is required"),
        ({"random_state": "seed"}, "random_state is a str"),
    ],
)
def test_refusals_are_sentences(rings, change, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        classifier(**change).fit(*rings)


def test_sparse_rows_are_refused(rings):
    X, y = rings
    with pytest.raises(TypeError, match="dense data is required"):
        classifier().fit(sparse.csr_matrix(X), y)


def test_a_target_bound_is_required(rings):
    with pytest.raises(ValueError, match=r"target_bound or target_range.* is required"):
        PrivateMLPRegressor(row_norm=1.5).fit(rings[0], rings[0][:, 0])
