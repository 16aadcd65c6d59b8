"""Estimates whose law is known: what is released beside a model so that its coefficients have honest intervals."""

from sordino.inference.refusal import why_no_intervals
from sordino.inference.with_intervals import IntervalsPlan, WithIntervals

__all__ = ["IntervalsPlan", "WithIntervals", "why_no_intervals"]
