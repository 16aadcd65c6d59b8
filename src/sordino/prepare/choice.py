r"""Which preparation, from public facts alone.

`auto` pays for a centre and a norm where  x = n mu/sqrt(d)  is large enough: 2/(x sqrt a) is the error of the centre in
units of the row bound, with the share a of the budget. The thresholds and quantiles were chosen by their mean loss over
thirty public tables at four epsilons (`benchmarks/constants.py`), where each table was judged by what the others chose.
Where x is larger still, columns are made equally wide too, and the norm is found once more: ranges that are far wider
than what most records use are the rule (`benchmarks/shapes.py`, in the same way).

How frequent one of two classes is takes one number, known to 1/(n mu sqrt a), and training begins there
(`StartingScore`). Where n mu is small, noise costs more than features are worth, and the frequency, or the mean of
numbers, is the model (`only_a_constant`). These constants are chosen on parts of tables with 300 to 6,000 records
(`benchmarks/intercept.py`), where it does not pay to begin at the mean of numbers.

Rows that are sparse stay so, and a model without an intercept has no use for a centre: neither has one. Texts, which
are sparse rows of more columns than there are records, are brought down to their frequent words, and have a smaller
constant column once the frequency is known. How much the words take of the budget, their threshold, the norm after it,
the column, and how far a descent on frequent words goes at least, were chosen on twelve codings of seven texts
(`benchmarks/texts.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from sordino.budget import Budget
from sordino.losses import Hinge, HuberisedHinge, Logistic, Softmax, Squared, unweighted
from sordino.methods import NoisyGradientDescent
from sordino.methods.protocol import AnyMethod
from sordino.methods.schedule import gaussian_allowance
from sordino.prepare.categories import Categories
from sordino.prepare.centre import Centre
from sordino.prepare.column_bounds import ColumnBounds
from sordino.prepare.column_scales import ColumnScales
from sordino.prepare.frequent_columns import FrequentColumns
from sordino.prepare.norm_quantile import NormQuantile
from sordino.prepare.prepared import PreparationStep
from sordino.prepare.protocol import Preparation
from sordino.prepare.starting_score import StartingScore
from sordino.prepare.whitening import Whitening
from sordino.problem import Problem

OF_CLASSES, OF_NUMBERS = 8.0, 15.0
"""The least n mu/sqrt(d) that is worth the price. For numbers the tables do not tell 8 from 15; the latter leaves rows
alone where records are few (331 at epsilon .5), which is better there."""

EQUAL_CLASSES, EQUAL_NUMBERS, WIDTHS_SHARE = 250.0, 30.0, 0.05
"""The least n mu/sqrt(d) from which columns are made equally wide, and what that takes of the budget."""

CONSTANT_CLASS, CONSTANT_NUMBER = 30.0, 15.0
"""The n mu below which the frequency of two classes, or the mean of numbers, is all that is learnt."""

MANY = 750.0
"""The n mu/sqrt(d) from which noise weighs so little that what clipping bends weighs more (`benchmarks/clips.py`)."""

FREQUENCY, LEAST_SHARE, MOST_SHARE = 5.0, 0.02, 0.5
"""n mu sqrt(a) that the frequency of a class is given, and the least and the most of a."""

SHORTENED = 100.0
"""The n mu up to which steps are shortened by all of 4p(1-p); above, by a power that falls like 1/(n mu)."""

OF_TEXTS = 0.4
"""How many rows of frequent words keep their length."""

COLUMN_OF_TEXTS = 0.1
"""The constant column of texts, once the frequency of a class is known."""

FAR, FAR_FROM = 0.9, 400.0
"""How far the noise of a descent on frequent words moves a score at least (p in `methods.schedule`), and the n mu from
which it does."""

ALMOST_ALL = 0.9
"""How many rows keep their length where a number is predicted: one that was scaled down bends the line."""

NAMED: dict[str, type[Preparation | StartingScore | Categories]] = {
    "centre": Centre,
    "norm quantile": NormQuantile,
    "column scales": ColumnScales,
    "column bounds": ColumnBounds,
    "frequent columns": FrequentColumns,
    "starting score": StartingScore,
    "whitening": Whitening,
    "categories": Categories,
}


def only_a_constant(problem: Problem, budget: Budget, intercept: bool) -> bool:
    """Whether public facts have no hope for more than the frequency of two classes, or the mean of numbers."""
    least = CONSTANT_CLASS if isinstance(problem.loss, Logistic) else CONSTANT_NUMBER
    told = isinstance(problem.loss, Logistic | Squared) and _tells_a_mean(problem, budget, intercept)
    return told and _strength(problem, budget) < least


def are_many(problem: Problem, budget: Budget, columns: int) -> bool:
    """Whether records of so many columns are so many for their budget that a wider clip is worth its noise."""
    if budget.pure or problem.person is not None:
        return False
    return _strength(problem, budget) >= MANY * math.sqrt(columns)


def starting_score(
    problem: Problem, budget: Budget, intercept: bool, sparse: bool = False
) -> tuple[StartingScore, ...]:
    """Where training of two classes begins, and for texts with how large a constant column."""
    if not (isinstance(problem.loss, Logistic) and _tells_a_mean(problem, budget, intercept)):
        return ()
    strength = _strength(problem, budget)
    share = min(max((FREQUENCY / strength) ** 2, LEAST_SHARE), MOST_SHARE)
    column = COLUMN_OF_TEXTS if sparse and _wide(problem, intercept) else None
    return (StartingScore(share, min(1.0, SHORTENED / strength), column),)


def _tells_a_mean(problem: Problem, budget: Budget, intercept: bool) -> bool:
    """A person counts one in the mean of targets only where the person's records count by their mean."""
    alike = problem.person is None or problem.person.contribution == "mean"
    return alike and math.isinf(problem.domain.radius) and intercept and problem.features > 1 and not budget.pure


