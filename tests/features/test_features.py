"""Maps of pictures: what they compute, and that a row is its own picture's affair."""

import numpy as np
import pytest
from sklearn.base import clone

from sordino.features import HOG, Scattering
from sordino.features.scattering import _bank, _padded, _scattered

MAPS = {
    "hog": HOG((12, 16)),
    "coloured": HOG((12, 16, 3)),
    "scattering": Scattering((12, 16)),
    "three": Scattering((8, 8, 3)),
}


def pictures(shape, count=5):
    return np.random.default_rng(0).random((count, int(np.prod(shape))), dtype=np.float32)


def plain_hog(picture, cells, bins=8):
    """The same in NumPy, one step after the other."""
    edged = np.pad(picture.astype(float), 1, mode="edge")
    dy, dx = edged[2:, 1:-1] - edged[:-2, 1:-1], edged[1:-1, 2:] - edged[1:-1, :-2]
    length, angle = np.hypot(dy, dx), np.arctan2(dy, dx) / (2 * np.pi) * bins % bins
    low = np.floor(angle)
    planes = np.zeros((bins, *picture.shape))
    for b in range(bins):
        planes[b] = length * ((low == b) * (1 - angle + low) + ((low + 1) % bins == b) * (angle - low))
    parts = []
    for side in cells:
        h, w = (size // side for size in picture.shape)
        means = planes.reshape(bins, side, h, side, w).mean((2, 4)).transpose(1, 2, 0).reshape(-1, bins)
        parts.append(np.sqrt(means / (np.linalg.norm(means, axis=1, keepdims=True) + 0.05)).ravel())
    row = np.concatenate(parts)
    row -= row.mean()
    return row / np.linalg.norm(row)


def test_histograms_are_those_of_the_definition():
    X = pictures((28, 28))
    expected = [plain_hog(picture, (4, 7)) for picture in X.reshape(-1, 28, 28)]
    np.testing.assert_allclose(HOG().fit(X).transform(X), expected, atol=2e-6)


def test_the_steepest_channel_counts():
    grey = pictures((12, 12))
    coloured = np.stack([0.3 * grey, grey, np.zeros_like(grey)], axis=2).reshape(len(grey), -1)
    settings = {"cells": (3,)}
    alone = HOG((12, 12), **settings).fit(grey).transform(grey)
    np.testing.assert_allclose(HOG((12, 12, 3), **settings).fit(coloured).transform(coloured), alone, atol=1e-6)


def test_scattering_of_constants_and_waves():
    flat = _padded(np.full((1, 28, 28), 0.7, dtype=np.float32))
    channels = _scattered(flat, _bank(*flat.shape[1:]))[0]
    # the low pass keeps a constant, wavelets have mean 0
    np.testing.assert_allclose(channels[0], 0.7, rtol=1e-4)
    np.testing.assert_allclose(channels[1:], 0, atol=1e-6)
    # a wave of the first octave's frequency, across: the wavelet in its direction answers most
    wave = np.cos(0.75 * np.pi * np.arange(28, dtype=np.float32))[None, :] * np.ones((28, 1), dtype=np.float32)
    answers = _scattered(padded := _padded(wave[None]), _bank(*padded.shape[1:]))[0, 1:17, 4, 4]
    down = _scattered(padded := _padded(wave.T[None]), _bank(*padded.shape[1:]))[0, 1:17, 4, 4]
    assert np.argmax(answers) < 8
    assert np.argmax(down) < 8
    # a quarter of a turn is four orientations
    assert (np.argmax(answers) - np.argmax(down)) % 8 == 4


@pytest.mark.parametrize("map", MAPS.values(), ids=MAPS)
class TestEveryMap:
    def test_rows_are_bounded_whatever_the_picture(self, map):
        X = pictures(map.shape)
        extreme = np.concatenate([X, 1e6 * X, np.zeros_like(X[:1]), np.round(X), -X])
        norms = np.linalg.norm(map.fit(extreme).transform(extreme).astype(float), axis=1)
        assert np.all(norms <= 1 + 1e-6)
        assert norms[0] > 0.5

    def test_a_row_is_its_own_pictures_affair(self, map):
        X = pictures(map.shape, 150)
        together = map.fit(X).transform(X)
        # to the last bit, in any company and at any place
        for which in (0, 3, 63, 64, 149):
            np.testing.assert_array_equal(map.transform(X[which : which + 1])[0], together[which])
        np.testing.assert_array_equal(map.transform(X[7:]), together[7:])
        spoiled = X.copy()
        spoiled[3, 5] = np.nan
        mapped = map.transform(spoiled)
        assert np.all(mapped[3] == 0)
        np.testing.assert_array_equal(np.delete(mapped, 3, axis=0), np.delete(together, 3, axis=0))

    def test_names_and_shapes(self, map):
        X = pictures(map.shape)
        fitted = clone(map).fit(X)
        assert fitted.transform(X).shape == (len(X), len(fitted.get_feature_names_out()))
        # pictures may also come as they are
        as_pictures = X.reshape(len(X), *map.shape)
        np.testing.assert_array_equal(fitted.transform(as_pictures), fitted.transform(X))
        with pytest.raises(ValueError, match="numbers each"):
            fitted.transform(X[:, :-1])


@pytest.mark.parametrize(
    ("map", "sentence"),
    [
        (HOG((28,)), "height, width"),
        (HOG((8, 8), cells=(9,)), "shorter side"),
        (HOG((8, 8), orientations=1), "at least 2"),
        (Scattering((30, 28)), "multiples of 4"),
    ],
)
def test_settings_that_cannot_be(map, sentence):
    with pytest.raises(ValueError, match=sentence):
        map.fit(np.zeros((2, int(np.prod(map.shape)))))
