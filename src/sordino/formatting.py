"""Numbers, dates and small cards, for people."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape


def number(value: float) -> str:
    """Six significant digits, and powers of ten where a reader would count zeros."""
    if math.isinf(value):
        return "unbounded"
    if value == int(value) and abs(value) < 10**7:
        return f"{int(value):,}"
    if 1e-4 <= abs(value) < 1e7:
        return f"{value:.6g}"
    mantissa, exponent = f"{value:.3e}".split("e")
    return f"{float(mantissa):g} × 10{_superscript(int(exponent))}"


def instant(created: str) -> str:
    """A certificate's date, for reading."""
    return datetime.fromisoformat(created).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def percent(share: float) -> str:
    """A share as a percentage, rounded so that it never looks smaller than it is."""
    if share == 0:
        return "0 %"
    digits = 1 if share >= 0.01 else 2 if share >= 0.001 else 3
    scale = 10**digits
    # the tolerance keeps 0.1 from becoming 10.1 % because of its last binary digit
    return f"{math.ceil(share * 100 * scale - 1e-6) / scale:g} %"


def card(title: str, lines: Iterable[tuple[str, str]], warning: str = "") -> str:
    """A small box for notebooks: a title, and named lines. Its colours are the notebook's own."""
    alarm = f'<p style="margin:.3em 0"><strong>{escape(warning)}</strong></p>' if warning else ""
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left;vertical-align:top;white-space:nowrap">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in lines
    )
    box = "border:1px solid;border-radius:.4em;padding:.6em 1em;margin:.3em 0;max-width:60em"
    return f'<div style="{box}"><strong>{escape(title)}</strong>{alarm}<table>{rows}</table></div>'


def _superscript(value: int) -> str:
    return str(value).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