def _wide(problem: Problem, intercept: bool) -> bool:
    """Sparse rows of so many columns are texts."""
    return problem.features - intercept >= problem.records


def _strength(problem: Problem, budget: Budget) -> float:
    """n mu: what n records can tell about one number, in units of what one of them may."""
    return problem.records * gaussian_allowance(problem.dim, budget)


def default_preparation(
    problem: Problem, budget: Budget, intercept: bool, sparse: bool = False
) -> tuple[Preparation, ...]:
    """Of rows, at this point of public facts, dense or sparse; nothing where it is not worth its price."""
    columns = problem.features - intercept
    if budget.pure or columns < 1 or not math.isinf(problem.domain.radius):
        return ()
    classes = isinstance(unweighted(problem.loss), Logistic | Softmax | Hinge | HuberisedHinge)
    if sparse:
        texts = classes and _wide(problem, intercept)
        return (FrequentColumns(), NormQuantile(quantile=OF_TEXTS)) if texts else ()
    if not intercept:
        return ()
    x = _strength(problem, budget) / math.sqrt(columns)
    if x < (OF_CLASSES if classes else OF_NUMBERS):
        return ()
    norm = NormQuantile() if classes else NormQuantile(quantile=ALMOST_ALL)
    if x < (EQUAL_CLASSES if classes else EQUAL_NUMBERS):
        return (Centre(), norm)
    return (Centre(), norm, ColumnScales(WIDTHS_SHARE), norm)


def far_on_words(method: AnyMethod, steps: Sequence[PreparationStep], problem: Problem, budget: Budget) -> AnyMethod:
    """What is chosen for rows prepared by these steps: on frequent words of many texts a descent goes far."""
    words = any(isinstance(step, FrequentColumns) for step in steps) and isinstance(problem.loss, Logistic)
    if not words or not isinstance(method, NoisyGradientDescent) or _strength(problem, budget) < FAR_FROM:
        return method
    return replace(method, least_deviation=FAR)


def steps_of(
    asked: Sequence[PreparationStep | Categories | str],
) -> tuple[Categories | None, tuple[PreparationStep, ...]]:
    """Steps by their names, with default settings, or as they are. A discovery of categories comes first."""
    if isinstance(asked, str) or not isinstance(asked, Sequence):
        raise ValueError(f"prepare is {asked!r}: it must be 'auto', None, or a list of {_known()} or of such steps.")
    found = []
    for step in asked:
        kind = NAMED.get(step) if isinstance(step, str) else None
        if kind is None and not isinstance(step, Preparation | StartingScore | Categories):
            raise ValueError(f"prepare names {step!r}: known are {_known()}.")
        found.append(kind() if kind is not None else step)
    first = [step for step in found if isinstance(step, Categories)]
    if len(first) > 1 or (first and found[0] is not first[0]):
        raise ValueError("prepare names 'categories' twice, or not first: rows are prepared once they have them.")
    return first[0] if first else None, tuple(found[len(first) :])  # type: ignore[arg-type]


def _known() -> str:
    return ", ".join(map(repr, NAMED))
