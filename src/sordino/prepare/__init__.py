"""What is learnt about the rows before a model is trained on them, and paid for: one plan and one release with it."""

from sordino.prepare.categories import Categories, Discovered, DiscoveredPlan
from sordino.prepare.centre import Centre
from sordino.prepare.choice import default_preparation, far_on_words, only_a_constant, starting_score, steps_of
from sordino.prepare.class_balance import ClassBalance
from sordino.prepare.column_bounds import ColumnBounds
from sordino.prepare.column_scales import ColumnScales
from sordino.prepare.frequent_columns import FrequentColumns
from sordino.prepare.norm_quantile import NormQuantile
from sordino.prepare.prepared import PreparationStep, Prepared, PreparedPlan, left_for_training, share_of
from sordino.prepare.protocol import Preparation, StepPlan
from sordino.prepare.starting_score import StartingScore
from sordino.prepare.whitening import Whitening

PREPARATIONS: dict[str, type[PreparationStep]] = {
    step.__name__: step
    for step in (
        Centre,
        NormQuantile,
        ColumnScales,
        ColumnBounds,
        FrequentColumns,
        Whitening,
        ClassBalance,
        StartingScore,
    )
}

KEEPS_ZEROS = (NormQuantile, ColumnScales, FrequentColumns, ClassBalance, StartingScore)
"""Steps after which sparse rows are sparse."""

__all__ = [
    "KEEPS_ZEROS",
    "PREPARATIONS",
    "Categories",
    "Centre",
    "ClassBalance",
    "ColumnBounds",
    "ColumnScales",
    "Discovered",
    "DiscoveredPlan",
    "FrequentColumns",
    "NormQuantile",
    "Preparation",
    "PreparationStep",
    "Prepared",
    "PreparedPlan",
    "StartingScore",
    "StepPlan",
    "Whitening",
    "default_preparation",
    "far_on_words",
    "left_for_training",
    "only_a_constant",
    "share_of",
    "starting_score",
    "steps_of",
]
