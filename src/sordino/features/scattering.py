r"""The scattering transform of pictures (Bruna and Mallat 2013), two octaves and eight orientations.

With psi a bank of complex Gabor wavelets (octave j, orientation l), phi a Gaussian low-pass filter and * a convolution
on the picture, reflected at its border:

    S0 = x * phi        S1 = |x * psi_1| * phi        S2 = ||x * psi_1| * psi_2| * phi

with psi_2 an octave above psi_1, each sampled at every fourth pixel: 1 + 16 + 64 = 81 channels per colour. Channels are
then normalised picture by picture in groups of three (Tramer and Boneh 2021), and the row is divided by its length:
its norm is 1, or 0 for a picture of one colour. Where a thing looks alike either way round, the rows of a picture and
of its mirror image are added before: what differs between them would only cost noise. So does what differs between
neighbouring cells where a thing may stand in either: each is then averaged with those beside it, by 1/4, 1/2 and 1/4
along both sides, the border repeated.

What moduli of red, green and blue say is nearly the same three times. Of  (R + G + B)/3,  (R - B)/2  and
(2G - R - B)/4, lightness and two opponent colours, it is not: those may take their place. And a few strong edges
outweigh in a group what else there is, unless square roots of S1 and S2 are taken before.

Convolutions with wavelets are products of Fourier transforms. Sampling every k-th pixel folds the spectrum: its k x k
pieces are averaged. The low pass is a product of one along each side, so that  u * phi, sampled, is R u C  with two
small matrices.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from sordino.features.pictures import PictureMap

Real = NDArray[np.float32]
_Spectrum = NDArray[np.complex64]

ORIENTATIONS = 8
OCTAVES = 2
STEP: int = 2**OCTAVES
CHANNELS = 1 + OCTAVES * ORIENTATIONS + ORIENTATIONS**2
_GROUP = 3
_STABLE, _STABLE_OF_ROOTS = 1e-5, 1e-3
"""What a group's variance is measured against: fainter groups than this stay faint."""
_PERIODS = range(-2, 3)


