"""The map of the code names what there is, in the order in which rooms may import each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "sordino"
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def rows(heading: str) -> list[list[str]]:
    table = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()[2:]]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_every_room_stands_above_those_that_it_may_import() -> None:
    (contract,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors = [re.split(r" [|:] ", layer) for layer in reversed(contract["layers"])]
    floor = {room: number for number, layer in enumerate(floors) for room in layer}
    named = [room.rstrip("/") for cells in rows("room") for room in quoted(cells[0])]
    assert sorted(named) == sorted(floor)
    highest = [max(floor[room.rstrip("/")] for room in quoted(cells[0])) for cells in rows("room")]
    lowest = [min(floor[room.rstrip("/")] for room in quoted(cells[0])) for cells in rows("room")]
    assert all(above > below for below, above in zip(highest, lowest[1:], strict=False))


@pytest.mark.parametrize("cells", [row for row in rows("noun") if quoted(row[1])], ids=lambda row: row[0])
def test_every_noun_is_defined_where_the_map_has_it(cells: list[str]) -> None:
    files: list[Path] = []
    for name in quoted(cells[1]):
        beside = [SOURCE / name, *(file.parent / name for file in files)]
        files += [next(path for path in beside if path.exists())]
    text = "\n".join(path.read_text() for file in files for path in ([file] if file.is_file() else file.rglob("*.py")))
    for noun in re.findall(r"`(\w+)`", cells[0]):
        assert re.search(rf"^(class|def) {noun}\b|^{noun}\b.*=", text, flags=re.M), noun
