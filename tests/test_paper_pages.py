"""docs/papers: what a page names exists, and what it offers can be made."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import sordino
from sordino import domains, losses, methods, penalties
from sordino.methods import METHODS

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "papers").glob("*.md"))
KNOWN = {name: getattr(room, name) for room in (penalties, losses, domains, methods, sordino) for name in dir(room)}


def named(page):
    return re.findall(r"`([^`\n]+)`", page.read_text())


def test_there_is_a_page_per_paper_and_the_readme_leads_to_it():
    assert [page.name for page in PAGES] == [f"00{k}.md" for k in range(5)]
    for page in PAGES:
        assert f"(docs/papers/{page.name})" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)]+)\)", page.read_text())
    assert links
    for link in links:
        assert (page.parent / link).resolve().is_file(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_is_named_exists(page):
    for name in named(page):
        if "/" in name:
            assert (ROOT / name).exists(), name
        elif name.startswith("sordino."):
            room, _, last = name.rpartition(".")
            try:
                importlib.import_module(name)
            except ModuleNotFoundError:
                assert hasattr(importlib.import_module(room), last), name
        else:
            assert name.split("(")[0] in KNOWN, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_settings_are_settings_of_the_method(page):
    offered = [name for name in named(page) if "(" in name]
    assert offered
    for text in offered:
        # the pages are ours, and every name in the text is looked up in the library
        assert isinstance(eval(text, {"__builtins__": {}}, KNOWN), tuple(METHODS.values())), text
