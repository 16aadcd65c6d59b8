r"""The public side of a training run: everything that may be known before a record is read.

minimise over the domain   F(w) = (1/n) sum_i l(w; x_i, y_i) + r(w),      |x_i| <= row_norm
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Integral
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np

from sordino import wire
from sordino.arrays import Array
from sordino.budget import Relation
from sordino.domains import Domain, Everywhere
from sordino.given import require_number
from sordino.losses import Loss
from sordino.penalties import Penalty, Ridge


class Constants(NamedTuple):
    """The letters of the theorems. L bounds the data term's gradient only; beta and mu are those of F."""

    L: float
    beta: float
    mu: float


_SUMMED = 0.65

Contribution = Literal["mean", "capped", "sum"]


@dataclass(frozen=True)
class PersonUnit:
    """What is protected is a person with all their records, of which at most `most_records` count; None is all.

    They make one contribution (see `sordino.oracle.person_blocks`): the mean of theirs, so that every person counts
    alike; the sum of theirs divided by `most_records`, so that every record does; or their sum divided by
    `typical_records`, a public guess of how many a person has, and clipped as one.
    """

    most_records: int | None = None
    contribution: Contribution = "mean"
    typical_records: float | None = None

    def __post_init__(self) -> None:
        most = self.most_records
        if most is not None and not (isinstance(most, Integral) and not isinstance(most, bool) and most >= 1):
            raise ValueError(f"records_per_person is {most!r}: it must be a whole number, at least 1, or None for all.")
        if self.contribution not in get_args(Contribution):
            raise ValueError(f"contribution is {self.contribution!r}: it must be 'mean', 'capped' or 'sum'.")
        if self.contribution == "capped" and most is None:
            raise ValueError("contribution='capped' divides by records_per_person: give a public number of records.")
        self._check_typical()

    def _check_typical(self) -> None:
        typical = self.typical_records
        if (self.contribution == "sum") != (typical is not None):
            raise ValueError(
                f"contribution is {self.contribution!r} and typical_records is {typical!r}: a clipped sum is divided "
                "by a public guess of how many records a person has, and nothing else is. Give it with "
                "contribution='sum', and leave it out otherwise."
            )
        if typical is not None:
            require_number("typical_records", typical)
            if not 1 <= typical < math.inf:
                raise ValueError(f"typical_records is {typical}: a person has at least one record, and finitely many.")


@dataclass(frozen=True)
class Problem:
    """Public facts. `records` is n under replace-one, and a public stand-in for it under add/remove.

    `features` counts the columns of a row as the model sees it, an intercept's constant column included. Where `person`
    is given, n counts persons, and everything that is said of a record's contribution is so of a person's.
    """

    records: int
    features: int
    loss: Loss
    row_norm: float = 1.0
    penalty: Penalty = field(default_factory=Ridge)
    domain: Domain = field(default_factory=Everywhere)
    person: PersonUnit | None = None
    gives: ClassVar[str] = "model"

    def __post_init__(self) -> None:
        # an infinite or missing count would make the sensitivity 0 or nan, and the noise with it
        for name, count in (("records", self.records), ("features", self.features)):
            if not (isinstance(count, Integral) and 1 <= count <= wire.LARGEST):
                raise ValueError(
                    f"{name} is {wire.shown(count)}: a problem needs a whole number of {name}, at least one and at "
                    "most 2^53."
                )
        if self.row_norm is not None:
            require_number("row_norm", self.row_norm)
        if self.row_norm is None or not (math.isfinite(self.row_norm) and self.row_norm > 0):
            raise ValueError(
                f"row_norm is {self.row_norm}: it must be a positive finite bound on each record's Euclidean norm "
                "that does not come from the data itself (records above it are scaled down)."
            )
        if not math.isfinite(self.constants.L):
            raise ValueError(
                f"{type(self.loss).__name__} loss has no bounded gradient on an unbounded domain: "
                "give the loss a clip, or the problem a Ball(radius) as its domain."
            )

    @property
    def dim(self) -> int:
        """The number of parameters."""
        return self.features * self.loss.outputs

    @property
    def constants(self) -> Constants:
        R, r = self.row_norm, self.penalty
        # the penalty is left out of L: it is the same for neighbouring data sets
        return Constants(
            L=self.loss.lipschitz(R, self.domain.radius),
            beta=self.loss.smoothness(R) + r.smoothness,
            mu=max(0.0, r.convexity),
        )

    @property
    def unit(self) -> str:
        """What neighbouring data sets differ in, in a word."""
        return "record" if self.person is None else "person"

    @property
    def hessian_rank(self) -> float:
        """Of what one unit adds to the objective: as many as its records have together."""
        most = 1 if self.person is None else self.person.most_records
        return math.inf if most is None else self.loss.hessian_rank * most

    @property
    def summed(self) -> bool:
        """Whether a person's sum is clipped as one, which makes of it no gradient, and no monotone map."""
        return self.person is not None and self.person.contribution == "sum"

    @property
    def convex(self) -> bool:
        """Whether every unit adds the gradient of a convex function to the sum."""
        return self.loss.convex and self.penalty.convexity >= 0 and not self.summed

    @property
    def usual_clip(self) -> float:
        r"""Where contributions are clipped unless somebody says otherwise: at L, which changes none of a record.

        A person's sum of k records is about as long as sqrt(k) of them where their rows differ, and is divided by k:
        0.65 L / sqrt(k), the best in simulations of 2 to 20 records each. Where a person's rows are nearly the same,
        twice as much.
        """
        typical = None if self.person is None else self.person.typical_records
        return self.constants.L if typical is None else self.constants.L * min(1.0, _SUMMED / math.sqrt(typical))

    @property
    def smooth(self) -> bool:
        return math.isfinite(self.constants.beta)

    @property
    def radius(self) -> float:
        r"""A public bound on |w*|: the domain's, or from mu/2 |w*|^2 <= F(w*) <= F(0) <= at_zero."""
        mu = self.constants.mu
        return min(self.domain.radius, math.sqrt(2 * self.loss.at_zero / mu) if mu > 0 else math.inf)

    def gradient_sensitivity(self, relation: Relation) -> float:
        """How far one record moves the gradient of F: 2L/n when it is replaced, L/n when added or removed."""
        return relation.distance * self.constants.L / self.records

    def start(self) -> Array:
        """The first iterate: zero, because it must not depend on the records."""
        return np.zeros(self.dim)

    def require(self, method: str, *assumptions: str) -> None:
        """Raise a sentence that names the first assumption of `method` this problem does not meet."""
        remedies = {
            "convex": "use a convex penalty such as Ridge, or a method for non-convex problems",
            "smooth": "use a smooth loss (Logistic, Huber, Squared ..), or ProximalSmoothing, which smooths a kink",
        }
        for assumption in assumptions:
            if assumption == "convex" and self.summed:
                raise ValueError(
                    f"{method} needs contributions that are gradients of convex functions, and a person's clipped sum "
                    "is none: use contribution='mean', or a method that pays for every step, such as "
                    "NoisyGradientDescent, NoisySGD or DPSGD."
                )
            if not getattr(self, assumption):
                raise ValueError(
                    f"{method} needs a {assumption} objective: {type(self.loss).__name__} loss with "
                    f"{type(self.penalty).__name__} is not; {remedies[assumption]}."
                )


