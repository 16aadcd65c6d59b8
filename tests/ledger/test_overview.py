"""What is shown of a ledger is kept with the head it holds for, and never for another one."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from sordino.budget import Budget, Relation
from sordino.identity import Identity
from sordino.ledger.book import References, Role, State
from sordino.ledger.kept_heads import KeptHead
from sordino.ledger.ledger import Ledger
from sordino.privacy.charges import BudgetExceeded
from sordino.privacy.events import GaussianDP
from sordino.privacy.gaussian_profile import gdp_mu

CAP = Budget(2.0, 1e-6)
REPLACE = Relation.REPLACE_ONE


@pytest.fixture
def ledger(address):
    ledger = Ledger(address)
    ledger.open("survey", CAP, per_year=1.5)
    ledger.open("other", Budget(1.0, 0.0))
    with ledger.reserve("survey", GaussianDP(0.1), REPLACE, "a model", reference="first"):
        pass
    return ledger


def page_of(ledger):
    return KeptHead(ledger.address)._file("page")


def test_it_says_what_the_statements_say_and_what_each_release_costs(ledger):
    shown = ledger.overview()
    assert shown.head == ledger.head()
    assert shown.statements == (ledger.statement("survey"), ledger.statement("other"))
    ((number, cost),) = shown.costs
    assert number == 0
    assert cost == pytest.approx(shown.statements[0].spent, rel=0.01)
    assert Ledger(ledger.address).overview() == shown


def test_what_is_kept_is_not_worked_out_again(ledger, monkeypatch):
    shown = ledger.overview()
    monkeypatch.setattr(Ledger, "_overview", None)
    assert Ledger(ledger.address).overview() == shown


def test_after_an_entry_it_is_worked_out_anew(ledger):
    before = ledger.overview()
    ledger.reserve("survey", GaussianDP(0.2), REPLACE)
    after = Ledger(ledger.address).overview()
    assert after.head != before.head
    assert after.statements[0].spent > before.statements[0].spent
    assert [entry.number for entry in after.statements[0].open] == [1]


def test_in_another_year_and_for_another_signer_too(ledger, monkeypatch):
    before = ledger.overview()
    ((words, *_),) = before.statements[0].this_year
    transaction = type(ledger._store.reading().__enter__())
    monkeypatch.setattr(transaction, "now", lambda self: datetime(2099, 1, 1, tzinfo=UTC))
    ((later, _, spent, _),) = ledger.overview().statements[0].this_year
    assert (words != later, spent) == (True, 0.0)
    monkeypatch.setattr(Ledger, "_signer", property(lambda self: "somebody"))
    assert ledger.overview().signer == "somebody"


def test_a_page_that_was_changed_or_is_another_versions_is_not_believed(ledger):
    shown, file = ledger.overview(), page_of(ledger)
    whole = file.read_bytes()
    for damaged in (
        whole.replace(b'"spent"', b'"spend"'),
        whole[:-20],
        b"",
        b"{}\n{}",
        whole.replace(b"0.1.0", b"0.0.9"),
    ):
        file.write_bytes(damaged)
        assert Ledger(ledger.address).overview() == shown


def test_a_ledger_that_was_cut_is_refused_although_its_page_is_kept(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("survey", CAP)
    ledger.overview()
    shutil.copy(tmp_path / "ledger", tmp_path / "copy")
    ledger.reserve("survey", GaussianDP(0.1), REPLACE)
    for file in tmp_path.glob("ledger*"):
        file.unlink()
    shutil.copy(tmp_path / "copy", tmp_path / "ledger")
    with pytest.raises(ValueError, match="was emptied, cut or exchanged"):
        Ledger(tmp_path / "ledger").overview()


def test_one_that_does_not_exist_keeps_nothing(tmp_path):
    assert Ledger(tmp_path / "none").overview().statements == ()
    assert KeptHead(str(tmp_path / "none"))._file("page").exists() is False


@pytest.mark.parametrize("new", [False, True], ids=["kept", "after an entry"])
def test_showing_loads_no_accountant(tmp_path, new):
    """They take longer to load than everything else together."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("survey", CAP)
    for _ in range(2):
        with ledger.reserve("survey", GaussianDP(0.1), REPLACE):
            pass
    ledger.overview()
    if new:
        ledger.reserve("survey", GaussianDP(0.1), REPLACE)
    program = (
        "import sys; from typer.testing import CliRunner; from sordino.cli.app import app; "
        f"done = CliRunner().invoke(app, ['ledger', 'show', {str(tmp_path / 'ledger')!r}]); "
        "print(done.output, 'scipy' in sys.modules, 'sordino.privacy.filter' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert ("is open" in told) is new
    assert "Spent: epsilon" in told
    assert told.split()[-2:] == ["False", "False"]


def test_showing_reads_no_reference_of_a_kept_book(ledger, monkeypatch):
    """There may be a hundred thousand of them; who reserves again with one is given it all the same."""
    KeptHead(ledger.address).keep(ledger._book())
    with ledger.reserve("survey", GaussianDP(0.1), REPLACE, reference="second"):
        pass
    read = []
    monkeypatch.setattr(References, "_all", lambda self, whole=References._all: read.append(self) or whole(self))
    assert Ledger(ledger.address).overview().statements[0].releases == 2
    assert not read
    for reference, number in (("first", 0), ("second", 1)):
        again = Ledger(ledger.address).reserve("survey", GaussianDP(0.1), REPLACE, reference=reference)
        assert (again.number, again.state, again.is_new) == (number, State.SPENT, False)
    assert read


def forge(kept, name, forged):
    """With a good digest: whoever can write into the folder of heads can make one."""
    first, _, text = kept._file("book").read_bytes().partition(b"\n")
    plain, made_by = json.loads(text), json.loads(first)
    plain["tallies"]["survey"][name] = forged
    altered = json.dumps(plain).encode()
    made_by["book"]["digest"] = hashlib.sha256(altered).hexdigest()
    kept._file("book").write_bytes(json.dumps(made_by).encode() + b"\n" + altered)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(
    ("name", "forged"), [("counted", []), ("made", 0), ("references", "nonsense"), ("references", '{"texts":[]}')]
)
def test_a_forged_book_is_found_out_by_a_check(ledger, name, forged, before):
    """Also by whoever has read the lines `before`, and where further ones follow."""
    kept = KeptHead(ledger.address)
    kept.keep(ledger._book())
    checking = Ledger(ledger.address)
    assert not before or checking.check().reservations == 1
    forge(kept, name, forged)
    ledger.reserve("survey", GaussianDP(0.2), REPLACE)
    with pytest.raises(ValueError, match="was altered"):
        checking.check()
    kept._file("book").unlink()
    assert Ledger(ledger.address).check().reservations == 2


def test_nobody_who_signs_reserves_by_a_forged_book(address, tmp_path):
    ada, eve = (Identity.create(tmp_path / name, name) for name in ("Ada", "Eve"))
    Ledger(address, ada).admit(ada.face, Role.OFFICER, Role.ANALYST)
    Ledger(address, ada).open("survey", CAP)
    event = GaussianDP(0.9 * gdp_mu(CAP.epsilon, CAP.delta))
    with Ledger(address, ada).reserve("survey", event, REPLACE):
        pass
    for identity in (None, eve, ada):
        kept = KeptHead(Ledger(address).address, identity)
        kept.keep(Ledger(address, ada)._book())
        assert KeptHead(kept.address, ada).book() == (None if identity is not ada else kept.book())
        forge(kept, "counted", [])
        assert Ledger(address).statement("survey").spent == 0
        with pytest.raises(BudgetExceeded):
            Ledger(address, ada).reserve("survey", event, REPLACE)
