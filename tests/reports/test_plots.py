import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from glassbert.metrics.calibration import reliability as bins_of
from glassbert.reports.markup import Markup
from glassbert.reports.plots import Bar, Series, bars, heat_map, lines, matrix, points, reliability

NASTY = "<b>&\"'</b>"


def parsed(plot: Markup) -> ElementTree.Element:
    """The plot as XML, which only well-formed markup becomes."""
    return ElementTree.fromstring(plot)


def numbers_of(element: ElementTree.Element, name: str) -> list[float]:
    return [float(one.attrib[name]) for one in element.iter() if name in one.attrib]


PLOTS = {
    "lines": lines("p", NASTY, [Series(NASTY, [1, 2], [3, 4])] * 2, x_name=NASTY, y_name=NASTY),
    "lines with limits": lines(
        "p", NASTY, [Series(NASTY, [1, 2], [3, 4], [2, 3], [9, 5])], x_name=NASTY, y_name=NASTY
    ),
    "matrix": matrix("p", NASTY, [[1.0, -2.0], [float("nan"), 0.0]], rows=[NASTY, "b"], columns=["a", "b"]),
    "bars with limits": bars("p", NASTY, [Bar(NASTY, 1, NASTY, low=-3, high=4)]),
    "points": points("p", NASTY, [(0, 1), (2, 2)], x_name=NASTY, y_name=NASTY),
    "bars": bars("p", NASTY, [Bar(NASTY, 1, NASTY)]),
    "heat map": heat_map("p", NASTY, (NASTY, "b"), np.array([[3, 1], [0, 2]])),
    "reliability": reliability("p", NASTY, bins_of(np.array([0.9, 0.7]), np.array([True, False]))),
}


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_has_a_title_and_a_description_that_it_points_to(name: str) -> None:
    svg = parsed(PLOTS[name])
    assert svg.attrib["role"] == "img"
    named = {one.attrib["id"]: one.text for one in svg if "id" in one.attrib}
    assert svg.attrib["aria-labelledby"].split() == list(named)
    assert list(named.values())[0] == NASTY
    assert len(list(named.values())[1] or "") > 5


@pytest.mark.parametrize("name", PLOTS)
def test_everything_is_drawn_within_the_plot(name: str) -> None:
    svg = parsed(PLOTS[name])
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    for attribute, limit in (("x", width), ("x1", width), ("x2", width), ("cx", width)):
        assert all(0 <= value <= limit for value in numbers_of(svg, attribute))
    for attribute, limit in (("y", height), ("y1", height), ("y2", height), ("cy", height)):
        assert all(0 <= value <= limit for value in numbers_of(svg, attribute))


def test_a_line_goes_through_its_points() -> None:
    svg = parsed(lines("p", "t", [Series("a", [0, 10], [0.0, 0.5])], x_name="x", y_name="y", is_share=True))
    (path,) = (one for one in svg.iter("polyline"))
    assert path.attrib["points"] == "60.0,230.0 388.0,121.0"


def test_points_that_are_no_numbers_are_left_out() -> None:
    svg = lines("p", "t", [Series("a", [1, 2, 3], [math.nan, 5.0, math.inf])], x_name="x", y_name="y")
    assert "nan" not in svg
    assert "inf" not in svg
    assert len(list(parsed(svg).iter("circle"))) == 1


@pytest.mark.parametrize("series", [[], [Series("a", [], [])], [Series("a", [1], [2])]])
def test_nothing_to_draw_is_no_error(series: list[Series]) -> None:
    parsed(lines("p", "t", series, x_name="x", y_name="y"))


def test_empty_plots_are_no_error() -> None:
    parsed(bars("p", "t", []))
    parsed(points("p", "t", [], x_name="x", y_name="y"))
    parsed(reliability("p", "t", bins_of(np.zeros(0), np.zeros(0, bool))))
    parsed(heat_map("p", "t", (), np.zeros((0, 0), int)))


def test_long_lines_are_thinned_and_keep_their_ends() -> None:
    series = Series("a", range(100_000), range(100_000))
    thin = series.finite()
    assert len(thin) == 400
    assert (thin[0], thin[-1]) == ((0, 0), (99_999, 99_999))


def test_bars_are_as_long_as_their_values() -> None:
    svg = parsed(bars("p", "t", [Bar("a", 1.0, "1"), Bar("b", 0.5, "0.5"), Bar("c", 0.0, "0")], highest=1.0))
    full, half, none = (float(one.attrib["width"]) for one in svg.iter("rect"))
    assert half == pytest.approx(full / 2, abs=0.02)
    assert none == 1  # still to be seen


def test_the_heat_map_has_gold_in_rows_and_tells_the_worst_confusion() -> None:
    counts = np.array([[3, 1], [0, 2]])
    svg = heat_map("p", "t", ("cat", "dog"), counts)
    assert "cat taken for dog: 1 (25.0%)" in svg
    assert "dog taken for cat: 0 (0.0%)" in svg
    assert "5 of 6 guesses are right. Most frequent mistake: cat taken for dog, 1 times." in svg
    groups = {one[0].text: one[1] for one in parsed(svg).iter("g")}
    missed, right = groups["cat taken for dog: 1 (25.0%)"], groups["cat taken for cat: 3 (75.0%)"]
    assert missed.attrib["y"] == right.attrib["y"]
    assert float(missed.attrib["x"]) > float(right.attrib["x"])
    cells = [one for one in parsed(svg).iter("rect") if "fill-opacity" in one.attrib]
    assert [one.attrib["class"] for one in cells] == ["right", "wrong", "wrong", "right"]
    assert [float(one.attrib["fill-opacity"]) for one in cells] == [0.75, pytest.approx(0.44, abs=0.01), 0, 1]


def test_reliability_shows_the_accuracy_of_each_bin() -> None:
    bins = bins_of(np.array([0.9, 0.9, 0.3]), np.array([True, False, True]), bins=2)
    svg = reliability("p", "t", bins)
    assert re.findall(r"confidence [\d.]+, accuracy [\d.]+, \d guesses", svg) == [
        "confidence 0.300, accuracy 1.000, 1 guesses",
        "confidence 0.900, accuracy 0.500, 2 guesses",
    ]
    tall, short = (float(one.attrib["height"]) for one in parsed(svg).iter("rect"))
    assert short == pytest.approx(tall / 2)


def test_a_matrix_has_a_cell_for_each_number_and_shows_its_sign() -> None:
    cells = [one for one in parsed(PLOTS["matrix"]).iter("rect") if "fill-opacity" in one.attrib]
    assert [one.attrib["class"] for one in cells] == ["right", "wrong", "wrong", "right"]
    assert [float(one.attrib["fill-opacity"]) for one in cells] == [0.5, 1, 0, 0]


def test_limits_of_a_measurement_are_drawn_and_widen_the_axis() -> None:
    svg = parsed(PLOTS["lines with limits"])
    upright = [one.attrib for one in svg.iter("line") if "stroke-opacity" in one.attrib]
    assert len(upright) == 2
    assert float(upright[0]["y2"]) == min(float(one["y2"]) for one in upright)
    assert any(one.text == "8" for one in svg.iter("text"))
