"""A measure of a model with its interval, and the two intervals that all of them are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtri

SAMPLING = "other held-out records, and the noise"
NOISE = "the noise alone, on these records"
"""What an interval covers."""


@dataclass(frozen=True)
class Measure:
    """One number with its interval, which covers the truth with probability `level` as `how` says.

    Measures of one `group` belong together, such as the cells of a confusion matrix.
    """

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    level: float | None = None
    how: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        ends = (self.low, self.high, self.level)
        if not math.isfinite(self.value) or not all(end is None or math.isfinite(end) for end in ends):
            raise ValueError(f"{self.name!r} has a number that is not finite: leave a measure out that has none.")
        if len({end is None for end in ends}) > 1:
            raise ValueError(f"{self.name!r} has half an interval: give low, high and level, or none of them.")
        if self.low is not None and self.high is not None and self.level is not None:
            if not self.low <= self.value <= self.high:
                raise ValueError(f"{self.name!r} lies outside its own interval: low <= value <= high is needed.")
            if not 0 < self.level < 1:
                raise ValueError(f"{self.name!r} has level {self.level}: a probability between 0 and 1 is needed.")


def within(
    name: str,
    value: float,
    ends: tuple[float, float],
    level: float,
    how: str = SAMPLING,
    group: str = "",
    possible: tuple[float, float] = (0.0, 1.0),
) -> Measure:
    """Cut to what the measure can be: what lies outside is noise."""
    value, low, high = (float(min(max(end, possible[0]), possible[1])) for end in (value, *ends))
    return Measure(name, value, min(low, value), max(high, value), level, how, group)


def quantile(level: float, choices: int = 1) -> float:
    """z: the interval value +- z std covers with probability `level`, for all of so many choices at once."""
    return -float(ndtri((1 - level) / (2 * choices)))


def rate_interval(rate: float, records: float, noise: float, z: float) -> tuple[float, float]:
    r"""Where p may lie by (rate - p)^2 <= z^2 (p (1 - p)/m + s^2/m^2), m records and s the noise of the count.

    Without noise it is Wilson's interval. Not cut to [0, 1].
    """
    ratio = z**2 / records
    middle, spread = 2 * rate + ratio, rate**2 - (z * noise / records) ** 2
    root = math.sqrt(max(0.0, middle**2 - 4 * (1 + ratio) * spread))
    return (middle - root) / (2 * (1 + ratio)), (middle + root) / (2 * (1 + ratio))