class Scattering(PictureMap):
    """Pictures, flattened, to rows of norm 1.

    `shape` is (height, width) or (height, width, channels), as the pixels lie in a row; pixels are expected in [0, 1].
    Sides are multiples of four. `mirrored` says that left and right do not matter, as of things and unlike letters, and
    `smoothed` that a few pixels up, down or sideways do not; `deskewed` is for writing, light on dark: what leans is
    sheared upright before. `opponent` takes lightness and two differences of colours for red, green and blue, and
    `compressed` the square roots of the wavelets' answers.
    """

    def __init__(
        self,
        shape: tuple[int, ...] = (28, 28),
        *,
        mirrored: bool = False,
        smoothed: bool = False,
        deskewed: bool = False,
        opponent: bool = False,
        compressed: bool = False,
    ) -> None:
        self.shape = shape
        self.mirrored = mirrored
        self.smoothed = smoothed
        self.deskewed = deskewed
        self.opponent = opponent
        self.compressed = compressed

    def columns(self) -> int:
        height, width, colours = self._sides()
        if height % STEP or width % STEP or min(height, width) < 2 * STEP:
            raise ValueError(
                f"shape is {self.shape}: both sides must be multiples of {STEP}, and {2 * STEP} or more. Pad the "
                "pictures."
            )
        if self.opponent and colours != 3:
            raise ValueError(
                f"opponent colours are of red, green and blue, and shape is {self.shape}: give (height, width, 3), or "
                "leave opponent out."
            )
        return colours * CHANNELS * (height // STEP) * (width // STEP)

    def _mapped(self, pictures: Real) -> Real:
        if self.opponent:
            pictures = _opponents(pictures)
        rows = self._normalised(pictures)
        if self.mirrored:
            rows = rows + self._normalised(pictures[:, :, ::-1])
        if self.smoothed:
            height, width, _ = self._sides()
            rows = _smoothed(rows.reshape(len(rows), -1, height // STEP, width // STEP)).reshape(rows.shape)
        found: Real = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _STABLE)
        return found

    def _normalised(self, pictures: Real) -> Real:
        count, height, width, colours = pictures.shape
        padded = _padded(np.moveaxis(pictures, 3, 1).reshape(count * colours, height, width))
        channels = _scattered(padded, _bank(*padded.shape[1:]))
        if self.compressed:
            # the low pass, cut off, may fall below zero by a little
            channels[:, 1:] = np.sqrt(np.maximum(channels[:, 1:], 0))
        stable = _STABLE_OF_ROOTS if self.compressed else _STABLE
        groups = channels.reshape(count, colours * CHANNELS // _GROUP, -1)
        rows: Real = _normalised(groups, stable).reshape(count, -1)
        return rows


def _opponents(pictures: Real) -> Real:
    red, green, blue = np.moveaxis(pictures, 3, 0)
    both = red + blue
    return np.stack([(both + green) / 3, (red - blue) / 2, (2 * green - both) / 4], axis=3)


class LowPass(NamedTuple):
    """phi at every fourth pixel, the outermost cells left out, which see the padding: `rows` u `columns`."""

    rows: Real
    columns: Real


class Bank(NamedTuple):
    """Real spectra of the wavelets of both octaves, and the low pass at full and at half resolution."""

    low: tuple[LowPass, ...]
    fine: Real
    coarse: Real


def _padded(pictures: Real) -> Real:
    """Reflected, to a multiple of four with at least one cell to spare on every side."""
    widths = []
    for side in pictures.shape[1:]:
        size = ((side + STEP) // STEP + 1) * STEP
        widths.append(((size - side) // 2, size - side - (size - side) // 2))
    return np.pad(pictures, ((0, 0), *widths), mode="reflect")


def _scattered(x: Real, bank: Bank) -> Real:
    """All channels, pictures x 81 x rows x columns, without the cells of the padding."""
    from sordino.features.kernels import smooth

    full = bank.low[0]
    found = np.empty((len(x), CHANNELS, len(full.rows), full.columns.shape[1]), dtype=np.float32)
    smooth(x, *full, found[:, 0])
    spectrum = scipy.fft.fft2(x)
    second = found[:, 1 + OCTAVES * ORIENTATIONS :].reshape(len(x), ORIENTATIONS, ORIENTATIONS, *found.shape[2:])
    for number, psi in enumerate(bank.fine):
        first = _modulus(spectrum * psi)
        smooth(first, *full, found[:, 1 + number])
        _coarser(scipy.fft.fft2(first), bank, second[:, number])
    _coarser(spectrum, bank, found[:, 1 + ORIENTATIONS : 1 + OCTAVES * ORIENTATIONS])
    return found


def _coarser(spectrum: _Spectrum, bank: Bank, out: Real) -> None:
    """|signal * psi| * phi for the wavelets of the second octave, at half resolution."""
    from sordino.features.kernels import fold, smooth

    count, height, width = spectrum.shape
    folded = np.empty((count, height // 2, width // 2), dtype=np.complex64)
    for number, psi in enumerate(bank.coarse):
        fold(spectrum, psi, folded)
        smooth(_modulus(folded), *bank.low[1], out[:, number])


def _modulus(spectrum: _Spectrum) -> Real:
    """|signal|, of its spectrum, which is overwritten."""
    from sordino.features.kernels import lengths

    signal = scipy.fft.ifft2(spectrum, overwrite_x=True)
    found = np.empty(signal.shape, dtype=np.float32)
    lengths(signal.view(np.float32), found)
    return found


@lru_cache(maxsize=4)
def _bank(height: int, width: int) -> Bank:
    angles = [(ORIENTATIONS // 2 - 1 - l) * math.pi / ORIENTATIONS for l in range(ORIENTATIONS)]  # noqa: E741
    psi = [[_wavelet(height, width, j, angle) for angle in angles] for j in range(OCTAVES)]
    sides = [_low_passes(side) for side in (height, width)]
    return Bank(
        low=tuple(
            LowPass(np.ascontiguousarray(down), np.ascontiguousarray(across.T))
            for down, across in zip(*sides, strict=True)
        ),
        fine=np.stack(psi[0]),
        coarse=np.stack(psi[1]),
    )


def _low_passes(side: int) -> list[Real]:
    """phi along one side, at full and at half resolution, as matrices from pixels to cells."""
    spread = 0.8 * 2 ** (OCTAVES - 1)
    bell = sum(np.exp(-((np.arange(side) + period * side) ** 2) / (2 * spread**2)) for period in _PERIODS)
    low = scipy.fft.fft(bell / math.sqrt(2 * math.pi * spread**2)).real
    # frequencies that every second pixel cannot hold are cut off, the rest folded
    kept = low.copy()
    kept[side // 4 : side - side // 4] = 0
    return [_sampled(low, STEP), _sampled(kept.reshape(2, side // 2).sum(axis=0), STEP // 2)]


def _sampled(low: NDArray[np.float64], step: int) -> Real:
    """The matrix of a convolution with this spectrum, at every `step`-th place but the first and the last."""
    filtered = scipy.fft.ifft(scipy.fft.fft(np.eye(len(low)), axis=0) * low[:, None], axis=0).real
    matrix: Real = filtered[::step][1:-1].astype(np.float32)
    return matrix


def _wavelet(height: int, width: int, octave: int, angle: float) -> Real:
    """A Gabor filter less the Gaussian that takes away its mean."""
    spread, frequency, slant = 0.8 * 2**octave, 0.75 * math.pi / 2**octave, 4 / ORIENTATIONS
    wave = _gabor(height, width, spread, angle, frequency, slant)
    bump = _gabor(height, width, spread, angle, 0.0, slant)
    return _spectrum_of(wave - wave.sum() / bump.sum() * bump)


def _gabor(
    height: int, width: int, spread: float, angle: float, frequency: float, slant: float
) -> NDArray[np.complex128]:
    r"""(a/(2 pi s^2)) exp(-u' R diag(1, a^2) R' u / (2 s^2) + i xi <u, (cos, sin)>), repeated with the period."""
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    form = turn @ np.diag([1.0, slant**2]) @ turn.T / (2 * spread**2)
    filter = np.zeros((height, width), dtype=np.complex128)
    for down in _PERIODS:
        for across in _PERIODS:
            r, c = np.mgrid[down * height : (down + 1) * height : 1.0, across * width : (across + 1) * width : 1.0]
            bell = form[0, 0] * r * r + (form[0, 1] + form[1, 0]) * r * c + form[1, 1] * c * c
            filter += np.exp(-bell + 1j * frequency * (r * math.cos(angle) + c * math.sin(angle)))
    return filter * slant / (2 * math.pi * spread**2)


def _spectrum_of(filter: NDArray[np.complex128]) -> Real:
    found: Real = scipy.fft.fft2(filter).real.astype(np.float32)
    return found


def _normalised(groups: Real, stable: float) -> Real:
    """Mean 0 in every group, and variance 1 in those that are not faint."""
    centred = groups - groups.mean(axis=2, keepdims=True)
    variance = np.square(centred).mean(axis=2, keepdims=True)
    scaled: Real = centred / np.sqrt(variance + stable)
    return scaled


def _smoothed(channels: Real) -> Real:
    """Every cell averaged with its neighbours, along both sides."""
    edged = np.pad(channels, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    down = edged[:, :, :-2] + 2 * edged[:, :, 1:-1] + edged[:, :, 2:]
    both: Real = (down[..., :-2] + 2 * down[..., 1:-1] + down[..., 2:]) / 16
    return both
