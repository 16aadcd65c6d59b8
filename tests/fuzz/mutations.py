"""Hostile versions of intact files: of JSON values, of TOML, of bytes and of archives."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Iterator
from random import Random
from typing import Any

Path = tuple[Any, ...]

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 3.5, -0.0, 5e-324, 1e308, -1e308),
    *(10**6, 10**9, 10**12, 2**53, 2**63, 2**64, 10**30, 10**400, -(10**18)),
    *("", "x", "1", "inf", "-inf", "nan", "true", "\u0000", "\ud800", "é" * 3, "../../etc/passwd", "a" * 100_000),
    *([], {}, [[]], [1, 2, 3], [0] * 50_000, {"kind": "Gaussian"}, {"kind": "Composed", "parts": []}),
    *({"kind": "Nobody"}, {"kind": "Budget", "epsilon": 1}, {"kind": []}, {"a": 1, "b": {"c": []}}),
)

_RAW: tuple[str, ...] = (
    *("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400, "9" * 5000, "0x10", "1.", '"\\ud800"'),
    *('{"a": 1, "a": 2}', "[" * 60 + "]" * 60, "[" * 5000 + "]" * 5000, '{"a":' * 5000 + "1" + "}" * 5000),
)
"""What JSON values cannot be built from: written into the text as it is."""

_HERE = "\u2603 here \u2603"


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    if isinstance(value, dict | list):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield from places(value[key], (*path, key))


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def with_value(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    value = copy.deepcopy(value)
    at(value, path[:-1])[path[-1]] = new
    return value


def without(value: Any, path: Path) -> Any:
    value = copy.deepcopy(value)
    del at(value, path[:-1])[path[-1]]
    return value


def altered(value: Any, random: Random) -> tuple[Any, str]:
    """The value with one place changed, and what was done."""
    known = list(places(value))
    path = random.choice(known)
    match random.randrange(10):
        case 0 if path:
            return without(value, path), f"without {path}"
        case 1:
            other = random.choice(known)
            return with_value(value, path, at(value, other)), f"{other} at {path}"
        case 2 if isinstance(found := at(value, path), int | float) and not isinstance(found, bool):
            changed = random.choice([-found, found + 1, found * 2, found / 3, str(found), [found], float(found)])
            return with_value(value, path, changed), f"{changed!r:.40} at {path}"
        case 3 if isinstance(found := at(value, path), dict):
            return with_value(value, path, {**found, "extra": 1}), f"an extra name at {path}"
        case 4 if isinstance(found := at(value, path), list) and found:
            return with_value(value, path, found * random.choice([2, 1000])), f"repeated {path}"
    new = random.choice(HOSTILE)
    return with_value(value, path, new), f"{new!r:.40} at {path}"


def altered_json(value: Any, random: Random) -> tuple[str, str]:
    """A text, which need not be JSON any more."""
    if random.random() < 0.25:
        path, raw = random.choice(list(places(value))), random.choice(_RAW)
        text = json.dumps(with_value(value, path, _HERE))
        return text.replace(json.dumps(_HERE), raw), f"{raw:.40} at {path}"
    if random.random() < 0.1:
        text = json.dumps(value).encode()
        changed, what = altered_bytes(text, random)
        return changed.decode("latin-1"), what
    changed, what = altered(value, random)
    return json.dumps(changed), what


def altered_bytes(content: bytes, random: Random) -> tuple[bytes, str]:
    data, place = bytearray(content), random.randrange(max(1, len(content)))
    match random.randrange(5):
        case 0 | 1:
            for _ in range(random.choice([1, 1, 3, 10])):
                data[random.randrange(len(data))] ^= 1 << random.randrange(8)
            return bytes(data), "bits flipped"
        case 2:
            return bytes(data[:place]), f"cut at {place}"
        case 3:
            data[place:place] = random.randbytes(random.randrange(1, 50))
            return bytes(data), f"bytes put in at {place}"
    del data[place : place + random.randrange(1, 200)]
    return bytes(data), f"bytes taken out at {place}"


def toml(value: Any) -> str:
    """A table in TOML, all of it inline but its own entries."""
    return "".join(f"{_key(name)} = {_inline(item)}\n" for name, item in value.items())


def _inline(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case None:
            return "nan"
        case dict():
            return "{" + ", ".join(f"{_key(name)} = {_inline(item)}" for name, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_inline, value)) + "]"
        case str():
            return json.dumps(value, ensure_ascii=False)
    return repr(value)


def _key(name: Any) -> str:
    return json.dumps(str(name), ensure_ascii=False)


def archives(members: dict[str, bytes], random: Random) -> tuple[bytes, str]:
    """Archives that are no honest ones."""
    buffer, kind = io.BytesIO(), random.randrange(5)
    compression = zipfile.ZIP_DEFLATED if kind == 0 else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, bytes(1 << 24) if kind == 0 and name.endswith(".npy") else content)
        if kind == 1:
            archive.writestr(random.choice(["../../x", "/etc/passwd", "a/../b", "coef.npy\0x", "x" * 60_000]), b"x")
        if kind == 2:
            archive.writestr(random.choice(list(members)) + " ", b"x")
    data = bytearray(buffer.getvalue())
    if kind == 3:
        # the sizes that the directory at the end states
        entry = data.rfind(b"PK\x01\x02")
        data[entry + random.choice([20, 24]) :][:4] = b"\xff\xff\xff\xf0"
        place = entry + random.choice([20, 24, 42])
        data[place : place + 4] = random.choice([b"\xff\xff\xff\xf0", b"\xff\xff\xff\xff", bytes(4)])
    if kind == 4:
        # every entry of the directory at the place of the first
        place = data.find(b"PK\x01\x02")
        while place >= 0:
            data[place + 42 : place + 46] = bytes(4)
            place = data.find(b"PK\x01\x02", place + 4)
    return bytes(data), ("bomb", "a strange name", "one more", "other sizes", "entries on top of each other")[kind]


def npy(random: Random) -> tuple[bytes, str]:
    """A file of NumPy whose header lies."""
    shape = random.choice(
        ["(99999999999,)", "(-1,)", "(1,)*1000", "(2,2,2)", "True", "(10**5,)", "{}.__class__", "(" * 90 + ")" * 90, ""]
    )
    kind = random.choice(["<f8", "<f8", "|O", "<f4", ">f8", "<U9", "('<f8', (1000000,))"])
    header = f"{{'descr': '{kind}', 'fortran_order': {random.choice(['False', 'True', '1'])}, 'shape': {shape}, }}"
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(24), header
