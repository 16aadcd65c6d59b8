"""The page as a browser shows it: nothing wrong for a screen reader, nothing loaded, nothing wider than a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from certificates import certificate_of
from sordino import sentences
from sordino.certificate import verify
from sordino.privacy.randomness import SEEDED
from sordino.reporting import Section, Table
from sordino.reporting.figures import Tradeoff, tradeoff_figure
from sordino.reporting.page import Page, render

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with every part there is, and one of a model that is not private."""
    folder = tmp_path_factory.mktemp("pages")
    figure = tradeoff_figure(Tradeoff("Accuracy", {0.1: (0.6, 0.7), 1.0: (0.7, 0.72)}, {"plain": 0.75}), "A caption.")
    names = ("a_feature_with_a_very_long_name_that_has_no_space_in_it_at_all", "age")
    table = Table("Shares", ("feature", "value", "where"), tuple((name, "0.5", "a " * 40) for name in names), (1,))
    facts = Table("The ledger", ("", ""), (("head of the ledger", "0123456789abcdef" * 4),))
    section = Section("Usefulness", ("A paragraph.",), (figure,), (table, facts), "A warning.")
    certificate = certificate_of(notes=(sentences.WENT_ON(times="1 time"),))
    for name, one in (("whole", certificate), ("seeded", replace(certificate, randomness=SEEDED))):
        page = Page("A title", one, verify(one), (section,), "A summary.", "ab" * 32)
        (folder / f"{name}.html").write_text(render(page), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["whole", "seeded"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_a_screen_reader_and_a_narrow_screen_find_nothing_wrong(
    browser: Any, folder: Path, name: str, scheme: str, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, asked, complaints = context.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto((folder / f"{name}.html").as_uri())
    assert asked == [(folder / f"{name}.html").as_uri()]
    assert complaints == []
    # tables scroll inside the page, and the page itself does not
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    context.close()


def test_the_check_for_screen_readers_can_fail(browser: Any, folder: Path) -> None:
    page = browser.new_page()
    page.goto((folder / "whole.html").as_uri())
    page.evaluate("document.documentElement.removeAttribute('lang')")
    assert Axe().run(page).violations_count == 1
    page.close()


def test_it_prints(browser: Any, folder: Path) -> None:
    page = browser.new_page()
    page.goto((folder / "whole.html").as_uri())
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("details").is_hidden()
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.close()


def test_the_certificate_can_be_saved_from_it(browser: Any, folder: Path) -> None:
    page = browser.new_page()
    page.goto((folder / "whole.html").as_uri())
    with page.expect_download() as saved:
        page.get_by_text("save the certificate").click()
    assert Path(saved.value.path()).read_text().startswith('{\n "format": "sordino certificate"')
    page.close()
