"""A page about a released model that can be handed to whoever has to answer for it; plots for it in `figures`."""

from sordino.evaluation import Measure
from sordino.evaluation_file import Evaluation
from sordino.reporting.model_report import REPORT, report
from sordino.reporting.section import Figure, Section, Table

__all__ = ["REPORT", "Evaluation", "Figure", "Measure", "Section", "Table", "report"]
