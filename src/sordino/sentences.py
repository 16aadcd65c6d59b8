"""Every sentence that a certificate may hold, in one place: `verify` knows them all and accepts no other.

What follows from the public facts stands in every certificate (`required`). The others depend on how the run was called
(`OPTIONAL`); a name in a template stands for the same value wherever it occurs in a certificate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from string import Formatter
from typing import Protocol

from sordino.budget import Budget, Relation
from sordino.oracle.rows import Rows
from sordino.problem import HeldOut, NetworkProblem, PersonUnit, Problem

_NUMBERS = {"g": r"[0-9.e+-]{1,30}", "d": r"[0-9]{1,16}"}
_WORDS = {
    "plan": r"[0-9a-f]{16}",
    "signed_plan": r"[0-9a-f]{64}",
    "schema": r"[0-9a-f]{0,16}",
    "mode": "distributed|committee|joint",
    "times": r"1 time|[0-9]{1,6} times",
    "counts": r".{1,10000}",
    "names": r"[A-Za-z0-9_, ]{1,2000}",
}
"""What may stand where a template has {name:g}, {name:d} and {name}."""


@dataclass(frozen=True)
class Sentence:
    template: str

    def __call__(self, **values: object) -> str:
        return self.template.format(**values)

    def read(self, text: str) -> dict[str, str] | None:
        """What stands in the places of the template, or None if this is another sentence."""
        found = self._pattern.fullmatch(text)
        return None if found is None else found.groupdict()

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        pattern, met = "", set()
        for literal, name, kind, _ in Formatter().parse(self.template):
            pattern += re.escape(literal)
            if name:
                content = _NUMBERS[kind] if kind else _WORDS[name]
                pattern += f"(?P={name})" if name in met else f"(?P<{name}>{content})"
                met.add(name)
        return re.compile(pattern)


ROWS_SCALED = Sentence("rows with a norm above {row_bound:g} are scaled down to it")
GRADIENTS_CLIPPED = Sentence(
    "every record's gradient is clipped to the method's clip, and counts as zero where it is no number"
)
PERSON_MEAN = Sentence("a person's records count as one: the mean of what each of them adds, clipped by itself")
PERSON_CAPPED = Sentence(
    "a person's records count as one: the sum of what each of them adds, clipped by itself, divided by {most:d}"
)
PERSON_SUM = Sentence(
    "a person's records count as one: the sum of their gradients, divided by {typical:g} and clipped as one; of losses "
    "and rows the mean"
)
MOST_RECORDS = Sentence("of a person's records at most {most:d} are used, drawn at random; {most:d} is public")
TARGETS_CLIPPED = Sentence("targets are clipped to [-{target_bound:g}, {target_bound:g}]")
TARGETS_IN_RANGE = Sentence("targets are clipped to the range from {target_low:g} to {target_high:g}")
RECORDS_WEIGHTED = Sentence(
    "a record counts its weight, cut to the range from 0 to {weight_bound:g} and divided by {weight_bound:g}, which is "
    "public"
)

ONE_CELL = Sentence("every record is in one cell of a table, whatever it holds")
ERRORS_CUT = Sentence("predictions are clipped to the range of targets, and errors to a public bound")

SETTINGS_PUBLIC = Sentence("the features and all settings were chosen without looking at the records")
ROW_BOUND_PUBLIC = Sentence("the row bound {row_bound:g} does not come from the records")
NETWORK_PUBLIC = Sentence(
    "the architecture, the initial weights and all settings were chosen without looking at the records"
)
HELD_OUT = Sentence("the model was trained on other records; where it was not, what both reveal adds up")
COUNT_PUBLIC = Sentence("the number of records, {records:d}, is public")
COUNT_STANDS_IN = Sentence("{records:d} is a public stand-in for the number of records")
PERSONS_PUBLIC = Sentence("the number of persons, {records:d}, is public")
PERSONS_STAND_IN = Sentence("{records:d} is a public stand-in for the number of persons")
ONE_IDENTIFIER = Sentence("no person has records under two identifiers")
TYPICAL_PUBLIC = Sentence("the guess that a person has {typical:g} records does not come from the records")
TARGET_BOUND_PUBLIC = Sentence("the target bound {target_bound:g} does not come from the records")
TARGET_RANGE_PUBLIC = Sentence("the target range from {target_low:g} to {target_high:g} does not come from the records")
CLASSES_GIVEN = Sentence("the class labels were given")
CLASSES_READ = Sentence("the class labels were read from the records and are taken to be public")
STEPS_PUBLIC = Sentence(
    "the steps before the model were fitted to public data, or work on each record by itself: {names}"
)
SCHEMA_PUBLIC = Sentence("the schema and its bounds ({schema}) were chosen without looking at the records")
COUNTS_PUBLIC = Sentence("the numbers of records are public: {counts}")
PERSON_COUNTS_PUBLIC = Sentence("the numbers of persons are public: {counts}")
WHOLE_PERSONS = Sentence("no person has records at two owners")
OUTSIDERS = Sentence(
    "Federation {plan}: the guarantee holds against everybody outside the federation only: each of the {owners:d} "
    "owners knows its own share of the noise and could take it off, and all of them add theirs"
)
DISTRIBUTED = Sentence(
    "Federation {plan}: at most {colluders:d} of the {owners:d} owners pool what they know; each of the others adds "
    "its noise"
)
JOINT = Sentence(
    "Federation {plan}: at most {colluders:d} of the {owners:d} owners pool what they know, and all of them follow the "
    "protocol"
)
COMMITTEE = Sentence(
    "Federation {plan}: at most one of the three servers pools what it knows with any of the {owners:d} owners"
)

MORE_NOISE = Sentence(
    "The printed constants aim at epsilon {aim:g}; they truly give {earned:g}, more noise than needed."
)
FALSE_CLAIM = Sentence(
    "The printed constants aim at epsilon {aim:g}; they truly give {earned:g}, which is not the guarantee claimed."
)
FEWER_STEPS = Sentence(
    "With the noise multiplier {multiplier:g} the budget allows {steps:d} of the {asked:d} steps asked for, and so "
    "many are taken."
)
HUBER_THRESHOLD = Sentence(
    "The loss is squared for residuals up to {threshold:g}, in the target's own unit, and linear beyond."
)
COUNTS_CLIPPED = Sentence(
    "Differences between a count and its prediction beyond {difference:g} count as if they were so large; scores are "
    "logarithms, in units of {mean:g}."
)
RATIOS_CLIPPED = Sentence(
    "A target of more than {ratio:g} times its prediction counts as if it were so large; scores are logarithms, in "
    "units of {mean:g}."
)
WENT_ON = Sentence("The run was interrupted and went on {times}.")
STEPS_LOST = Sentence(
    "The run was interrupted and went on {times}. {lost:d} of the planned {steps:d} steps had been seen and were lost: "
    "they count, and the run ended at step {last:d}."
)
PLAN_OF_OWNERS = Sentence("The noise of {owners:d} owners is {mode}; plan {signed_plan}.")
INTERVALS_COVERED = Sentence(
    "Intervals were asked for: whatever they follow from was released with noise, within the guarantee of the weights."
)
NO_STEP_TWICE = Sentence("The run was cut off and went on {times}; no step was opened twice with different noise.")


def times(count: int) -> str:
    return "1 time" if count == 1 else f"{count} times"


OPTIONAL = {
    "enforced": (TARGETS_CLIPPED, TARGETS_IN_RANGE, RECORDS_WEIGHTED),
    "assumed": (
        CLASSES_GIVEN,
        CLASSES_READ,
        TARGET_BOUND_PUBLIC,
        TARGET_RANGE_PUBLIC,
        STEPS_PUBLIC,
        SCHEMA_PUBLIC,
        COUNTS_PUBLIC,
        PERSON_COUNTS_PUBLIC,
        WHOLE_PERSONS,
        OUTSIDERS,
        DISTRIBUTED,
        JOINT,
        COMMITTEE,
    ),
    "notes": (
        WENT_ON,
        STEPS_LOST,
        HUBER_THRESHOLD,
        COUNTS_CLIPPED,
        RATIOS_CLIPPED,
        FEWER_STEPS,
        PLAN_OF_OWNERS,
        NO_STEP_TWICE,
    ),
}
"""What depends on how the run was called. Some of them follow the required ones, in this order."""


class Calibrated(Protocol):
    """A method: whether its noise is by exact accounting, or by printed constants that need a remark."""

    @property
    def calibration(self) -> str: ...


def required(
    problem: Problem | NetworkProblem | HeldOut,
    budget: Budget,
    method: Calibrated,
    rows: Rows | None,
    earned: float,
    further: tuple[str, ...] = (),
) -> dict[str, tuple[str, ...]]:
    """What every certificate of these public facts says; `earned` is the epsilon of its event.

    `further` are notes that follow from the kind of method.
    """
    network = isinstance(problem, NetworkProblem)
    replaced = budget.relation is Relation.REPLACE_ONE
    scaled = () if rows is None else (ROWS_SCALED(row_bound=rows.bound),)
    bound = () if rows is None else (ROW_BOUND_PUBLIC(row_bound=rows.bound),)
    person = problem.person
    counted = {
        "record": (COUNT_PUBLIC, COUNT_STANDS_IN),
        "person": (PERSONS_PUBLIC, PERSONS_STAND_IN),
    }[problem.unit][0 if replaced else 1]
    remark = FALSE_CLAIM if earned > budget.epsilon else MORE_NOISE
    return {
        "enforced": (
            *scaled,
            *((GRADIENTS_CLIPPED(),) if network else ()),
            *_evaluated(problem)[0],
            *_of_person(person),
        ),
        "assumed": (
            *bound,
            *_evaluated(problem)[1],
            (NETWORK_PUBLIC if network else SETTINGS_PUBLIC)(),
            counted(records=problem.records),
            *_assumed_of_person(person),
        ),
        "notes": (
            *((remark(aim=budget.epsilon, earned=earned),) if method.calibration == "paper" else ()),
            *further,
        ),
    }


def _evaluated(problem: Problem | NetworkProblem | HeldOut) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of an evaluation: what is enforced, and what it rests on."""
    if not isinstance(problem, HeldOut):
        return (), ()
    if problem.target_range is None:
        return (ONE_CELL(),), (HELD_OUT(),)
    ends = dict(zip(("target_low", "target_high"), problem.target_range, strict=True))
    return (TARGETS_IN_RANGE(**ends), ERRORS_CUT()), (HELD_OUT(), TARGET_RANGE_PUBLIC(**ends))


