"""A budget is checked once, where it is written down."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from sordino.budget import Budget, Relation


def test_the_papers_relation_is_the_default() -> None:
    assert Budget(1.0, 1e-5).relation is Relation.REPLACE_ONE


def test_delta_zero_is_the_default_and_means_pure() -> None:
    assert Budget(0.5) == Budget(0.5, 0.0)
    assert Budget(0.5).pure
    assert not Budget(0.5, 1e-300).pure


def test_a_replaced_record_moves_a_sum_twice_as_far_as_an_added_one() -> None:
    # contributions of norm C: -C becomes +C, or 0 becomes C
    assert Relation.REPLACE_ONE.distance == 2
    assert Relation.ADD_REMOVE.distance == 1


def test_every_relation_has_a_distance_that_was_decided() -> None:
    assert {relation: relation.distance for relation in Relation} == {"replace_one": 2, "add_remove": 1}


@pytest.mark.parametrize("relation", list(Relation))
def test_a_relation_may_be_named(relation: Relation) -> None:
    named = Budget(1.0, relation=str(relation))  # type: ignore[arg-type]
    assert named.relation is relation
    assert named == Budget(1.0, relation=relation)


def test_is_a_frozen_value() -> None:
    budget = Budget(1.0, 1e-5)
    assert hash(budget) == hash(Budget(1.0, 1e-5))
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.epsilon = 100.0  # type: ignore[misc]


def test_the_relation_is_part_of_the_value() -> None:
    assert Budget(1.0, 1e-5) != Budget(1.0, 1e-5, Relation.ADD_REMOVE)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-6, 1.0, 50.0])
@pytest.mark.parametrize("delta", [0.0, 1e-300, 1e-5, 0.999])
def test_the_whole_range_is_accepted(epsilon: float, delta: float) -> None:
    assert (Budget(epsilon, delta).epsilon, Budget(epsilon, delta).delta) == (epsilon, delta)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"epsilon": 0.0}, r"epsilon is 0\.0: it must be a positive finite number; .* smaller is more private\."),
        ({"epsilon": -1.0}, r"epsilon is -1\.0: it must be a positive finite number"),
        ({"epsilon": math.inf}, "epsilon is inf: it must be a positive finite number"),
        ({"epsilon": math.nan}, "epsilon is nan: it must be a positive finite number"),
        ({"epsilon": 1.0, "delta": -1e-9}, r"delta is -1e-09: it must lie in \[0, 1\), well below one over the number"),
        ({"epsilon": 1.0, "delta": 1.0}, r"delta is 1\.0: it must lie in \[0, 1\)"),
        ({"epsilon": 1.0, "delta": math.nan}, r"delta is nan: it must lie in \[0, 1\)"),
        ({"epsilon": 1.0, "delta": math.inf}, r"delta is inf: it must lie in \[0, 1\)"),
        (
            {"epsilon": 1.0, "relation": "bounded"},
            r"relation is 'bounded': it must be one of 'replace_one', 'add_remove'\.",
        ),
        ({"epsilon": 1.0, "relation": None}, "relation is None: it must be one of 'replace_one', 'add_remove'"),
    ],
)
def test_what_cannot_be_promised_is_refused_in_a_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Budget(**given)


def test_the_default_of_delta_needs_two_records() -> None:
    assert Budget.of(1.0, None, "replace_one", 2).delta == 0.25
    assert Budget.of(1.0, 1e-6, "replace_one", 1).delta == 1e-6
    with pytest.raises(ValueError, match=r"delta is None and there is 1 record, or person: .* Give more, or a delta"):
        Budget.of(1.0, None, "replace_one", 1)
