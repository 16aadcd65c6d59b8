"""`sordino reproduce`: the committed files are what they say, and a run goes on where it was cut off."""

from __future__ import annotations

import json
import warnings

import pytest
from typer.testing import CliRunner

from sordino.cli.app import app
from sordino.papers import page, provenance, reproduction
from sordino.papers.catalogue import PAPERS, PIECES, Piece, find
from sordino.papers.experiment import Cell, Value
from sordino.papers.reproduction import cells_of, check, differences, kept, reproduce

MEASURED = [piece for piece in PIECES if piece.module]


def strict(constant):
    raise AssertionError(f"{constant} is no JSON")


# what stands committed


@pytest.mark.parametrize("piece", MEASURED, ids=lambda piece: piece.module)
def test_a_committed_file_says_where_every_cell_comes_from(piece, tmp_path):
    text = (reproduction.COMMITTED / f"{piece.module}.json").read_text()
    file = json.loads(text, parse_constant=strict)
    assert {"commit", "command", "date", "environment", "seeds", "seconds"} <= set(file)
    assert file["environment"]["packages"]["numpy"]
    assert all(cell["commit"] and cell["date"] and "seconds" in cell for cell in file["cells"].values())
    known, cells = cells_of(file), piece.experiment.cells(tmp_path, quick=False)
    # more may be asked for than has been run; nothing stands there that cannot be run again
    assert set(known) <= set(cells)
    assert piece.experiment.STALE
    assert all(name in known and not cells[name].needs for name in piece.experiment.STALE)
    assert all(need in cells for cell in cells.values() for need in cell.needs)
    values = piece.experiment.values(known)
    assert values
    assert piece.experiment.tables(known).count("|") > 20
    assert piece.experiment.READING.strip()


@pytest.mark.parametrize("piece", MEASURED, ids=lambda piece: piece.module)
def test_a_committed_page_is_of_the_file_beside_it(piece):
    known = cells_of(kept(piece))
    text = (reproduction.COMMITTED / f"{piece.module}.md").read_text()
    values = piece.experiment.values(known)
    for part in (page.compared(values, values), piece.experiment.tables(known), piece.experiment.READING.rstrip()):
        assert part in text


@pytest.mark.parametrize("piece", MEASURED, ids=lambda piece: piece.module)
def test_quick_cells_are_some_of_all(piece, tmp_path):
    quick, every = (piece.experiment.cells(tmp_path, quick=quick) for quick in (True, False))
    assert 0 < len(quick) <= len(every)
    assert set(quick) <= set(every)


@pytest.mark.parametrize("name", ["bank", "adult", "creditcard", "wine", "bike"])
def test_a_data_set_by_name_is_all_of_its_cells(name, tmp_path):
    cells = find("000", "table3")[0].experiment.cells(tmp_path, quick=False)
    assert len(reproduction._asked(cells, [name])) == 11


@pytest.mark.slow
@pytest.mark.parametrize("piece", MEASURED, ids=lambda piece: piece.module)
def test_a_whole_page_is_drawn_from_what_stands_committed(piece, tmp_path):
    file = kept(piece)
    assert file is not None
    known = cells_of(file)
    text = page.write_page(piece, known, known, tmp_path, quick=False).read_text()
    assert "## In full" in text
    assert f"{len(piece.experiment.values(known))} of those are the same to six digits" in text
    html = (tmp_path / f"{piece.module}.html").read_text()
    assert html.count('src="data:image/svg') == html.count("<img") == 2


@pytest.mark.parametrize("piece", MEASURED, ids=lambda piece: piece.module)
def test_a_page_of_one_cell_is_a_page(piece, tmp_path):
    known = cells_of(kept(piece))
    alone = list(known)[len(known) // 2]
    needed = piece.experiment.cells(tmp_path, quick=False)[alone].needs
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = page.write_page(piece, {name: known[name] for name in (*needed, alone)}, known, tmp_path, quick=False)
    assert "cells have been run. Not yet: " in text.read_text()


def test_every_table_and_figure_is_listed_with_a_reason_where_nothing_is_measured():
    assert {piece.paper for piece in PIECES} == set(PAPERS)
    assert all(bool(piece.module) != bool(piece.why_not) for piece in PIECES)
    names = [(piece.paper, name) for piece in PIECES for name in piece.names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("005", None), "there is no paper '005'"),
        (("002", "table9"), "has no 'table9': it has table1"),
        (("004", "table5"), "is not measured here: another protocol"),
    ],
)
def test_what_there_is_not_is_a_sentence(asked, told):
    with pytest.raises(ValueError, match=told):
        find(*asked)


