r"""A linear model to be trained, in public: from what is asked for to a problem and an oracle, and weights back.

    raw row x, target y   --rows, coding-->   x', t with |x'| <= 1     train on loss(w.x', t)     w  --back-->  x, y

The estimators, the commands `fit` and `plan` and federations all state what they train as one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.arrays import Array
from sordino.budget import Budget, Relation
from sordino.domains import Domain, Everywhere
from sordino.losses import TYPICAL_RESIDUAL, Huber, Logistic, Loss, Softmax
from sordino.oracle import linear_oracle
from sordino.oracle.files.source import AS_GIVEN, Coding, InUnits, Labels
from sordino.oracle.rows import Rows
from sordino.penalties import Penalty, Ridge
from sordino.prepare.choice import are_many
from sordino.problem import PersonUnit, Problem
from sordino.tabular.columns import ClassTarget
from sordino.tabular.schema import Schema

if TYPE_CHECKING:
    from sordino.oracle.linear import BlockwiseOracle
    from sordino.oracle.persons import Persons

INTERCEPT_OF_CLASSES, INTERCEPT_OF_NUMBERS = 0.28, 0.4
"""The constant column beside features of joint norm .96, or .92. The larger it is the sooner a rare class is learnt, or
a mean far from the middle of its range, and the less room is left to the features. Chosen among .2, .28, .4 and .56 on
thirty public tables (`benchmarks/constants.py`); for classes .4 is as good there, but on texts it costs 3.4 points of
accuracy beside .2 at epsilon .1."""


@dataclass(frozen=True)
class LinearTask:
    """Which loss on which rows and targets, with which penalty and domain. How many records there are is not said.

    `loss_of_many` is the loss where they are many for their budget (`prepare.choice.are_many`), if it is another one.
    """

    loss: Loss
    rows: Rows
    coding: Coding = AS_GIVEN
    penalty: Penalty = field(default_factory=Ridge)
    domain: Domain = field(default_factory=Everywhere)
    loss_of_many: Loss | None = None

    @staticmethod
    def of_schema(schema: Schema, row_norm: float | None = None, l2: float = 0.0) -> LinearTask:
        """Logistic regression for classes, Huber regression for a number; rows as the schema encodes them."""
        if schema.unknown:
            raise ValueError(
                f"the values of column {schema.unknown[0]!r} are still to be discovered, which several owners cannot "
                "do together: list them in the schema."
            )
        target, bound = schema.target, schema.row_norm if row_norm is None else row_norm
        if isinstance(target, ClassTarget):
            loss, rows = logistic(len(target.classes)), Rows(bound, INTERCEPT_OF_CLASSES)
        else:
            loss, rows = Huber(TYPICAL_RESIDUAL, 1.0), Rows(bound, INTERCEPT_OF_NUMBERS)
        return LinearTask(loss, rows, target_coding(schema), Ridge(l2))

    def problem(
        self, records: int, features: int, person: PersonUnit | None = None, budget: Budget | None = None
    ) -> Problem:
        """With so many features in a raw row; where a person is protected, `records` counts persons."""
        columns = features + self.rows.has_intercept
        stated = Problem(records, columns, self.loss, penalty=self.penalty, domain=self.domain, person=person)
        if self.loss_of_many is None or budget is None or not are_many(stated, budget, features):
            return stated
        return replace(stated, loss=self.loss_of_many)

    def oracle(
        self,
        X: Any,
        y: Any,
        problem: Problem,
        relation: Relation,
        persons: Persons | None = None,
        weights: Array | None = None,
    ) -> BlockwiseOracle:
        """Of raw rows and coded targets, or of a source of records, which has its targets with it."""
        return linear_oracle(X, y, problem, self.rows, relation, persons, weights)

    def to_raw(self, weights: Array) -> tuple[Array, Array]:
        """Coefficients (outputs x features) and intercepts for raw rows, with scores in the target's own unit."""
        return self.coding.back(*self.rows.to_raw(weights, self.loss.outputs))

    def covariance_to_raw(self, covariance: Array) -> Array:
        """Of the coefficients and the intercept of one output, which stands last and is certain where there is none."""
        # the way back is a multiple for every weight, and a constant
        d = len(covariance)
        ones, origin = (np.concatenate([c.ravel(), b]) for c, b in map(self.to_raw, (np.ones(d), np.zeros(d))))
        scales = ones - origin
        padded = np.zeros((len(scales), len(scales)))
        padded[:d, :d] = covariance
        return padded * np.outer(scales, scales)


def logistic(classes: int) -> Loss:
    return Logistic() if classes == 2 else Softmax(classes)


def target_coding(schema: Schema) -> Coding:
    target = schema.target
    if isinstance(target, ClassTarget):
        return class_coding(target.sorted)
    return InUnits(target.bounds.half, target.bounds.centre)


def class_coding(classes: Sequence[Any]) -> Labels:
    """Of sorted classes: a loss is given -1 and 1, or 0, 1, 2 .. for more than two."""
    values = (-1.0, 1.0) if len(classes) == 2 else tuple(np.arange(float(len(classes))).tolist())
    return Labels(tuple(classes), values)
