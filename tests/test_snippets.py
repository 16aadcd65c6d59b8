"""Every Python snippet of the README and of the documentation runs as it is written, page by page."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SLOW = ("cluster.md",)


def snippets(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.S | re.M)


def survey(folder: Path) -> None:
    """What pages call survey/: a folder of records in files."""
    rng = np.random.default_rng(1)
    (folder / "survey").mkdir()
    for part in range(2):
        numbers = {name: rng.uniform(-1, 1, 400) for name in ("age", "hours", "education")}
        table = pa.table({**numbers, "income": np.where(numbers["age"] > 0, "high", "low")})
        pa.parquet.write_table(table, folder / "survey" / f"{part}.parquet")


@pytest.mark.filterwarnings("ignore::sordino.PrivacyWarning")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in SLOW else [])
        for page in PAGES
        if snippets(page)
    ],
)
def test_the_snippets_of_a_page_run_in_their_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    survey(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, snippet in enumerate(snippets(page), start=1):
        exec(compile(snippet, f"{page.name}, snippet {number}", "exec"), names)


@pytest.mark.parametrize(("example", "place"), [("quickstart.py", 0), ("dataframe.py", 1)])
def test_the_readme_shows_the_examples(example: str, place: int) -> None:
    shown, written = snippets(ROOT / "README.md")[place], (ROOT / "examples" / example).read_text()
    assert ast.dump(ast.parse(shown)) == ast.dump(ast.parse(written))
