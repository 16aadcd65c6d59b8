"""Everything here is refused before a record is touched: no owner ever gets to open its records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import owners
from in_the_open import InTheOpen
from owners import take_part
from rehearsal import Rehearsal, together
from sordino.budget import Budget
from sordino.federation.agreement import agree
from sordino.federation.mpyc_engine import MpycAggregation
from sordino.federation.plan import FederationPlan, Owner
from sordino.problem import PersonUnit

PLAN = owners.plan_for(3)


def untouchable():
    raise AssertionError("a record was touched")


def everybody(plans, tolerates=1, identifiers=(None, None, None)):
    """What each member says when all of them try: its sentence, or the agreement."""

    def member(mesh):
        aggregation = MpycAggregation(mesh, tolerates)
        try:
            agreement = agree(plans[mesh.me], aggregation, identifiers[mesh.me])
        except ValueError as error:
            return str(error)
        with pytest.raises(AssertionError, match="a record was touched"):
            take_part(agreement, untouchable)
        return agreement

    meshes = Rehearsal(3, patience=20).meshes()
    try:
        return together([lambda mesh=mesh: member(mesh) for mesh in meshes])
    finally:
        for mesh in meshes:
            mesh.close()


def test_equal_plans_agree_and_toss_the_same_coins():
    agreements = everybody([PLAN] * 3)
    assert len({agreement.coins for agreement in agreements}) == 1
    others = everybody([PLAN] * 3)
    assert others[0].coins != agreements[0].coins


@pytest.mark.parametrize(
    "other",
    [
        replace(PLAN, budget=Budget(2.0, 1e-6)),
        replace(PLAN, schema="with another column"),
        replace(PLAN, problem=replace(PLAN.problem, row_norm=2.0)),
        replace(PLAN, rounding="record"),
    ],
    ids=["budget", "schema", "bounds", "rounding"],
)
def test_whoever_has_another_plan_is_named(other):
    said = everybody([PLAN, other, PLAN])
    assert said[0] == said[2]
    assert said[0].startswith("owner 1 follow another plan")
    assert said[1].startswith("owner 0, owner 2 follow another plan")
    assert "No record was touched" in said[0]


def test_a_threshold_below_the_colluders_is_refused():
    plan = replace(PLAN, colluders=2)
    for sentence in everybody([plan] * 3):
        assert "hides its parts from 1 colluding members, and the plan asks for 2" in sentence


def test_the_wrong_number_of_members_is_refused():
    with pytest.raises(ValueError, match="4 members are connected, but the plan is for 3 owners"):
        agree(PLAN, InTheOpen(4))
    with pytest.raises(ValueError, match="3 members are connected, but the plan is for 3 owners and 3 servers"):
        agree(replace(PLAN, mode="committee"), InTheOpen(3))


def test_a_grid_that_overflows_the_ring_is_refused():
    class Narrow(InTheOpen):
        limit = 1 << 33

    with pytest.raises(ValueError, match="overflow a ring"):
        agree(PLAN, Narrow(3))


def test_a_record_of_two_owners_is_refused_and_only_they_learn_how_many():
    lists = ([f"id {i}" for i in range(10)], [f"id {i}" for i in range(9, 29)], [f"id {i}" for i in range(29, 59)])
    said = everybody([PLAN] * 3, identifiers=lists)
    assert "belong to another owner as well: owner 1 (1)." in said[0]
    assert "belong to another owner as well: owner 0 (1)." in said[1]
    assert "some records belong to two owners, owner 0, owner 1, who know how many" in said[2]
    for sentence in said:
        assert "id 9" not in sentence
        assert "No record was used" in sentence


def test_disjoint_identifiers_agree():
    lists = (range(10), range(10, 30), range(30, 60))
    assert all(not isinstance(said, str) for said in everybody([PLAN] * 3, identifiers=lists))


def test_owners_without_identifiers_are_not_compared():
    assert all(not isinstance(said, str) for said in everybody([PLAN] * 3, identifiers=(range(10), None, None)))


PERSONS = FederationPlan(
    tuple(Owner(f"owner {i}", count) for i, count in enumerate((4, 7, 9))),
    replace(PLAN.problem, records=20, person=PersonUnit(3)),
    PLAN.budget,
    PLAN.method,
    rows=PLAN.rows,
)


def test_a_person_of_two_owners_is_refused_and_only_they_learn_how_many():
    """Everybody has several records of each, and owners 0 and 1 share one person."""
    lists = [np.repeat(some, 3).tolist() for some in (range(4), range(3, 10), range(20, 29))]
    said = everybody([PERSONS] * 3, identifiers=lists)
    assert "some persons here belong to another owner as well: owner 1 (1)." in said[0]
    assert "some persons here belong to another owner as well: owner 0 (1)." in said[1]
    assert "some persons belong to two owners, owner 0, owner 1, who know how many" in said[2]
    for sentence in said:
        assert "agree on who keeps which person. No record was used" in sentence


def test_owners_who_share_nobody_agree_whatever_number_of_records_each_has():
    lists = [np.repeat(some, 3).tolist() for some in (range(4), range(4, 11), range(20, 29))]
    assert all(not isinstance(said, str) for said in everybody([PERSONS] * 3, identifiers=lists))


def test_an_owner_without_identifiers_is_named():
    for said in everybody([PERSONS] * 3, identifiers=(range(4), None, range(20, 29))):
        assert said.startswith("owner 1 bring no identifiers: a person whose records are at several owners")
        assert said.endswith("No record was touched.")


def test_sums_in_the_open_need_bits_for_joint_noise():
    from sordino.federation.joint import JointSampler

    with pytest.raises(ValueError, match="joint noise needs random bits"):
        InTheOpen(3).open_sum(np.zeros((3, 2), dtype=np.int64), JointSampler(1))
