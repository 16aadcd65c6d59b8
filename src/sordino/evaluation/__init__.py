"""How good a released model is on held-out records, with noise: what is counted, what it costs, what follows."""

from sordino.evaluation.confusion_matrix import ConfusionMatrix
from sordino.evaluation.error_moments import ErrorMoments
from sordino.evaluation.measure import Measure
from sordino.evaluation.outcomes import Outcomes
from sordino.evaluation.score_histogram import ScoreHistogram
from sordino.evaluation.statistic import Statistic, Sums

STATISTICS: dict[str, type] = {kind.__name__: kind for kind in (ScoreHistogram, ConfusionMatrix, ErrorMoments)}
"""Every kind, by its name in a certificate."""

__all__ = [
    "STATISTICS",
    "ConfusionMatrix",
    "ErrorMoments",
    "Measure",
    "Outcomes",
    "ScoreHistogram",
    "Statistic",
    "Sums",
]