@pytest.mark.parametrize("out", [["-o", "/home/me/x"], ["--out", "/home/me/x"], ["--out=/home/me/x"]])
@pytest.mark.parametrize("data", [["--data", "/home/me/sets"], ["--data=/home/me/sets"]])
def test_a_command_is_kept_without_the_folders_of_this_machine(out, data, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/bin/sordino", "reproduce", "002", *out, *data, "--again"])
    kept_command = provenance.command()
    assert "/home" not in kept_command
    assert kept_command.replace("=", " ") == "sordino reproduce 002 --out OUT --data DATA --again"


# how a run goes


class Made:
    """An experiment of three cells, of which the last needs the first."""

    SEEDS, STALE, READING, WHOLE = "none", ("adult, one", "mnist"), "Numbers.", True

    def __init__(self, one=1.0):
        self.ran, self.breaks, self.one = [], False, one

    def cells(self, folder, quick):
        def run(name, value):
            def go(known):
                if self.breaks and name == "mnist":
                    raise KeyboardInterrupt
                self.ran.append(name)
                return {"mean": value + known.get("adult, one", {"mean": 0.0})["mean"]}

            return go

        last = Cell(run("last", 1.0), ("adult, one",))
        return {"adult, one": Cell(run("one", self.one)), "mnist": Cell(run("mnist", float("inf"))), "last": last}

    def values(self, known):
        return {name: Value(one["mean"], 0.1, 3, 2.0) for name, one in known.items() if name != "mnist"}

    def tables(self, known):
        return "| a |\n|---|\n| whole |\n"

    def draw(self, known, path):
        page.draw_comparison(self.values(known), {}, path)


@pytest.fixture
def made(monkeypatch, tmp_path):
    experiment = Made()
    monkeypatch.setattr(Piece, "experiment", property(lambda self: experiment))
    monkeypatch.setattr(reproduction, "COMMITTED", tmp_path / "committed")
    monkeypatch.setattr(reproduction, "PIECES", (PIECE,))
    monkeypatch.setattr(reproduction.provenance, "commit", lambda: "c0")
    return experiment


PIECE = Piece("002", ("table9",), "made up", "made")


def test_what_was_cut_off_goes_on_and_another_commit_begins_anew(made, tmp_path, monkeypatch):
    out, told = tmp_path / "out", []
    made.breaks = True
    with pytest.raises(KeyboardInterrupt):
        reproduce(PIECE, None, out, tell=told.append)
    made.breaks = False
    written = reproduce(PIECE, None, out, tell=told.append)
    assert made.ran == ["one", "mnist", "last"]
    assert "[1/3] adult, one: there already" in told
    file = json.loads((out / "made.json").read_text(), parse_constant=strict)
    assert cells_of(file)["last"] == {"mean": 2.0}
    assert cells_of(file)["mnist"] == {"mean": float("inf")}
    text = written.read_text()
    assert "| adult, one | 2 |  | 1 | 0.1 | 3 |  |" in text
    assert "whole" in text
    assert "Numbers." in text
    reproduce(PIECE, None, out, again=True, tell=told.append)
    monkeypatch.setattr(reproduction.provenance, "commit", lambda: "c1")
    reproduce(PIECE, None, out, missing=True, tell=told.append)
    assert made.ran == 2 * ["one", "mnist", "last"]
    reproduce(PIECE, None, out, tell=told.append)
    assert made.ran == 3 * ["one", "mnist", "last"]


def test_a_table_that_needs_no_whole_says_what_is_missing(made, tmp_path):
    made.WHOLE = False
    text = reproduce(PIECE, None, tmp_path, only=["LAST"], tell=lambda line: None).read_text()
    assert "2 of 3 cells have been run. Not yet: mnist." in text
    assert "whole" in text


def test_only_some_cells_with_what_they_need(made, tmp_path):
    text = reproduce(PIECE, None, tmp_path, only=["LAST"], tell=lambda line: None).read_text()
    assert made.ran == ["one", "last"]
    assert "whole" not in text
    assert "whole" in reproduce(PIECE, None, tmp_path, only=["mnist"], tell=lambda line: None).read_text()
    assert made.ran == ["one", "last", "mnist"]
    alone = reproduction._asked(dict.fromkeys(("mnist", "mnist, one"), Cell(dict)), ["MNIST"])
    assert list(alone) == ["mnist"]
    with pytest.raises(ValueError, match="no cell has 'iris' in its name: they are called adult, one; mnist; last"):
        reproduce(PIECE, None, tmp_path, only=["iris"])


def test_a_cell_that_an_earlier_program_called_otherwise_is_on_no_page(made, tmp_path):
    reproduce(PIECE, None, tmp_path, tell=lambda line: None)
    file = json.loads((tmp_path / "made.json").read_text())
    file["cells"]["of old"] = file["cells"]["adult, one"]
    (tmp_path / "made.json").write_text(json.dumps(file, indent=1))
    assert "of old" not in reproduce(PIECE, None, tmp_path, tell=lambda line: None).read_text()
    assert "of old" in (tmp_path / "made.json").read_text()


def test_new_values_stand_beside_the_committed_ones(made, tmp_path):
    reproduce(PIECE, None, reproduction.COMMITTED, tell=lambda line: None)
    made.one = 1.9
    text = reproduce(PIECE, None, tmp_path / "out", tell=lambda line: None).read_text()
    assert "| adult, one | 2 | 1 | 1.9 | 0.1 | 3 | 6.4 |" in text
    assert "More than 3 standard errors apart: adult, one; last." in text
    assert "Over the paper's, 2 values are 0.95 to 1.45 times as large" in text


def test_what_stands_nowhere_is_compared_with_nothing():
    new = {"a": Value(1.0, 0.1)}
    assert page.summary(new, {"b": Value(1.0)}).strip() == "1 values, none of which stand committed."
    told = page.summary(new, {"a": Value(9.0, 0.1)})
    assert "1 of which" in told
    assert "apart: a." in told


def test_a_result_of_changed_code_is_noticed(made, tmp_path):
    reproduce(PIECE, None, reproduction.COMMITTED, tell=lambda line: None)
    told = []
    assert check(tmp_path, told.append)
    made.one = 1.001
    assert not check(tmp_path, told.append)
    assert told[-2].startswith("DIFFERS      made: adult, one; mean was 1.0 and is 1.001")
    assert told[-1] == "the same      made: mnist"


def test_of_every_commit_the_quickest_cell_is_made_again(made):
    took = {"adult, one": ("c0", 3.0), "mnist": ("c0", 1.0), "last": ("c1", 0.1), "long": ("c2", 900.0)}
    took |= {"before seconds": ("c3", None), "quick": ("c4", 2.0), "quicker": ("c4", 1.5)}
    file = {"cells": {name: {"commit": commit, "seconds": seconds} for name, (commit, seconds) in took.items()}}
    cells = {name: Cell(dict, ("adult, one",) if name == "last" else ()) for name in took}
    made.STALE = ("adult, one",)
    assert reproduction.checked(PIECE, file, cells) == ["adult, one", "mnist", "quicker"]
    of_networks = Piece("002", ("table9",), "made up", "made", packages=("torch",))
    assert reproduction.checked(of_networks, file, cells) == ["adult, one"]


def test_a_missing_data_set_is_a_sentence_and_no_failure_of_the_check(made, tmp_path, monkeypatch):
    piece = Piece("002", ("table9",), "made up", "made", ("adult",))
    with pytest.raises(FileNotFoundError, match=r"needs adult\.parquet.* `sordino data get adult`"):
        reproduce(piece, tmp_path, tmp_path / "out")
    assert made.ran == []
    reproduce(PIECE, None, reproduction.COMMITTED, tell=lambda line: None)
    monkeypatch.setattr(reproduction, "PIECES", (piece,))
    told = []
    assert check(tmp_path, told.append)
    assert told[0].startswith("not checked   made:")


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ({"a": 1.0, "seconds": 3.0}, {"a": 1.0 + 1e-9, "seconds": 9.0, "new": 1}, 0),
        ({"a": 1.0}, {"a": 1.0 + 1e-5}, 1),
        ({"a": 1.0}, {}, 1),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, 1),
        ({"a": [1, {"b": "inf"}]}, {"a": [1, {"b": 2.0}]}, 1),
        ({"a": None}, {"a": 0.0}, 1),
        ("all", "all", 0),
    ],
)
def test_what_counts_as_a_difference(before, after, count):
    assert len(differences(before, after)) == count


