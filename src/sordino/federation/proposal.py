"""A plan from public facts: the list of members, the schema, the budget and a method."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sordino.budget import Budget, Relation
from sordino.federation.plan import FederationPlan, Owner, require_releases
from sordino.federation.signed_plan import Member, SignedPlan
from sordino.federation.trust import Mode
from sordino.identity import Face
from sordino.linear_task import LinearTask
from sordino.methods.protocol import AnyMethod
from sordino.problem import PersonUnit
from sordino.tabular.schema import Schema

_FORM = 'name = "north", address = "10.0.0.1:9000", records = 400, certificate = "north.pem"'


@dataclass(frozen=True)
class Listed:
    """A member as the list has it; a server has no records."""

    member: Member
    records: int | None


def read_members(path: Path) -> tuple[Listed, ...]:
    """The [[owner]] and [[server]] tables of a TOML file, owners first. Certificates are files beside it."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a list of members in TOML: {error}.") from None
    strange = data.keys() - {"owner", "server"}
    if strange or not isinstance(data.get("owner"), list):
        raise ValueError(
            f"{path} must hold [[owner]] tables, each with {_FORM}, and [[server]] tables for a committee."
        )
    owners = [_listed(path, entry, {"name", "address", "records", "certificate"}) for entry in data["owner"]]
    servers = [_listed(path, entry, {"name", "address", "certificate"}) for entry in data.get("server", [])]
    return (*owners, *servers)


def propose(
    listed: tuple[Listed, ...],
    schema: Schema,
    budget: tuple[float, float | None, Relation],
    method: AnyMethod,
    row_norm: float | None = None,
    l2: float = 0.0,
    mode: Mode = "distributed",
    colluders: int = 1,
    identifiers: str = "",
    person: PersonUnit | None = None,
) -> SignedPlan:
    """The signed plan, not yet signed. `budget` is epsilon, delta (1/n^2 if None) and the relation.

    With `person` the members' numbers are of persons, and `identifiers` names the column that says whose a record is.
    """
    owners = tuple(Owner(one.member.name, one.records) for one in listed if one.records is not None)
    for owner in owners:
        if owner.records < 1:
            raise ValueError(f"{owner.name} has {owner.records} records: an owner without records has no part.")
    n = sum(owner.records for owner in owners)
    epsilon, delta, relation = budget
    if identifiers in (*schema.columns, schema.target.column):
        raise ValueError(
            f"{identifiers!r} identifies records and is used by the model at once: take it off the schema."
        )
    task = LinearTask.of_schema(schema, row_norm, l2)
    plan = FederationPlan(
        owners=owners,
        problem=task.problem(n, schema.width, person),
        budget=Budget.of(epsilon, delta, relation, n),
        method=method,
        mode=mode,
        colluders=colluders,
        rows=task.rows,
        schema=schema.digest,
    )
    signed_plan = SignedPlan(plan, schema, tuple(one.member for one in listed), identifiers)
    signed_plan.require_valid_certificates()
    return signed_plan


def method_with(method: Any, steps: int | None) -> Any:
    """Settings that owners can follow: they see every step, so the release must count all of them."""
    from sordino.methods import NoisyGradientDescent, NoisySGD

    if isinstance(method, str):
        method = NoisySGD(release="last")
    require_releases(method)
    if isinstance(method, NoisyGradientDescent) and method.release == "last":
        method = replace(method, release="average")
    return method if steps is None else replace(method, steps=steps)


def _listed(path: Path, entry: Any, keys: set[str]) -> Listed:
    if not isinstance(entry, dict) or entry.keys() != keys:
        given = ", ".join(sorted(entry)) if isinstance(entry, dict) else repr(entry)
        raise ValueError(f"a member in {path} has {given}: it needs {', '.join(sorted(keys))}, as in {_FORM}.")
    name, address, records = str(entry["name"]), str(entry["address"]), entry.get("records")
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"the address {address!r} of {name} is not host:port.")
    if records is not None and (isinstance(records, bool) or not isinstance(records, int)):
        raise ValueError(f"the records of {name} are {records!r}: a whole number is needed.")
    file = path.parent / str(entry["certificate"])
    try:
        face = Face(file.read_text())
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: {error}") from None
    return Listed(Member(name, address, face), records)
