"""`sordino federation` up to the run itself: identities, plans, acceptance, and what is refused with a sentence."""

from __future__ import annotations

import json
import stat
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from sordino.cli.app import app
from sordino.federation.member_folder import FILES, MemberFolder
from sordino.federation.signed_plan import SignedPlan
from sordino.problem import PersonUnit
from three_owners import NAMES, SCHEMA, write_members

FAST = ("--method", "noisy-gradient-descent")


def sordino(*arguments, typed=""):
    command = [] if arguments[0] == "identity" else ["federation"]
    result = CliRunner().invoke(app, [*command, *map(str, arguments)], input=typed)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def identity(folder, name, number, *options):
    result = sordino("identity", name, "--number", number, "--folder", folder / name, *options)
    assert result.exit_code == 0, result.stderr
    return result


def init(folder, *options, author="north", epsilon=2):
    (folder / "schema.toml").write_text(SCHEMA)
    common = ("--schema", folder / "schema.toml", "--epsilon", epsilon, "--folder", folder / author)
    return sordino("init", folder / "members.toml", *common, "--out", folder / "plan.json", *(*FAST, *options))


@pytest.fixture
def folder(tmp_path):
    """Three identities and the list of members."""
    for number, name in enumerate(NAMES, start=1):
        identity(tmp_path, name, number)
    write_members(tmp_path)
    return tmp_path


def test_from_identities_to_accepted_plans(folder):
    written = init(folder, "--steps", 5, "--delta", 1e-5)
    assert written.exit_code == 0, written.stderr
    signed_plan = SignedPlan.load(folder / "plan.json")
    assert signed_plan.plan.planned.steps == 5
    assert signed_plan.plan.problem.records == 150
    for name in NAMES:
        joined = sordino("join", folder / "plan.json", "--folder", folder / name, "--accept", signed_plan.digest)
        assert joined.exit_code == 0, joined.stderr
        assert f"Hash:  {signed_plan.digest}" in joined.stdout
        assert "age = { low = 20.0, high = 80.0 }" in joined.stdout
        assert MemberFolder.load(folder / name).name == name
    told = sordino("status", "--folder", folder / "south")
    assert "south: not begun" in told.stdout
    assert "Sums opened: 0 of 5" in told.stdout
    assert "epsilon 0," in told.stdout


def test_a_plan_for_persons_is_shown_as_one(folder):
    written = init(folder, "--steps", 5, "--delta", 1e-5, "--person", "id", "--per-person", 3)
    assert written.exit_code == 0, written.stderr
    signed_plan = SignedPlan.load(folder / "plan.json")
    assert signed_plan.plan.problem.person == PersonUnit(3)
    assert signed_plan.identifiers == "id"
    assert "persons of all owners" in written.stdout
    assert "no person has records at two owners" in written.stdout
    with pytest.raises(ValueError, match="names no column that says whose a record is"):
        replace(signed_plan, identifiers="")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--person", "id", "--identifiers", "id"), "--identifiers and --person were given"),
        (("--per-person", 3), "name them by --person"),
        (("--person", "age"), "is used by the model at once"),
        (("--person", "id", "--contribution", "sum"), "typical_records is None"),
        (("--person", "id", "--contribution", "median"), "it must be 'mean', 'capped' or 'sum'"),
    ],
    ids=str,
)
def test_plans_for_persons_that_make_no_sense(folder, options, words):
    written = init(folder, "--delta", 1e-5, *options)
    assert written.exit_code != 0
    assert words in " ".join(written.stderr.split())


def test_a_key_is_its_owners_alone(folder):
    assert stat.S_IMODE((folder / "north" / "key.pem").stat().st_mode) == 0o600
    again = sordino("identity", "north", "--number", 1, "--folder", folder / "north")
    assert again.exit_code == 2
    assert "exists already, and a key that is lost cannot be replaced" in again.stderr


