"""The Redbook survey: 6,366 married women on their marriages, and whether they had an affair.

Readers of a magazine answered in 1974, and Ray Fair published the answers with "A Theory of Extramarital Affairs",
Journal of Political Economy 86 (1978), 45-61. They are public, come with statsmodels, and are as sensitive as anything
a person would tell a survey: what a private model is for.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from sordino.tabular.schema import Schema

REDBOOK = "Redbook survey of 6,366 married women (Fair 1978)"

_QUESTIONS = {
    "rate_marriage": "how good the marriage is, from very poor to very good",
    "age": "age, in years",
    "yrs_married": "years married",
    "children": "children",
    "religious": "how religious, from not at all to strongly",
    "educ": "years of education",
}


@dataclass(frozen=True, eq=False)
class Survey:
    """Records as a mapping of columns, the public schema that describes them, and each column in words."""

    name: str
    records: dict[str, Any]
    schema: Schema
    questions: dict[str, str]


def load_redbook() -> Survey:
    """The answers, with the target `affair`: "yes" where any time was spent in one."""
    try:
        from statsmodels.datasets import fair
    except ImportError:
        raise ImportError("the Redbook survey comes with statsmodels: pip install 'sordino[demo]'.") from None
    answers = fair.load_pandas().data
    schema = Schema.from_toml((files("sordino.datasets") / "redbook.toml").read_text(encoding="utf-8"))
    records = {name: answers[name].to_numpy() for name in schema.columns}
    records["affair"] = ["yes" if time > 0 else "no" for time in answers["affairs"]]
    return Survey(REDBOOK, records, schema, _QUESTIONS)