def test_a_file_of_something_else_is_a_sentence_and_stays(made, tmp_path):
    (tmp_path / "made.json").write_text('{"cells": NaN}')
    with pytest.raises(ValueError, match=r"made\.json is no result of this program"):
        reproduce(PIECE, None, tmp_path)
    assert (tmp_path / "made.json").read_text() == '{"cells": NaN}'


# from the command line


def test_the_list_names_every_paper_and_what_is_missing(tmp_path):
    done = CliRunner().invoke(app, ["reproduce", "--data", str(tmp_path)], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert all(title.split(":")[0] in done.output for title in PAPERS.values())
    assert "mnist (missing)" in done.output
    assert "mnist is missing: `sordino data get mnist` (OpenML: mnist_784)." in done.output
    assert "bank is missing: download bank-full.csv (UCI Bank Marketing), then `sordino data get bank" in done.output
    assert "rcv1 is missing: it cannot be built here" in done.output
    assert "cells of" in done.output


def test_a_cell_by_the_command_line(tmp_path):
    asked = ["reproduce", "003", "slopes", "--only", "epsilon 1, logistic, objective perturbation, printed, n = 500"]
    done = CliRunner().invoke(app, [*asked, "--quick", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "Page:" in done.output
    assert "Quick: fewer cells" in (tmp_path / "slopes_003.md").read_text()
    assert json.loads((tmp_path / "slopes_003.json").read_text())["paper"] == "003"
