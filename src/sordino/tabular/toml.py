"""A schema as TOML text.

ignore = ["id"]

[target]
column = "income"
classes = ["<=50K", ">50K"]                # or: low = 0, high = 200000

[columns]
age = { low = 17, high = 90 }              # missing = 40, "middle" or "indicator" accepts missing values
education = { values = ["School", "University"], other = true }
satisfied = { values = ["no", "partly", "yes"], ordered = true }
since = { low = 2015-01-01, high = 2024-12-31 }
member = { boolean = true }
village = { discover = 20 }                # values that nobody could list: found while a model is fitted, for a price
weight = { low = 0, high = 300, typical = 75 }     # what most are near is encoded as 0

[sources]                                  # where they are from, for reports
age = "the age limits of the register"

[curves]                                   # numbers, dates and ordered categories have curves instead of slopes
pieces = 16
interactions = [["age", "since"]]
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from sordino import wire
from sordino.tabular.columns import (
    Boolean,
    Category,
    ClassTarget,
    Column,
    Date,
    Number,
    NumberTarget,
    Ordinal,
    Target,
)
from sordino.tabular.curves import Curves

_ADVICE = """\
# What each column may hold, written down without looking at the records. Keep one line per column:
#   a number, clipped to its range        { low = 17, high = 90 }
#   a date                                { low = 2015-01-01, high = 2024-12-31 }
#   a category with its public values     { values = ["a", "b"] }              other = true takes all other values
#   the same, in their order              { values = ["a", "b"], ordered = true }
#   true or false                         { boolean = true }
#   a category nobody can list            { discover = 20 }      up to 20 values are found with noise, at a price
# A public typical = .. (a number, date or value that most are near) is encoded as 0, which helps for nothing.
# Missing values are refused, unless a column has missing = "indicator" (a column of its own), "middle", or a value
# that stands in. Free text has no place in these models: name its column in `ignore`.
"""

_SOURCES = "[sources]             # where ranges and values are from, for the report: a code book, a law, an assumption"

_BLANKS = {
    "number": '{ low = "?", high = "?" }',
    "date": '{ low = "?", high = "?" }',
    "boolean": "{ boolean = true }",
    "text": "{ values = [] }",
    "unknown": "{ }",
}
"""What there is to fill in, by the kind of a column."""


def write_sketch(kinds: Mapping[str, str], target: str | None) -> str:
    """A schema to fill in, from the names of columns and the kinds of their types; the target may be one of them."""
    lines = [_ADVICE, "ignore = []", "", "[target]", f"column = {quoted_text(target or '?')}"]
    if kinds.get(target or "") in ("number", "date"):
        lines += ['low = "?"', 'high = "?"           # to predict a class: classes = [..]']
    else:
        lines += ["classes = []          # every class that may occur; to predict a number: low = .., high = .."]
    described = [f"{quoted_key(name)} = {_BLANKS[kind]}" for name, kind in kinds.items() if name != target]
    return "\n".join([*lines, "", "[columns]", *described, "", _SOURCES]) + "\n"


Parts = tuple[Target, dict[str, Column], tuple[str, ...], dict[str, str], Curves | None]
"""Of a schema: the target, the columns, what is ignored, where bounds are from, and the curves."""


def parse_schema(text: str) -> Parts:
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        why = error if isinstance(error, tomllib.TOMLDecodeError) else "it is nested too deep, or a number is too large"
        raise ValueError(f"the schema is not TOML: {why}.") from None
    _known("the schema", data, ("target", "columns", "ignore", "sources", "curves"))
    columns = _table(data, "columns", "one entry per column, such as age = { low = 17, high = 90 }")
    ignore = data.get("ignore", [])
    if not (isinstance(ignore, list) and all(isinstance(name, str) for name in ignore)):
        raise ValueError("`ignore` is not a list of column names.")
    sources = data.get("sources", {})
    if not (isinstance(sources, dict) and all(isinstance(source, str) for source in sources.values())):
        raise ValueError("[sources] is not a table of texts: say for each column where its bounds are from.")
    described = {name: _column(name, entry) for name, entry in columns.items()}
    return _target(data), described, tuple(ignore), sources, _curves(data)


def write_schema(
    target: Target,
    columns: Mapping[str, Column],
    ignore: Sequence[str],
    sources: Mapping[str, str],
    curves: Curves | None = None,
) -> str:
    lines = [f"ignore = {_list(ignore)}", ""] if ignore else []
    lines += ["[target]", f"column = {quoted_text(target.column)}"]
    match target:
        case ClassTarget(classes=classes):
            lines += [f"classes = [{', '.join(map(_label, classes))}]"]
        case NumberTarget(low=low, high=high):
            lines += [f"low = {float(low)!r}", f"high = {float(high)!r}"]
    lines += [
        "",
        "[columns]",
        *(f"{quoted_key(name)} = {{ {_entry(column)} }}" for name, column in columns.items()),
    ]
    if sources:
        said = (f"{quoted_key(name)} = {quoted_text(source)}" for name, source in sources.items())
        lines += ["", "[sources]", *said]
    if curves is not None:
        pairs = ", ".join(map(_list, curves.interactions))
        lines += ["", "[curves]", f"pieces = {curves.pieces}", f"interactions = [{pairs}]"]
    return "\n".join(lines) + "\n"


def _curves(data: dict[str, Any]) -> Curves | None:
    if "curves" not in data:
        return None
    where = "[curves]"
    entry = _table(data, "curves", "how many `pieces` a curve has, and `interactions`")
    _known(where, entry, ("pieces", "interactions"))
    try:
        return Curves(**entry)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _target(data: dict[str, Any]) -> Target:
    where = "[target]"
    entry = _table(data, "target", "the `column` to predict, with its `classes` or its `low` and `high`")
    _known(where, entry, ("column", "classes", "low", "high"))
    column = entry.get("column")
    if not isinstance(column, str):
        raise ValueError(f"{where} does not name the `column` to predict.")
    if ("classes" in entry) == ("low" in entry or "high" in entry):
        raise ValueError(
            f"{where} needs either `classes` (to predict a class) or `low` and `high` (to predict a number)."
        )
    try:
        if "classes" in entry:
            return ClassTarget(column, _classes(entry))
        return NumberTarget(column, _number(entry, "low"), _number(entry, "high"))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _column(name: str, entry: Any) -> Column:
    where = f"column {wire.shown(name)}"
    if not isinstance(entry, dict):
        raise ValueError(f"{where} is {wire.shown(entry)}: describe it, as in {{ low = 0, high = 1 }}.")
    if entry.get("text") is True:
        raise ValueError(
            f"{where} is free text, which has no bounded form here: name it in `ignore`, or list its `values`."
        )
    _known(
        where,
        entry,
        ("low", "high", "format", "values", "other", "ordered", "discover", "boolean", "missing", "typical"),
    )
    kinds = [
        keys
        for keys in (("low", "high", "format"), ("values", "other", "ordered", "discover"), ("boolean",))
        if any(key in entry for key in keys)
    ]
    if len(kinds) != 1:
        raise ValueError(
            f"{where} must be one of: a number or date (`low` and `high`), a category (`values`, or "
            "`discover`), or `boolean = true`."
        )
    missing, typical = entry.get("missing"), entry.get("typical")
    try:
        match kinds[0]:
            case ("low", *_):
                if isinstance(entry.get("low"), date) or isinstance(entry.get("high"), date):
                    return Date(entry.get("low"), entry.get("high"), missing, _text(entry, "format"), typical)  # type: ignore[arg-type]
                _known("a number", entry, ("low", "high", "missing", "typical"))
                return Number(_number(entry, "low"), _number(entry, "high"), missing, typical)
            case ("values", *_):
                if _true_or_false(entry, "ordered"):
                    _known("an ordered category", entry, ("values", "ordered", "missing", "typical"))
                    return Ordinal(_values(entry), _text(entry, "missing"), _text(entry, "typical"))
                values = None if "discover" in entry and "values" not in entry else _values(entry)
                others = _true_or_false(entry, "other")
                return Category(values, others, _text(entry, "missing"), _text(entry, "typical"), entry.get("discover"))
        if not _true_or_false(entry, "boolean"):
            raise ValueError("boolean is false: write boolean = true, or describe a number or a category.")
        return Boolean(missing, typical)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _table(data: dict[str, Any], key: str, content: str) -> dict[str, Any]:
    entry = data.get(key)
    if not isinstance(entry, dict):
        raise ValueError(f"the schema has no [{key}] table: {content}.")
    return entry


def _known(where: str, entry: dict[str, Any], keys: Sequence[str]) -> None:
    for key in entry:
        if key not in keys:
            close = difflib.get_close_matches(key, keys, 1)
            remedy = f"did you mean `{close[0]}`?" if close else f"known are {', '.join(f'`{k}`' for k in keys)}."
            raise ValueError(f"{where} has an unknown entry `{key:.80}`: {remedy}")


def _number(entry: dict[str, Any], key: str) -> float:
    value = entry.get(key)
    try:
        if not isinstance(value, bool) and isinstance(value, int | float):
            return float(value)
    except OverflowError:
        pass
    hint = "; a date stands without quotes" if isinstance(value, str) else ""
    raise ValueError(f"`{key}` is {wire.shown(value)}: a number is needed, known without looking at the records{hint}.")


def _true_or_false(entry: dict[str, Any], key: str) -> bool:
    value = entry.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"`{key}` is {wire.shown(value)}: write true or false.")
    return value


def _text(entry: dict[str, Any], key: str) -> str | None:
    value = entry.get(key)
    if not (value is None or isinstance(value, str)):
        raise ValueError(f"{key} is {wire.shown(value)}: write it as text.")
    return value


def _values(entry: dict[str, Any]) -> tuple[str, ...]:
    values = entry.get("values")
    # a float has several spellings in a file, so as a category it would match some of them only
    if not isinstance(values, list) or any(isinstance(v, bool) or not isinstance(v, str | int) for v in values):
        raise ValueError("`values` must be a list of texts or whole numbers, the public list of what may occur.")
    return tuple(str(value) for value in values)


def _classes(entry: dict[str, Any]) -> tuple[Any, ...]:
    classes = entry.get("classes")
    if not isinstance(classes, list) or not all(isinstance(label, str | int) for label in classes):
        raise ValueError("`classes` must be a list of texts or whole numbers, the public list of what may occur.")
    return tuple(classes)


def _entry(column: Column) -> str:
    match column:
        case Number(low, high):
            parts = [f"low = {float(low)!r}", f"high = {float(high)!r}"]
        case Date(low, high, _, form):
            parts = [f"low = {low}", f"high = {high}", *([] if form is None else [f"format = {quoted_text(form)}"])]
        case Category(values, other, discover=discover):
            parts = [] if discover is None else [f"discover = {discover}"]
            parts += [] if values is None else [f"values = {_list(values)}", *(["other = true"] if other else [])]
        case Ordinal(values):
            parts = [f"values = {_list(values)}", "ordered = true"]
        case Boolean():
            parts = ["boolean = true"]
    said = {"missing": column.missing, "typical": column.typical}
    return ", ".join([*parts, *(f"{key} = {_label(value)}" for key, value in said.items() if value is not None)])


def _label(value: Any) -> str:
    match value:
        case str():
            return quoted_text(value)
        case bool():
            return str(value).lower()
        case float():
            return repr(value)
    return str(value)


def _list(values: Iterable[str]) -> str:
    return f"[{', '.join(map(quoted_text, values))}]"


def quoted_text(text: str) -> str:
    # JSON's escapes are TOML's; only the delete character is allowed raw in one and not in the other
    return json.dumps(text, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")


def quoted_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted_text(name)