def test_a_plan_is_accepted_by_its_hash_only(folder):
    assert init(folder).exit_code == 0
    digest = SignedPlan.load(folder / "plan.json").digest
    join = ("join", folder / "plan.json", "--folder", folder / "east")
    for wrong in ("f" * 64, digest[:7]):
        refused = sordino(*join, "--accept", wrong)
        assert refused.exit_code == 2
        assert "the plan was not accepted" in refused.stderr
    assert not (folder / "east" / "acceptance.json").exists()
    assert sordino(*join, typed=digest[:8] + "\n").exit_code == 0
    assert (folder / "east" / "acceptance.json").exists()


def altered(folder, change):
    content = json.loads((folder / "plan.json").read_text())
    change(content["body"])
    (folder / "plan.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda body: body.update(identifiers="id"), "it is not what north signed"),
        (lambda body: body["members"][1].update(address="127.0.0.1:9"), "it is not what north signed"),
        (lambda body: body["plan"]["plan"]["budget"].update(epsilon=9.0), "plans other numbers"),
        (lambda body: body.update(schema=body["schema"].replace("80.0", "90.0")), "made for another schema"),
        (lambda body: body.update(planned="0" * 64), "let all members install the same versions"),
        (lambda body: body.pop("members"), "this plan is incomplete"),
    ],
)
def test_an_altered_plan_is_not_shown(folder, change, sentence):
    assert init(folder).exit_code == 0
    altered(folder, change)
    refused = sordino("join", folder / "plan.json", "--folder", folder / "east", "--accept", "0" * 64)
    assert refused.exit_code == 2
    assert sentence in refused.stderr


def edit(folder, old, new):
    path = folder / "members.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--colluders", 3), "colluders is 3 of 3 owners: distributed noise protects against"),
        (("--noise", "joint", "--colluders", 2), "at most 1"),
        (("--noise", "nobody"), "mode is 'nobody'"),
        (("--noise", "committee"), "3 members are listed, and committee noise of 3 owners needs 6"),
        (("--method", "output-perturbation"), "OutputPerturbation asks the records for more"),
        (("--delta", 0), "needs delta > 0"),
        (("--identifiers", "age"), "'age' identifies records and is used by the model at once"),
        (("--row-norm", -1), "row_norm is -1"),
        (("--steps", 0), "steps is 0"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_not_written(folder, options, sentence):
    refused = init(folder, *options)
    assert refused.exit_code == 2
    assert sentence in refused.stderr
    assert not (folder / "plan.json").exists()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("records = 40", "records = 0", "south has 0 records"),
        ("records = 40", "records = 4.5", "a whole number is needed"),
        ("127.0.0.1:", "127.0.0.1", "is not host:port"),
        ('name = "south"', 'name = "north"', "every owner needs a name of its own"),
        ('name = "south"', 'name = "member 9"', "which would be taken for a number in the list"),
        ("south/certificate.pem", "east/certificate.pem", "does not say that it is number 2"),
        ("south/certificate.pem", "members.toml", "not a certificate in PEM form"),
        ("south/certificate.pem", "west/certificate.pem", "No such file"),
        ("[[owner]]", "[[helper]]", "must hold [[owner]] tables"),
    ],
)
def test_a_list_of_members_that_does_not_fit(folder, old, new, sentence):
    edit(folder, old, new)
    refused = init(folder)
    assert refused.exit_code == 2
    assert sentence in refused.stderr
    assert not (folder / "plan.json").exists()


def test_sums_that_overflow_the_ring(folder):
    edit(folder, "records = 40", "records = 400000000000")
    refused = init(folder, "--steps", 1, "--delta", 1e-5, epsilon=8)
    assert refused.exit_code == 2
    assert "overflow a ring" in refused.stderr


@pytest.mark.parametrize(("count", "noise"), [(1, "distributed"), (2, "joint")])
def test_too_few_owners(folder, count, noise):
    write_members(folder, NAMES[:count], (60, 40)[:count])
    refused = init(folder, "--noise", noise)
    assert refused.exit_code == 2
    assert f"{count} owners: {noise} noise needs at least {count + 1}" in refused.stderr


