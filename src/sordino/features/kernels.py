"""The inner loops of the maps, compiled on first use: the maps import them when they are asked for rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.oracle.kernels.native import compiled, exact


@exact
def deskew(X: NDArray[Any], out: NDArray[Any]) -> None:
    """Every line is moved along, by whole pixels and parts of one, until the moment of place across and down is 0.

    `X` is pictures x height x width x channels, and what is light counts. Pictures where nothing is, or that reach
    below zero in sum, stay as they are; what leans further than 45 degrees is moved as if it leant so far.
    """
    count, height, width, channels = X.shape
    for i in range(count):
        light, down, across = 0.0, 0.0, 0.0
        for r in range(height):
            for c in range(width):
                for k in range(channels):
                    v = float(X[i, r, c, k])
                    light += v
                    down += v * r
                    across += v * c
        mixed, square = 0.0, 0.0
        if light > 0.0:
            down /= light
            across /= light
            for r in range(height):
                for c in range(width):
                    for k in range(channels):
                        v = float(X[i, r, c, k])
                        mixed += v * (r - down) * (c - across)
                        square += v * (r - down) * (r - down)
        slope = min(max(mixed / square, -1.0), 1.0) if square > 0.0 else 0.0
        for r in range(height):
            # a line that leaves the picture, as of sums that cancel, is dark
            by = min(max(slope * (r - down), -float(width)), float(width))
            whole = math.floor(by)
            share = by - whole
            for c in range(width):
                left, right = c + whole, c + whole + 1
                for k in range(channels):
                    v = 0.0
                    if 0 <= left < width:
                        v += (1.0 - share) * float(X[i, r, left, k])
                    if 0 <= right < width:
                        v += share * float(X[i, r, right, k])
                    out[i, r, c, k] = v


@exact
def histograms(X: NDArray[Any], cells: NDArray[np.int64], bins: int, softening: float, out: NDArray[Any]) -> None:
    """`X` is pictures x height x width x channels; `out` holds zeros."""
    count, height, width, channels = X.shape
    turn = 2 * math.pi
    for i in range(count):
        row = out[i]
        for r in range(height):
            up, down = max(r - 1, 0), min(r + 1, height - 1)
            for c in range(width):
                left, right = max(c - 1, 0), min(c + 1, width - 1)
                length, dy, dx = 0.0, 0.0, 0.0
                for k in range(channels):
                    y = float(X[i, down, c, k]) - float(X[i, up, c, k])
                    x = float(X[i, r, right, k]) - float(X[i, r, left, k])
                    if y * y + x * x > length:
                        length, dy, dx = y * y + x * x, y, x
                if length == 0.0:
                    continue
                length = math.sqrt(length)
                angle = math.atan2(dy, dx) / turn * bins
                if angle < 0.0:
                    angle += bins
                low = int(angle)
                share = angle - low
                first, second = low % bins, (low + 1) % bins
                start = 0
                for g in range(cells.size):
                    side = cells[g]
                    place = start + ((r * side // height) * side + c * side // width) * bins
                    row[place + first] += (1.0 - share) * length
                    row[place + second] += share * length
                    start += side * side * bins
        start = 0
        total = 0.0
        for g in range(cells.size):
            side = cells[g]
            area = height * width / (side * side)
            for cell in range(side * side):
                place = start + cell * bins
                square = 0.0
                for b in range(bins):
                    row[place + b] /= area
                    square += row[place + b] * row[place + b]
                scale = math.sqrt(square) + softening
                for b in range(bins):
                    row[place + b] = math.sqrt(row[place + b] / scale)
                    total += row[place + b]
            start += side * side * bins
        mean = total / row.size
        square = 0.0
        for j in range(row.size):
            row[j] -= mean
            square += row[j] * row[j]
        if square > 0.0:
            scale = 1.0 / math.sqrt(square)
            for j in range(row.size):
                row[j] *= scale


@compiled
def lengths(parts: NDArray[Any], out: NDArray[Any]) -> None:
    """Real and imaginary parts stand side by side."""
    for i in range(out.shape[0]):
        for r in range(out.shape[1]):
            for c in range(out.shape[2]):
                x, y = parts[i, r, 2 * c], parts[i, r, 2 * c + 1]
                out[i, r, c] = math.sqrt(x * x + y * y)


@compiled
def fold(spectrum: NDArray[Any], psi: NDArray[Any], out: NDArray[Any]) -> None:
    """The spectrum of every second pixel of the signal's convolution with psi."""
    h, w = out.shape[1:]
    quarter = np.float32(0.25)
    for i in range(out.shape[0]):
        s = spectrum[i]
        for r in range(h):
            for c in range(w):
                upper = psi[r, c] * s[r, c] + psi[r, c + w] * s[r, c + w]
                lower = psi[r + h, c] * s[r + h, c] + psi[r + h, c + w] * s[r + h, c + w]
                out[i, r, c] = quarter * (upper + lower)


@compiled
def smooth(u: NDArray[Any], rows: NDArray[Any], columns: NDArray[Any], out: NDArray[Any]) -> None:
    """out = rows u columns, of every signal."""
    height, width = u.shape[1:]
    line = np.empty(width, dtype=np.float32)
    for i in range(u.shape[0]):
        for r in range(rows.shape[0]):
            line[:] = 0.0
            for k in range(height):
                factor = rows[r, k]
                for c in range(width):
                    line[c] += factor * u[i, k, c]
            for c in range(columns.shape[1]):
                out[i, r, c] = 0.0
            for k in range(width):
                factor = line[k]
                for c in range(columns.shape[1]):
                    out[i, r, c] += factor * columns[k, c]
