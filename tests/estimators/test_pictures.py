"""Pictures to classes: a public map, named in the model file and bound by the certificate, and a linear model."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sordino import DPSGD, Budget, NoisyGradientDescent, PrivateImageClassifier, PrivateLogisticRegression, load_model
from sordino.budget import Relation
from sordino.estimators.pictures import (
    CENTRE_SHARE,
    CLIP,
    MOMENTUM,
    NORM_SHARE,
    SCORE_NOISE,
    STEPS,
    map_of,
    picture_method,
    picture_preparation,
)
from sordino.features import HOG, Scattering
from sordino.losses import Softmax
from sordino.methods.schedule import gaussian_allowance
from sordino.model_file import read_model, save_model, verify_model
from sordino.prepare import Centre, NormQuantile, Prepared
from sordino.privacy.accountants import epsilon
from sordino.problem import Problem

pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")

FEW = NoisyGradientDescent(steps=3)


def strokes(count=600, seed=0):
    """Upright strokes, and lying ones."""
    rng = np.random.default_rng(seed)
    X = 0.2 * rng.random((count, 12, 12))
    y = rng.integers(0, 2, count)
    for picture, label, place in zip(X, y, rng.integers(2, 10, count), strict=True):
        picture[(slice(None), place) if label else (place, slice(None))] += 0.7
    return X, np.where(y, "upright", "lying")


X, Y = strokes()


def classifier(**given):
    return PrivateImageClassifier(**{"classes": ["upright", "lying"], "method": FEW, **given})


@pytest.mark.parametrize("features", ["hog", "scattering", HOG((12, 12), cells=(3,))], ids=str)
def test_it_is_the_linear_model_of_the_maps_rows(features):
    model = classifier(features=features, random_state=1).fit(X, Y)
    rows = model.features_.transform(X.reshape(len(X), -1))
    by_hand = PrivateLogisticRegression(
        row_norm=1.0, classes=["upright", "lying"], method=FEW, prepare=None, random_state=1
    ).fit(rows, Y)
    assert model.coef_.tolist() == by_hand.coef_.tolist()
    assert model.certificate_.plan == by_hand.certificate_.plan
    np.testing.assert_allclose(model.predict_proba(X[:9]), by_hand.predict_proba(rows[:9]), rtol=1e-5)
    assert model.predict(X).tolist() == by_hand.predict(rows).tolist()


def test_no_picture_decides_what_the_others_numbers_mean():
    whole = (255 * X).astype(np.uint8)
    by_array, by_list = (classifier(random_state=1).fit(given, Y) for given in (whole, list(whole)))
    assert by_array.coef_.tolist() == by_list.coef_.tolist()
    with pytest.raises(ValueError, match="bytes and other numbers"):
        classifier().fit([*whole[:-1], whole[-1] / 255], Y)
    frame = pd.DataFrame(whole.reshape(len(whole), -1))
    framed = classifier(random_state=1, shape=(12, 12)).fit(frame, Y)
    assert framed.coef_.tolist() == by_array.coef_.tolist()
    # a missing pixel makes floats of its column, and so of all
    frame[7] = frame[7].where(frame.index != 3)
    with pytest.raises(ValueError, match="bytes and other numbers"):
        classifier(shape=(12, 12)).fit(frame, Y)


def test_it_learns_and_takes_bytes_flat_rows_and_colours():
    model = PrivateImageClassifier(2.0, classes=["lying", "upright"]).fit(X, Y)
    assert model.score(*strokes(300, 1)) > 0.9
    assert isinstance(model.certificate_.method, DPSGD)
    whole = (255 * X).astype(np.uint8)
    seeded = {"random_state": 2, "shape": (12, 12)}
    one, other = classifier(**seeded).fit(whole / 255, Y), classifier(**seeded).fit(whole.reshape(len(X), -1), Y)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-5)
    coloured = classifier().fit(np.repeat(X[..., None], 3, axis=3), np.where(Y == "lying", "lying", "upright"))
    assert coloured.features_.shape == (12, 12, 3)
    three = PrivateImageClassifier(classes=[0, 1, 2], method=FEW).fit(X, (Y == "lying").astype(int))
    assert three.predict_proba(X[:4]).shape == (4, 3)


@pytest.mark.parametrize(
    "features",
    [
        "scattering",
        HOG((12, 12), cells=(2, 3), orientations=5, deskewed=True),
        Scattering((12, 12), mirrored=True, smoothed=True, compressed=True),
    ],
    ids=str,
)
def test_a_saved_model_takes_pictures_again(features, tmp_path: Path):
    model = classifier(features=features).fit(X, Y)
    save_model(model, tmp_path / "m")
    assert all(finding.holds for finding in verify_model(read_model(tmp_path / "m")))
    again = load_model(tmp_path / "m")
    assert type(again) is PrivateImageClassifier
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.features_.get_params() == model.features_.get_params()
    save_model(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    # another map is another model
    from dataclasses import replace

    loaded = read_model(tmp_path / "m")
    names = tuple(name.replace("12", "14") for name in loaded.feature_names)
    assert not all(finding.holds for finding in verify_model(replace(loaded, feature_names=names)))


def test_what_pictures_have_in_common_is_taken_off_where_that_is_worth_its_price(tmp_path: Path):
    assert picture_preparation(60_000, 520, Budget(1.0, 1e-5)) == [Centre(CENTRE_SHARE), NormQuantile(NORM_SHARE)]
    # a centre of so few pictures would be noise
    assert picture_preparation(8_000, 15_552, Budget(1.0, 1e-5)) is None
    many, labels = strokes(4_000, 3)
    model = PrivateImageClassifier(4.0, classes=["lying", "upright"]).fit(many, labels)
    assert isinstance(model.certificate_.method, Prepared)
    assert isinstance(model.certificate_.method.method, DPSGD)
    assert model.row_bound_ is not None
    save_model(model, tmp_path / "m")
    loaded = read_model(tmp_path / "m")
    assert all(finding.holds for finding in verify_model(loaded))
    rows = model.features_.transform(X.astype(np.float32))
    np.testing.assert_allclose(loaded.decision_function(rows), model.decision_function(X), rtol=1e-4, atol=1e-4)
    again = load_model(tmp_path / "m").decision_function(X)
    np.testing.assert_allclose(again, model.decision_function(X), rtol=1e-6, atol=1e-6)


def test_names_that_are_older_than_a_setting_are_of_the_map_without_it():
    names = [f"HOG(cells=(2, 3), orientations=5, shape=(12, 12)) {place}" for place in range(65)]
    made = map_of(names)
    assert made is not None
    assert made.get_params() == HOG((12, 12), cells=(2, 3), orientations=5).get_params()
    old = map_of([f"Scattering(mirrored=True, shape=(8, 8, 3)) {place}" for place in range(972)])
    assert old is not None
    assert old.get_params() == Scattering((8, 8, 3), mirrored=True).get_params()
    assert map_of([name.replace("shape", "shape=(8, 8), shape") for name in names]) is None
    assert map_of([*names[1:], names[0]]) is None


@pytest.mark.parametrize("names", [(), ("a",), ("HOG(shape=(12, 12)) 0",), ("HOG(shape=(12) 0",), ("Map(a=1) 0",)])
def test_names_of_no_map_make_none(names):
    assert map_of(names) is None


@pytest.mark.parametrize(
    "settings",
    [
        "orientations=2000, shape=(28, 28)",
        "cells=(0, 7), shape=(8, 8)",
        "orientations=1, shape=(8, 8)",
        "shape=()",
        "shape=7",
        "nothing=3",
    ],
)
def test_a_file_of_a_stranger_names_features_that_no_map_has(settings, monkeypatch):
    """Names of so many more features would fill the memory, and of settings that make no sense there are none."""
    monkeypatch.setattr("sordino.estimators.pictures._named", None)
    assert map_of([f"HOG({settings}) 0"]) is None


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("asked", [0.5, 3.0])
def test_the_plan_from_public_facts(asked, relation):
    """Batches of a power of two, no larger than enough noise asks for; steps that end with the stated noise."""
    n, budget = 20_000, Budget(asked, 1e-6, relation)
    method = picture_method(n, 520, budget)
    assert (method.steps, method.clip, method.momentum) == (STEPS, CLIP, MOMENTUM)
    plan = method.plan(Problem(n, 520, Softmax(10)), budget)
    assert 0.999 * asked <= epsilon(plan.event, budget.delta, relation) <= asked
    assert method.batch_size & (method.batch_size - 1) == 0
    largest = method.batch_size * 2 > n / 2

    def enough(size, std):
        """Noise of 1.2 clips in a step, and no more than 1.05 times what steps on all records need on a mean."""
        needed = relation.distance * math.sqrt(STEPS) / (n * gaussian_allowance(520, budget))
        return std >= 1.2 * CLIP * 0.999 and std / size <= 1.05 * needed * CLIP * 1.001

    assert enough(method.batch_size, plan.noise.std) or largest
    half = DPSGD(STEPS, method.batch_size // 2, 1.0, CLIP).plan(Problem(n, 520, Softmax(10)), budget)
    assert not enough(method.batch_size // 2, half.noise.std) or method.batch_size == 64
    # each step's noise on the mean, through momentum and a cosine, at the end
    rates = np.array([plan.rate.at(t, STEPS) for t in range(STEPS)])
    weights = [sum(rates[s] * MOMENTUM ** (s - t) for s in range(t, STEPS)) for t in range(STEPS)]
    noise = plan.step_size * np.sqrt(np.square(weights).sum()) * plan.noise.std / method.batch_size
    # the smallest batches cost a little more than all records would
    assert 0.9 * SCORE_NOISE < noise < 1.1 * SCORE_NOISE


@pytest.mark.parametrize(
    ("given", "pictures", "sentence"),
    [
        ({"features": "pixels"}, X, "features is 'pixels': it must be 'hog', 'scattering' or a map"),
        ({"features": HOG((12, 12)), "shape": (12, 12)}, X, "leave shape out"),
        ({}, X.reshape(len(X), -1), r"rows of 144 pixels: say shape=\(height, width\)"),
        ({"shape": (7, 7)}, X, "pictures of shape"),
        ({"features": "scattering"}, X[:, :10], "multiples of 4"),
        ({}, X.astype(str), "give numbers, pictures x height x width"),
        ({}, X[0, 0], "1 dimensions"),
        ({}, np.ma.masked_array(X), "is a masked array"),
        ({"classes": ["upright", "other"]}, X, "not among"),
    ],
)
def test_what_is_wrong_is_a_sentence(given, pictures, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        classifier(**given).fit(pictures, Y)


def test_a_fitted_step_before_it_is_refused():
    clone(classifier())
    pipeline = make_pipeline(StandardScaler(), classifier(shape=(12, 12)))
    with pytest.raises(ValueError, match="StandardScaler comes before"):
        pipeline.fit(X.reshape(len(X), -1), Y)


def test_pictures_of_different_shapes():
    with pytest.raises(ValueError, match="pictures of different shapes: give all the same height"):
        classifier().fit([np.zeros((12, 12)), np.zeros((8, 8))], [0, 1])