def _of_person(person: PersonUnit | None) -> tuple[str, ...]:
    """How their records make one contribution."""
    if person is None:
        return ()
    match person:
        case PersonUnit(contribution="mean"):
            whole = PERSON_MEAN()
        case PersonUnit(contribution="capped", most_records=most):
            whole = PERSON_CAPPED(most=most)
        case PersonUnit(typical_records=typical):
            whole = PERSON_SUM(typical=typical)
    return (whole,) if person.most_records is None else (whole, MOST_RECORDS(most=person.most_records))


def _assumed_of_person(person: PersonUnit | None) -> tuple[str, ...]:
    if person is None:
        return ()
    guess = person.typical_records
    return (ONE_IDENTIFIER(),) if guess is None else (ONE_IDENTIFIER(), TYPICAL_PUBLIC(typical=guess))


def consistent(
    said: Mapping[str, tuple[str, ...]], needed: Mapping[str, tuple[str, ...]], facts: Mapping[str, str]
) -> bool:
    """Whether a certificate could say all this: what is needed, then known sentences whose values agree.

    `facts` are values that the sentences must not contradict, by the names that templates have for them.
    """
    values, met = dict(facts), set()
    for place, known in OPTIONAL.items():
        first, rest = said[place][: len(needed[place])], said[place][len(needed[place]) :]
        if first != needed[place]:
            return False
        kinds = iter(known)
        for text in rest:
            # the iterator goes on where it stopped: each kind once, in their order
            found = next(((kind, read) for kind in kinds if (read := kind.read(text)) is not None), None)
            if found is None or any(values.setdefault(name, value) != value for name, value in found[1].items()):
                return False
            met.add(found[0])
    together = ((TARGETS_CLIPPED, TARGET_BOUND_PUBLIC), (TARGETS_IN_RANGE, TARGET_RANGE_PUBLIC))
    excluded = ({CLASSES_GIVEN, CLASSES_READ}, {TARGETS_CLIPPED, TARGETS_IN_RANGE})
    return all((one in met) == (other in met) for one, other in together) and not any(some <= met for some in excluded)
