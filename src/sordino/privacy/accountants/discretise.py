r"""From a pair to a loss on a grid, from above and from below.

As a function of y = e^epsilon the profile delta is convex, with slope -Q(L > epsilon).  A convex polygon with corners
on the grid is therefore the profile of a discrete pair, and

  * joining points of the curve lies above it (Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022, "connect the
    dots"): the mass of a cell is shared between its ends so that both P and Q keep it;
  * a polygon under tangents lies below it: corners are lowered to the tangents of the cells on either side, then the
    lower convex hull is taken.

Domination survives composition, so the first gives upper bounds of every composition and the second lower bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino.arrays import Array, Index
from sordino.privacy.accountants.pairs import Added, Dominating, Pure, Removed

_RAMP = 40
"""Cells over which points of contact would move from the left to the right end; they stop in the middle."""


@dataclass(frozen=True)
class Grid:
    """Multiples of `step`; cells are one step wide near a loss of zero and grow to `growth` times the loss."""

    step: float
    growth: float
    log_above: float
    """log-probability at which every part is cut off above,"""
    log_below: float
    """... and below."""


@dataclass(frozen=True)
class Atoms:
    """Masses under P at the losses `anchor + at * step`, and the mass at infinity."""

    anchor: float
    at: Index
    mass: Array
    infinite: float

    def losses(self, step: float) -> Array:
        return _losses(self.anchor, self.at, step)


def upper(pair: Dominating | Pure, grid: Grid) -> Atoms:
    """Dominates the pair: mass beyond the grid goes to infinity, mass before it to the first point."""
    if isinstance(pair, Pure):
        return _pure_upper(pair, grid.step)
    at = _points(pair, pair.anchor, grid)
    mass, infinite = connect(pair, _losses(pair.anchor, at, grid.step))
    return Atoms(pair.anchor, at, mass, infinite)


def lower(pair: Dominating | Pure, grid: Grid) -> Atoms:
    """Is dominated by the pair: mass beyond the grid is brought back to it or dropped, mass before it is dropped."""
    if isinstance(pair, Pure):
        return _pure_upper(Pure(_steps_within(pair.epsilon, grid.step) * grid.step), grid.step)
    if isinstance(pair, Added):
        atoms = _lower(Removed(pair.rate, pair.shift), grid)
        # The other way round: losses change sign, and P and Q their roles.  What P has lost, Q must not lose.
        if atoms.mass.sum() > 1 - 1e-12:
            return Atoms(-atoms.anchor, -atoms.at, atoms.mass * np.exp(-atoms.losses(grid.step)), 0.0)
    return _without_tail(_lower(pair, grid), grid)


def _lower(pair: Dominating, grid: Grid) -> Atoms:
    if isinstance(pair, Removed) and pair.rate < 1:
        mass, excess = pair.cells(np.array([pair.smallest, pair.smallest + grid.step / 2]))
        if mass[0] > 0:
            return _lower_from_bound(pair, float(mass[0]), float(excess[0]), grid)
    at = _points(pair, pair.anchor, grid)
    edges = _losses(pair.anchor, at, grid.step)
    zero = int(np.searchsorted(edges, pair.anchor)) if pair.atom > 0 else -1
    corners, masses = _under_tangents(pair, edges, (edges[:-1] + edges[1:]) / 2, zero, pair.atom)
    return Atoms(pair.anchor, at[corners], masses, 0.0)


def _lower_from_bound(pair: Removed, mass: float, excess: float, grid: Grid) -> Atoms:
    """The mass that crowds within half a step of the smallest loss, log(1 - q), is merged into one outcome.

    Merging outcomes gives a dominated pair, and its first corner need not be lowered, which would lose mass for good.
    """
    # log P/Q of the merged outcome, where excess = P - (1 - q) Q
    merged = pair.smallest - math.log1p(-min(excess / mass, 0.5))
    at = _points(pair, merged, grid)
    at = np.insert(at[at > 0], 0, 0)
    edges = _losses(merged, at, grid.step)
    # Tangents that touch at the left end of a cell do not lower the corner there either: start so, end in the middle.
    touching = edges[:-1] + np.minimum(0.5, np.arange(len(edges) - 1) / _RAMP) * np.diff(edges)
    touching[0] = max(pair.smallest + grid.step / 2, merged)
    corners, atoms = _under_tangents(pair, edges, touching, 0, mass)
    return Atoms(merged, at[corners], atoms, 0.0)


def _without_tail(atoms: Atoms, grid: Grid) -> Atoms:
    """Without a last point that only stands for what `upper` sends to infinity: a tilt would make much of it."""
    if atoms.mass[-1] > 10 * math.exp(grid.log_above):
        return atoms
    return Atoms(atoms.anchor, atoms.at[:-1], atoms.mass[:-1], 0.0)


def connect(pair: Dominating, edges: Array) -> tuple[Array, float]:
    """Connect the dots at increasing losses: the mass at each, and at infinity.  An atom must be among them."""
    mass, excess = pair.cells(np.concatenate(([-np.inf], edges, [np.inf])))
    inside = mass[1:-1]
    # Q is kept when the right end gets (P - e^a Q) / (1 - e^(a - b)); one part in 10^9 more covers its rounding.
    right = excess[1:-1] / -np.expm1(-np.diff(edges)) * (1 + 1e-9)
    right = np.where(np.isfinite(right), np.clip(right, 0.0, inside), inside)
    atoms = np.zeros(len(edges))
    atoms[0] = mass[0]
    atoms[:-1] += inside - right
    atoms[1:] += right
    if pair.atom > 0:
        atoms[np.searchsorted(edges, pair.anchor)] += pair.atom
    return atoms, float(mass[-1])


def _under_tangents(pair: Dominating, edges: Array, touching: Array, atom_at: int, atom: float) -> tuple[Index, Array]:
    """Which edges are corners of the polygon from below, and the masses there.

    Cell i is under the tangent that touches the curve at `touching[i]`; edge `atom_at` (or none, -1) has mass `atom` of
    its own, which for the first edge stands for everything up to the first point of contact.
    """
    halves = np.empty(2 * len(edges))
    halves[:-1:2], halves[1:-2:2], halves[-1] = edges, touching, np.inf
    mass, excess = pair.cells(halves)
    excess = np.clip(np.nan_to_num(excess, nan=0.0), 0.0, mass)
    if atom_at == 0:
        mass[0] = excess[0] = 0.0
    Pl, Pr, Dl, Dr = mass[:-1:2], mass[1:-1:2], excess[:-1:2], excess[1:-1:2]
    wl, wr = touching - edges[:-1], edges[1:] - touching
    y = np.exp(edges)
    width = y[:-1] * np.expm1(np.diff(edges))

    # Q(L >= edge)
    in_cell = (Pl - Dl) * np.exp(-edges[:-1]) + (Pr - Dr) * np.exp(-touching)
    last = (mass[-1] - excess[-1]) * math.exp(-edges[-1])
    beyond = np.cumsum(np.append(in_cell, last)[::-1])[::-1]
    if atom_at >= 0:
        beyond[: atom_at + 1] += atom * math.exp(-edges[atom_at])
    # delta(a) - delta(b) = P(cell) - e^a Q(cell) + (e^b - e^a) Q(L >= b)
    drop = Dl - np.expm1(-wl) * Pr + np.exp(-wl) * Dr + width * beyond[1:]
    delta = np.cumsum(np.append(drop, excess[-1])[::-1])[::-1]

    # How far the tangents of the two neighbouring cells pass under the curve at an edge.
    from_right = np.append(Dl, 0.0)
    from_left = np.insert(np.maximum(0.0, np.expm1(wr) * Pr - np.exp(wr) * Dr), 0, 0.0)
    lowering = np.maximum(from_right, from_left)
    # The polygon ends on the axis, at the last edge where the tangent from the left has not crossed it yet.
    crossed = np.flatnonzero(delta < from_left * (1 - 1e-6))
    end = int(crossed[0]) - 1 if crossed.size else len(edges) - 1
    lowering = np.minimum(lowering, delta)
    lowering[end] = delta[end]
    fall = (drop - lowering[:-1] + lowering[1:])[:end]

    corners = _corners(fall, width[:end])
    while len(corners) > 1:
        first, stop = corners[:-1], corners[-1]
        slope = np.add.reduceat(fall[:stop], first) / np.add.reduceat(width[:stop], first)
        Q = np.concatenate(([beyond[0] - slope[0]], -np.diff(slope), [slope[-1]]))
        if (Q[:-1] >= 0).all():
            return corners, np.maximum(0.0, Q * y[corners])
        # A point above the line through two others, or above the ray that comes in from the left, is no corner.
        corners = corners[np.append(Q[:-1] >= 0, True)]
    return corners, beyond[0] * y[corners]


def _corners(fall: Array, width: Array) -> Index:
    """The ends of pieces over which a curve that falls so much over such widths is as good as convex.

    A piece that falls more steeply than the one before it becomes one with it.
    """
    steepness = fall / width
    steeper = np.flatnonzero(steepness[1:] > steepness[:-1])
    # up to the first piece that is steeper than the one before it there is nothing to do
    done = int(steeper[0]) + 1 if steeper.size else len(fall)
    starts = list(range(done))
    slopes, widths = steepness[:done].tolist(), width[:done].tolist()
    rest = zip(steepness[done:].tolist(), width[done:].tolist(), strict=True)
    for start, (slope, wide) in enumerate(rest, done):
        while slopes and slopes[-1] < slope:
            together = widths[-1] + wide
            slope += (slopes.pop() - slope) * (widths.pop() / together)
            wide, start = together, starts.pop()
        starts.append(start)
        slopes.append(slope)
        widths.append(wide)
    return np.array([*starts, len(fall)])


def _points(pair: Dominating, anchor: float, grid: Grid) -> Index:
    """Whole numbers of steps from the anchor that reach over the span of the loss, 0 among them if it lies there."""
    growth = grid.growth
    low, high = (math.asinh(growth * loss / grid.step) / growth for loss in pair.span(grid.log_above, grid.log_below))
    even = np.arange(min(-1, math.floor(low) - 1), max(1, math.ceil(high) + 1) + 1)
    at = round(-anchor / grid.step) + np.rint(np.sinh(growth * even) / growth).astype(np.int64)
    return at if 0 in at or not at[0] < 0 < at[-1] else np.insert(at, np.searchsorted(at, 0), 0)


def _losses(anchor: float, at: Index, step: float) -> Array:
    losses: Array = anchor + at.astype(np.float64) * step
    return losses


def _pure_upper(pair: Pure, step: float) -> Atoms:
    """+-epsilon, each shared between its two neighbours on the grid."""
    near = _steps_within(pair.epsilon, step)
    beyond = max(0.0, pair.epsilon - near * step)
    right = math.expm1(-beyond) / math.expm1(-step)
    left = math.expm1(-(step - beyond)) / math.expm1(-step)
    at = np.array([-near - 1, -near, near, near + 1])
    share = np.array([1 - left, left, 1 - right, right])
    weight = np.array([pair.unlikely, pair.unlikely, pair.likely, pair.likely])
    return Atoms(0.0, at, share * weight, 0.0)


def _steps_within(epsilon: float, step: float) -> int:
    """Whole steps in epsilon; within rounding of one more counts as one more."""
    return math.floor(epsilon / step * (1 + 1e-12))
