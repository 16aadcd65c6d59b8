"""A page as a parser reads it."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

Attributes = dict[str, str | None]


class _Elements(HTMLParser):
    """Every start tag, and a check that all of them are closed in order."""

    VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, Attributes]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def elements(page: str) -> list[tuple[str, Attributes]]:
    parser = _Elements()
    parser.feed(page)
    assert parser.open == []
    return parser.tags


def text_of(page: str) -> str:
    """What a reader sees, in one line."""
    body = re.sub(r"<style>.*?</style>|<pre.*?</pre>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", body)))
