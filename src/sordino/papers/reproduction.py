"""Runs the cells of a table or figure one by one, keeps each as soon as it is there, and writes the page.

    OUT/<module>.json     the cells, each with its commit, day and seconds; and command, versions and seeds
    OUT/<module>.md, .html, .svg, -compared.svg

A cell that is in the file already, of the same commit and as long, is not run again: whoever is interrupted goes on.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sordino import outputs, wire
from sordino.papers import provenance
from sordino.papers.catalogue import PIECES, Piece
from sordino.papers.experiment import Cell
from sordino.papers.page import write_page

COMMITTED = Path(__file__).parent / "results"
KEPT = outputs.Kind("results of a paper's table", rb'\{\s*"paper": ')
_MOST_SECONDS = 15.0
"""Of a cell that is checked because of its commit."""
_SAME = 1e-6
"""Relative: machines differ in the last digits of sums."""

Plain = dict[str, Any]


def kept(piece: Piece, folder: Path | None = None) -> Plain | None:
    """A result file, the committed one if no folder is named; None where there is none."""
    path = (folder or COMMITTED) / f"{piece.module}.json"
    if not path.exists():
        return None
    try:
        found: Plain = json.loads(path.read_text(), parse_constant=_refuse)
        if not (isinstance(found["cells"], dict) and all("value" in cell for cell in found["cells"].values())):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is no result of this program: move it away, and it is made anew.") from None
    return found


def cells_of(file: Plain | None) -> dict[str, Any]:
    """Only what was measured."""
    return {name: wire.from_plain(cell["value"], {}) for name, cell in (file or {"cells": {}})["cells"].items()}


def reproduce(
    piece: Piece,
    folder: Path | None,
    out: Path,
    quick: bool = False,
    only: Sequence[str] = (),
    again: bool = False,
    missing: bool = False,
    tell: Callable[[str], None] = print,
) -> Path:
    """The page, in Markdown; beside it the same in HTML, the figures and the numbers.

    `only`: cells of these names, or with these in their names, and whatever they need. `again` runs what is there
    already; `missing` leaves it as it is, whichever commit it is of.
    """
    known_before = cells_of(kept(piece))
    cells = _asked(piece.experiment.cells(require_data(piece, folder), quick), only)
    out.mkdir(parents=True, exist_ok=True)
    target, now = out / f"{piece.module}.json", provenance.commit()
    file = kept(piece, out) or {"cells": {}}
    file = _headed(piece, file)
    done = {
        name: cell
        for name, cell in file["cells"].items()
        if not again and cell["quick"] == quick and (missing or cell["commit"] == now)
    }
    known = cells_of({"cells": done})
    for number, (name, cell) in enumerate(cells.items(), start=1):
        if name in done:
            tell(f"[{number}/{len(cells)}] {name}: there already")
            continue
        begun = time.perf_counter()
        value = wire.to_plain(cell.run({need: known[need] for need in cell.needs}))
        seconds = round(time.perf_counter() - begun, 3)
        known[name] = wire.from_plain(value, {})
        file["cells"][name] = {
            "commit": now,
            "date": provenance.today(),
            "quick": quick,
            "seconds": seconds,
            "value": value,
        }
        file["seconds"] = round(sum(one["seconds"] or 0.0 for one in file["cells"].values()), 3)
        outputs.write(target, (json.dumps(file, indent=1, allow_nan=False) + "\n").encode(), KEPT)
        tell(f"[{number}/{len(cells)}] {name}: {seconds:.1f} s")
    # whatever else is in the file stands on its page too, but for cells that an earlier program called otherwise
    named = piece.experiment.cells(Path(), quick=False)
    shown = {name: cell for name, cell in file["cells"].items() if cell["quick"] == quick and name in named}
    return write_page(piece, cells_of({"cells": shown}), known_before, out, quick)


def require_data(piece: Piece, folder: Path | None) -> Path:
    """The folder, if it holds what is needed."""
    from sordino.datasets.sources import missing

    where = Path() if folder is None else folder
    lacking = [(name, file) for name in piece.data for file in missing(name, where)]
    if lacking:
        name, file = lacking[0]
        raise FileNotFoundError(
            f"{piece.names[0]} of paper {piece.paper} needs {file}, which is not in {where}: name the folder with "
            f"--data or SORDINO_DATA, or build it with `sordino data get {name}` (`sordino data list` says from what)."
        )
    return where


def check(folder: Path | None, tell: Callable[[str], None] = print) -> bool:
    """Whether some cells of every committed file, made again, are what stands there.

    What needs absent data is named.
    """
    holds = True
    for piece in PIECES:
        file = kept(piece) if piece.module else None
        if file is None:
            continue
        try:
            cells = piece.experiment.cells(require_data(piece, folder), quick=False)
        except FileNotFoundError as error:
            tell(f"not checked   {piece.module}: {error}")
            continue
        for name in checked(piece, file, cells):
            value = wire.to_plain(cells[name].run({}))
            differ = differences(file["cells"][name]["value"], value) if name in file["cells"] else ["it is not there"]
            holds = holds and not differ
            tell(f"{'DIFFERS' if differ else 'the same'}      {piece.module}: {name}{'; '.join(['', *differ[:3]])}")
    return holds


def checked(piece: Piece, file: Plain, cells: Mapping[str, Cell]) -> list[str]:
    """`STALE`, and of every commit the cell that took least: what changed since the oldest shows in one of them.

    Not of networks, whose last digits are the machine's.
    """
    least: dict[str, tuple[float, str]] = {}
    for name, kept_cell in file["cells"].items():
        seconds = kept_cell["seconds"]
        if "torch" in piece.packages or seconds is None or seconds > _MOST_SECONDS or cells[name].needs:
            continue
        least[kept_cell["commit"]] = min((seconds, name), least.get(kept_cell["commit"], (seconds, name)))
    return list(dict.fromkeys((*piece.experiment.STALE, *(name for _, name in least.values()))))


def differences(before: Any, after: Any, where: str = "") -> list[str]:
    """Where two plain values differ by more than rounding. Seconds always do."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        # what is measured beside it since then is no difference
        return [
            line
            for key in before
            if "seconds" not in key
            for line in (
                differences(before[key], after[key], f"{where} {key}".strip()) if key in after else [f"{key} is gone"]
            )
        ]
    if isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [line for place, (b, a) in pairs for line in differences(b, a, f"{where}[{place}]")]
    if isinstance(before, float | int) and isinstance(after, float | int):
        same = math.isclose(before, after, rel_tol=_SAME, abs_tol=1e-12)
    else:
        same = before == after
    return [] if same else [f"{where or 'it'} was {wire.shown(before)} and is {wire.shown(after)}"]


def _asked(cells: dict[str, Cell], only: Sequence[str]) -> dict[str, Cell]:
    if not only:
        return cells
    asked = {name for word in only for name in _meant(word.lower(), cells)}
    if not asked:
        raise ValueError(f"no cell has {' or '.join(map(repr, only))} in its name: they are called {_some(cells)}.")
    needed = asked | {need for name in asked for need in cells[name].needs}
    return {name: cell for name, cell in cells.items() if name in needed}


def _meant(word: str, cells: Iterable[str]) -> list[str]:
    """The cell of this name, or those that have it in theirs."""
    return [name for name in cells if name.lower() == word] or [name for name in cells if word in name.lower()]


def _some(names: Iterable[str]) -> str:
    first = list(names)
    return "; ".join(first[:3]) + (f"; and {len(first) - 3} more" if len(first) > 3 else "")


def _headed(piece: Piece, file: Plain) -> Plain:
    head = {"paper": piece.paper, "tables and figures": list(piece.names), **provenance.provenance(*piece.packages)}
    return {**head, "seeds": piece.experiment.SEEDS, "seconds": 0.0, "cells": file["cells"]}


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
