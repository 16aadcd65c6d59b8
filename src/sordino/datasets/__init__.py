"""Public data sets about sensitive matters, each with a schema that was written without looking at the answers."""

from sordino.datasets.redbook import REDBOOK, Survey, load_redbook

__all__ = ["REDBOOK", "Survey", "load_redbook"]
