"""What is written as JSON is JSON: no NaN and no Infinity, which its readers elsewhere refuse."""

import ast
import json
import math
from pathlib import Path

import pytest

import sordino
from sordino import wire
from sordino.privacy.accountants import guarantee
from sordino.privacy.events import Approximate, Gaussian

SOURCE = Path(sordino.__file__).parent


def writers():
    """Every call of json.dump and json.dumps in the library."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="json"), attr="dump" | "dumps")):
                    yield f"{file.relative_to(SOURCE)}:{node.lineno}", node


def test_nobody_writes_what_json_does_not_know():
    found = dict(writers())
    assert found
    allowing = [
        place
        for place, call in found.items()
        if not any(k.arg == "allow_nan" and k.value.value is False for k in call.keywords)  # type: ignore[attr-defined]
    ]
    assert allowing == []


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_an_infinite_number_is_a_word_that_is_read_back(value):
    text = json.dumps(wire.to_plain({"epsilon": value}), allow_nan=False)
    assert wire.from_plain(wire.parse(text), {}) == {"epsilon": value}


def test_a_guarantee_that_no_epsilon_meets_can_be_written():
    """An infinite epsilon is an answer: no epsilon holds at this delta."""
    found = guarantee(Approximate(Gaussian(1.0), 1e-3), 1e-5, "replace_one")
    assert math.isinf(found.epsilon)
    assert found.error is None
    assert '"epsilon": "inf"' in json.dumps(wire.to_plain(found), allow_nan=False)