@dataclass(frozen=True)
class NetworkProblem:
    r"""The public side of a model whose gradients have no known bound: a network, clipped record by record.

    minimise   F(w) = (1/n) sum_i l(w; z_i) + r(w),      w in R^dim

    `model` names the architecture, so that a certificate tells what was trained; it carries no weights. Where `person`
    is given, n counts persons, and a person's clipped records make one contribution.
    """

    records: int
    dim: int
    model: str = ""
    penalty: Penalty = field(default_factory=Ridge)
    domain: Domain = field(default_factory=Everywhere)
    person: PersonUnit | None = None
    convex = smooth = False
    gives: ClassVar[str] = "model"

    def __post_init__(self) -> None:
        if self.person is not None:
            refuse_network_sum(self.person.contribution)
        if self.person is not None and self.person.most_records is None:
            raise ValueError(
                "records_per_person is missing: on a network every person takes as many places of a pass as anybody "
                "may have records, so that nobody's number of records moves the others; give a public number."
            )
        for name, count in (("records", self.records), ("dim", self.dim)):
            if not (isinstance(count, Integral) and count >= 1):
                raise ValueError(f"{name} is {count!r}: a problem needs a whole number of {name}, at least one.")

    @property
    def unit(self) -> str:
        """What neighbouring data sets differ in, in a word."""
        return "record" if self.person is None else "person"

    @property
    def constants(self) -> Constants:
        raise ValueError(
            "a network's gradients have no known bound: give the method its clip, step size and number of steps."
        )

    def start(self) -> Array:
        raise ValueError("a network starts from its own initial weights: give the method that start.")

    def require(self, method: str, *assumptions: str) -> None:
        for assumption in assumptions:
            raise ValueError(
                f"{method} needs a {assumption} objective, and a network's is not: use DPSGD, DPAdam, "
                "DPRMSProp or RecursiveMomentum."
            )


def refuse_network_sum(contribution: str) -> None:
    if contribution == "sum":
        raise ValueError(
            "contribution is 'sum': a network's records are clipped one by one, and the gradient of a whole person is "
            "not formed; use 'mean', or 'capped'."
        )


@dataclass(frozen=True)
class HeldOut:
    """The public side of an evaluation: a released model, and how many held-out records it is tried on.

    `model` is the digest of the model. `classes` are its labels in words, of two the positive one last; a model of a
    number has a `target_range` instead. `records` counts persons where `person` is given.
    """

    records: int
    model: str
    classes: tuple[str, ...] = ()
    target_range: tuple[float, float] | None = None
    person: PersonUnit | None = None
    gives: ClassVar[str] = "evaluation"

    def __post_init__(self) -> None:
        if not (isinstance(self.records, Integral) and 1 <= self.records <= wire.LARGEST):
            raise ValueError(f"records is {wire.shown(self.records)}: an evaluation needs a whole number, at least 1.")
        if self.target_range is None and len(self.classes) < 2:
            raise ValueError("a model that is evaluated has two classes at least, or a range of its targets.")
        if self.target_range is not None:
            low, high = self.target_range
            if self.classes or not (math.isfinite(high - low) and low < high):
                raise ValueError("target_range must be two finite numbers, the lower one first, of a model of numbers.")
        if self.person is not None and self.person.contribution != "mean":
            raise ValueError("in an evaluation a person counts as the mean of their records: contribution='mean'.")

    @property
    def unit(self) -> str:
        return "record" if self.person is None else "person"
