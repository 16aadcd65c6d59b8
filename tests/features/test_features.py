"""Maps of pictures: what they compute, and that a row is its own picture's affair."""

import numpy as np
import pytest
from sklearn.base import clone

from sordino.features import HOG, Scattering
from sordino.features.pictures import _upright
from sordino.features.scattering import _bank, _padded, _scattered

MAPS = {
    "hog": HOG((12, 16)),
    "coloured": HOG((12, 16, 3)),
    "scattering": Scattering((12, 16)),
    "three": Scattering((8, 8, 3)),
    "mirrored": Scattering((8, 12), mirrored=True),
    "deskewed": HOG((12, 16, 3), deskewed=True),
    "smoothed": Scattering((8, 12, 3), smoothed=True),
    "opponent": Scattering((8, 12, 3), opponent=True),
    "compressed": Scattering((8, 12), compressed=True),
    "all of it": Scattering((8, 8, 3), mirrored=True, smoothed=True, opponent=True, compressed=True),
    "upright": Scattering((8, 12), mirrored=True, deskewed=True),
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


def plain_scattering(x):
    """By convolutions on all pixels, sampled at the end. The second octave is sampled before its modulus."""
    height, width = x.shape
    bank = _bank(height, width)

    def at(side):
        place = np.minimum(np.arange(side), side - np.arange(side))
        return sum(np.exp(-((place + turn * side) ** 2) / (2 * 1.6**2)) for turn in range(-2, 3))

    phi = np.fft.fft2(np.outer(at(height), at(width)) / (2 * np.pi * 1.6**2)).real
    frequencies = [np.fft.fftfreq(side) for side in (height, width)]
    # what every second pixel cannot hold is cut off
    kept = phi * np.outer(*((f >= -0.25) & (f < 0.25) for f in frequencies))

    def smoothed(u, spread):
        step = 4 // (height // u.shape[0])
        low = spread if u.shape == phi.shape else spread.reshape(2, height // 2, 2, width // 2).sum((0, 2))
        return np.fft.ifft2(np.fft.fft2(u) * low).real[::step, ::step][1:-1, 1:-1]

    def second(u):
        halves = [np.abs(np.fft.ifft2(np.fft.fft2(u) * psi)[::2, ::2]) for psi in bank.coarse]
        return [smoothed(half, kept) for half in halves]

    first = [np.abs(np.fft.ifft2(np.fft.fft2(x) * psi)) for psi in bank.fine]
    found = [smoothed(x, phi)] + [smoothed(u, phi) for u in first] + second(x)
    return np.stack(found + [channel for u in first for channel in second(u)])


def test_scattering_is_that_of_the_definition():
    x = _padded(pictures((12, 16), 2).reshape(-1, 12, 16))
    channels = _scattered(x, _bank(*x.shape[1:]))
    assert channels.shape == (2, 81, 3, 4)
    for picture, found in zip(x, channels, strict=True):
        np.testing.assert_allclose(found, plain_scattering(picture.astype(float)), atol=2e-6)


def test_left_and_right_do_not_matter_where_they_are_said_not_to():
    X = pictures((8, 12, 3)).reshape(-1, 8, 12, 3)
    other_way = X[:, :, ::-1]
    either, exact = Scattering((8, 12, 3), mirrored=True).fit(X), Scattering((8, 12, 3)).fit(X)
    np.testing.assert_allclose(either.transform(X), either.transform(other_way), atol=1e-6)
    assert np.abs(exact.transform(X) - exact.transform(other_way)).max() > 0.01
    # of pictures that are their own mirror image nothing changes
    alike = np.concatenate([X, other_way], axis=2)
    both = [Scattering((8, 24, 3), mirrored=mirrored).fit(alike).transform(alike) for mirrored in (True, False)]
    assert np.einsum("ij,ij->i", *both).min() > 0.999


def leaning(slope, side=20, width=3.0):
    """A stroke with soft edges, through the middle."""
    r, c = np.mgrid[:side, :side] - (side - 1) / 2
    inside = np.abs(r) <= side / 4
    return (inside * np.clip(width - np.abs(c - slope * r), 0, 1)).astype(np.float32)


def test_what_leans_is_sheared_upright():
    strokes = np.stack([leaning(slope) for slope in (-0.6, -0.25, 0.0, 0.25, 0.6)])[..., None]
    upright = _upright(strokes)
    np.testing.assert_array_equal(upright[2], strokes[2])
    for stroke in upright:
        np.testing.assert_allclose(stroke, strokes[2], atol=0.15)
        # the moment that shearing takes away; parts of pixels leave a little of it
        r, c = np.mgrid[:20, :20] - 9.5
        assert abs((stroke[..., 0] * r * c).sum()) < 0.01 * (stroke[..., 0] * r * r).sum()
    for kind in (HOG, Scattering):
        rows = [kind((20, 20), deskewed=deskewed).fit_transform(strokes) for deskewed in (True, False)]
        near, far = (row @ row[2] for row in rows)
        assert near.min() > 0.95 > 0.85 > far.min()


def test_what_has_no_slant_is_left_as_it_is():
    dark = pictures((8, 8), 3).reshape(3, 8, 8, 1)
    dark[0], dark[1] = 0, -dark[1]
    # light in one line alone: there is nothing to lean
    dark[2, :4], dark[2, 5:] = 0, 0
    np.testing.assert_array_equal(_upright(dark), dark)
    # beyond 45 degrees a picture is sheared as if it leant so far
    flat = leaning(3.0)[None, ..., None]
    np.testing.assert_allclose(_upright(flat)[0, 4:16, 10], np.array([flat[0, r, r] for r in range(4, 16)]), atol=0.6)
    # sums that cancel put the centre of light far outside
    spoiled = np.zeros((1, 8, 8, 1), dtype=np.float32)
    spoiled[0, 0, 0], spoiled[0, 7, 7] = -1e30, np.nextafter(np.float32(1e30), np.float32(np.inf))
    assert np.isfinite(_upright(spoiled)).all()


def test_cells_are_averaged_with_their_neighbours_where_that_is_said_not_to_matter():
    X = pictures((12, 16, 3))
    plain = Scattering((12, 16, 3)).fit(X).transform(X).reshape(len(X), -1, 3, 4)
    for axis in (2, 3):
        edged = np.concatenate([plain.take([0], axis), plain, plain.take([-1], axis)], axis)
        plain = np.apply_along_axis(np.convolve, axis, edged, [0.25, 0.5, 0.25], "valid")
    expected = plain.reshape(len(X), -1)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    smooth = Scattering((12, 16, 3), smoothed=True).fit(X)
    np.testing.assert_allclose(smooth.transform(X), expected, atol=1e-6)
    # rows of a picture and of the same moved by two pixels are nearer to one another
    moved = np.roll(X.reshape(-1, 12, 16, 3), 2, axis=2)
    apart = [
        np.linalg.norm(map.transform(X) - map.transform(moved), axis=1)
        for map in (smooth, Scattering((12, 16, 3)).fit(X))
    ]
    assert np.all(apart[0] < apart[1])


def plain_row(signals, compressed=False):
    """Channels in groups of three, mean 0 and variance 1, signals one after the other."""
    parts = []
    for x in signals:
        channels = plain_scattering(_padded(x.astype(np.float32)[None])[0].astype(float))
        if compressed:
            channels[1:] = channels[1:].clip(0) ** 0.5
        groups = channels.reshape(27, -1)
        stable = 1e-3 if compressed else 1e-5
        parts.append((groups - groups.mean(1, keepdims=True)) / np.sqrt(groups.var(1, keepdims=True) + stable))
    row = np.concatenate(parts).ravel()
    return row / np.linalg.norm(row)


LIGHTNESS_AND_OPPONENTS = np.array([[1, 1, 1], [1.5, 0, -1.5], [-0.75, 1.5, -0.75]]) / 3


@pytest.mark.parametrize("opponent", [False, True])
@pytest.mark.parametrize("compressed", [False, True])
def test_opponent_colours_and_square_roots_come_before_groups(opponent, compressed):
    X = pictures((8, 12, 3), 3)
    X[2] = X[2].reshape(8, 12, 3).mean(2, keepdims=True).repeat(3, 2).ravel()
    mix = LIGHTNESS_AND_OPPONENTS if opponent else np.eye(3)
    expected = [
        plain_row(np.einsum("kc,ijc->kij", mix, x.reshape(8, 12, 3).astype(float)), compressed=compressed) for x in X
    ]
    rows = Scattering((8, 12, 3), opponent=opponent, compressed=compressed).fit_transform(X)
    np.testing.assert_allclose(rows[:2], expected[:2], atol=2e-5)
    if opponent:
        # a grey picture has no colours: what rounding leaves of them is nothing beside their group's stability
        np.testing.assert_allclose(rows[2, len(rows[2]) // 3 :], 0, atol=2e-3)


def test_answers_that_the_low_pass_leaves_below_zero_have_square_roots_of_zero():
    dot = np.zeros((1, 24, 24), dtype=np.float32)
    dot[0, 0, 0] = 1
    assert _scattered(padded := _padded(dot), _bank(*padded.shape[1:]))[:, 1:].min() < -1e-7
    row = Scattering((24, 24), compressed=True).fit_transform(dot)
    np.testing.assert_allclose(np.linalg.norm(row), 1, atol=1e-5)


def test_scattering_of_constants_and_waves():
    flat = _padded(np.full((1, 28, 28), 0.7, dtype=np.float32))
    channels = _scattered(flat, _bank(*flat.shape[1:]))[0]
    # the low pass keeps a constant, wavelets have mean 0
    np.testing.assert_allclose(channels[0], 0.7, rtol=1e-4)
    np.testing.assert_allclose(channels[1:], 0, atol=1e-6)
    # a wave of the first octave's frequency, across: the wavelet in its direction answers most
    wave = np.cos(0.75 * np.pi * np.arange(28, dtype=np.float32))[None, :] * np.ones((28, 1), dtype=np.float32)
    answers = _scattered(padded := _padded(wave[None]), _bank(*padded.shape[1:]))[0, 1:17, 3, 3]
    down = _scattered(padded := _padded(wave.T[None]), _bank(*padded.shape[1:]))[0, 1:17, 3, 3]
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
        np.testing.assert_allclose(norms[: len(X)], 1.0, atol=1e-5)

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

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("pixel", [1e20, 1e30, 1e300, np.inf])
    def test_nobody_is_told_that_a_pixel_is_too_large(self, map, pixel):
        X = pictures(map.shape).astype(float)
        rows, X[3, 5] = map.fit(X).transform(X), pixel
        mapped = map.transform(X)
        assert np.linalg.norm(mapped[3].astype(float)) <= 1 + 1e-6
        np.testing.assert_array_equal(np.delete(mapped, 3, axis=0), np.delete(rows, 3, axis=0))

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
        (Scattering((8, 8), opponent=True), "red, green and blue"),
        (Scattering((8, 8, 1), opponent=True), "red, green and blue"),
    ],
)
def test_settings_that_cannot_be(map, sentence):
    with pytest.raises(ValueError, match=sentence):
        map.fit(np.zeros((2, int(np.prod(map.shape)))))
