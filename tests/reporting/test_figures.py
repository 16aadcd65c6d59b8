"""Plots are part of the page: they take its colours and load nothing."""

import re
from xml.etree import ElementTree

import pytest

from sordino.reporting.figures import Tradeoff, tradeoff_figure

RUNS = {0.1: (0.6, 0.65, 0.7), 1.0: (0.71, 0.72, 0.73), 10.0: (0.74, 0.74, 0.74)}


@pytest.fixture(scope="module")
def figure():
    return tradeoff_figure(
        Tradeoff("Accuracy", RUNS, {"without privacy": 0.745, "always no": 0.678}, released=(1.0, 0.715)), "Caption."
    )


def test_the_drawing_is_one_svg_element_that_scales(figure):
    root = ElementTree.fromstring(figure.svg)
    assert root.tag.endswith("svg")
    assert root.get("viewBox")
    assert root.get("width") is None
    assert root.get("height") is None


def test_every_colour_is_one_of_the_page(figure):
    assert not re.findall(r"#[0-9a-f]{6}", re.sub(r"(url\(|xlink:href=\"|id=\")#?\w+", "", figure.svg))
    for variable in ("--ink", "--faint", "--accent", "--band", "--mark"):
        assert f"var({variable})" in figure.svg


def test_text_stays_text_in_the_font_of_the_page(figure):
    assert "without privacy 74.5 %" in figure.svg
    assert "always no 67.8 %" in figure.svg
    assert "DejaVu" not in figure.svg


def test_nothing_is_loaded_and_no_time_is_told(figure):
    outside = re.findall(r'(?:href|src)="(?!#)[^"]*"', figure.svg)
    assert outside == []
    assert "dc:date" not in figure.svg


def test_the_alternative_carries_the_numbers(figure):
    assert "epsilon 0.1: median 65.0 %, from 60.0 to 70.0 %" in figure.alternative
    assert "without privacy: 74.5 %" in figure.alternative


def test_the_same_numbers_draw_the_same_picture(figure):
    again = tradeoff_figure(
        Tradeoff("Accuracy", RUNS, {"without privacy": 0.745, "always no": 0.678}, released=(1.0, 0.715)), "Caption."
    )
    assert again == figure


def test_one_run_at_one_epsilon_is_enough():
    assert "svg" in tradeoff_figure(Tradeoff("Accuracy", {1.0: (0.5,)}, {})).svg