def test_whoever_is_not_in_the_plan_cannot_join_it(folder):
    assert init(folder).exit_code == 0
    identity(folder, "west", 2)
    digest = SignedPlan.load(folder / "plan.json").digest
    refused = sordino("join", folder / "plan.json", "--folder", folder / "west", "--accept", digest)
    assert refused.exit_code == 2
    assert "is in no place of this plan; it lists north" in refused.stderr


def test_a_name_does_not_write_over_the_plan_it_stands_in(folder):
    edit(folder, 'name = "south"', 'name = "so\\u001b[2Juth\\u0007"')
    made = init(folder)
    assert made.exit_code == 0
    assert not set(made.stdout) & {"\x1b", "\x07"}
    assert "[2Juth" in made.stdout


def test_only_a_member_proposes(folder):
    identity(folder, "west", 2)
    refused = init(folder, author="west")
    assert refused.exit_code == 2
    assert "is in no place of this plan" in refused.stderr


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda key: key.unlink(), "key.pem does not exist: sordino identity makes"),
        (lambda key: key.chmod(0o644), "key.pem can be read by others (mode 644)"),
        (lambda key: key.write_text("nonsense"), "is not a private key"),
    ],
)
def test_a_key_that_is_missing_open_or_damaged(folder, damage, sentence):
    damage(folder / "north" / "key.pem")
    for refused in (init(folder), sordino("status", "--folder", folder / "north")):
        assert refused.exit_code == 2
        assert sentence in refused.stderr


def test_nothing_runs_without_an_accepted_plan(folder):
    refused = sordino("run", folder / "records.csv", "--folder", folder / "north")
    assert refused.exit_code == 2
    assert "holds no accepted plan: sordino federation join" in refused.stderr


def test_a_plan_put_in_the_place_of_the_accepted_one_is_noticed(folder):
    assert init(folder, "--steps", 5).exit_code == 0
    digest = SignedPlan.load(folder / "plan.json").digest
    assert sordino("join", folder / "plan.json", "--folder", folder / "east", "--accept", digest).exit_code == 0
    assert init(folder, "--steps", 6).exit_code == 0
    (folder / "east" / "plan.json").write_text((folder / "plan.json").read_text())
    refused = sordino("run", folder / "records.csv", "--folder", folder / "east")
    assert refused.exit_code == 2
    assert "is not the plan that was accepted here" in refused.stderr


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_plan_takes_the_place_of_nothing_else(folder):
    (folder / "schema.toml").write_text(SCHEMA)
    before = contents(folder)
    for name in ("members.toml", "schema.toml", "north/key.pem", "north/certificate.pem", "north"):
        assert init(folder, "--out", folder / name).exit_code == 2
        assert contents(folder) == before


def test_a_run_takes_the_place_of_nothing_in_the_folder(folder):
    assert init(folder).exit_code == 0
    home = folder / "north"
    digest = SignedPlan.load(folder / "plan.json").digest
    assert sordino("join", folder / "plan.json", "--folder", home, "--accept", digest).exit_code == 0
    (folder / "records.csv").write_text("age,member,income\n30,yes,low\n")
    before = contents(folder)
    for name in FILES:
        for option in ("--out", "--certificate"):
            refused = sordino("run", folder / "records.csv", "--folder", home, option, home / name)
            assert refused.exit_code == 2
            assert contents(folder) == before


def test_a_run_does_not_replace_its_records(folder):
    assert init(folder).exit_code == 0
    (folder / "records.csv").write_text("age,member,income\n30,yes,low\n")
    before = contents(folder)
    for option in ("--out", "--certificate"):
        refused = sordino(
            "run", folder / "records.csv", "--folder", folder / "north", option, folder / "north" / ".." / "records.csv"
        )
        assert refused.exit_code == 2
        assert "records.csv exists and is not" in refused.stderr
    assert contents(folder) == before
