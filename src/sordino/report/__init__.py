"""A page about a release that can be handed to whoever has to answer for it."""

from sordino.report.figures import Figure, Tradeoff, tradeoff_figure
from sordino.report.page import REPORT, Section, Table, write_report

__all__ = ["REPORT", "Figure", "Section", "Table", "Tradeoff", "tradeoff_figure", "write_report"]
