"""Figures are small SVG files that say what they show."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from bench.scaling.plots import MAX_POINTS, Curve, bar_chart, cumulative, line_chart, nice_steps


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1000, [0, 200, 400, 600, 800, 1000]),
        (17.3, [0, 5, 10, 15, 20]),
        (0.42, [0, 0.1, 0.2, 0.3, 0.4, 0.5]),
        (0, [0, 1]),
    ],
)
def test_axes_have_round_numbers(most: float, expected: list[float]) -> None:
    assert nice_steps(most) == expected


def test_a_curve_counts_what_has_come() -> None:
    assert cumulative([12.0, 11.0], 10.0) == [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)]


def test_a_curve_counts_down_what_is_left() -> None:
    assert cumulative([11.0], 10.0, falling_from=5) == [(0.0, 5.0), (1.0, 4.0)]


def test_a_long_curve_is_thinned_out_and_keeps_its_end() -> None:
    points = cumulative([float(number) for number in range(10_000)], 0.0)
    assert len(points) <= 2 * MAX_POINTS
    assert points[-1] == (9999.0, 10_000.0)


def test_a_chart_of_curves_names_each_of_them() -> None:
    text = line_chart("0 to 10", "seconds", "pods", [Curve("a <b>", [(0, 0), (1, 10)]), Curve("c", [(0, 0)], True)])
    words = {each.text for each in ET.fromstring(text).iter() if each.text}  # noqa: S314 - our own
    assert {"0 to 10", "seconds", "pods", "a <b>", "c"} <= words


def test_a_chart_of_bars_shows_figure_and_bar() -> None:
    text = bar_chart("bars", [("CPU seconds", 5.0, 4.0), ("writes", 0.0, 0.0)])
    words = {each.text for each in ET.fromstring(text).iter() if each.text}  # noqa: S314 - our own
    assert {"5 of 4", "0 of 0", "the bar"} <= words


def test_no_figure_is_large(tmp_path: Path) -> None:
    moments = [float(number) for number in range(10_000)]
    text = line_chart("t", "x", "y", [Curve("c", cumulative(moments, 0.0))] * 4)
    assert len(text) < 60_000
