"""Plots drawn as SVG: bars, a heat map, a matrix, lines, points, reliability.

Colours come from the page's style by class, so that a plot works on light and dark pages. Each plot has a
description in words, for screen readers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from glassbert.metrics.calibration import ReliabilityBin
from glassbert.reports.axes import Scale, shortened, spanning, width_of, written
from glassbert.reports.markup import Markup, join, tag

WIDTH, HEIGHT = 400, 270
LEFT, RIGHT, TOP, BOTTOM = 60, 12, 12, 40
MAX_POINTS = 400
LABEL_COLUMNS = 20
COLUMN_WIDTH = 6.6  # of a letter in the size of the style
LEGEND_WIDTH, LEGEND_COLUMNS = 186, 23  # of a name with its line, two beside each other


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a plot."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    lows: Sequence[float] = ()
    """The lower limit of each y, if it was measured more than once."""
    highs: Sequence[float] = ()

    def band(self) -> list[tuple[float, float, float]]:
        """Return the limits that can be drawn: x, low, high."""
        limits = zip(self.xs, self.lows, self.highs, strict=False)
        return [one for one in limits if all(map(isfinite, one))]

    def finite(self) -> list[tuple[float, float]]:
        """Return the points that can be drawn, thinned to what the eye can tell apart."""
        points = [(x, y) for x, y in zip(self.xs, self.ys, strict=True) if isfinite(x) and isfinite(y)]
        chosen = np.unique(np.linspace(0, len(points) - 1, min(MAX_POINTS, len(points))).round().astype(int))
        return [points[index] for index in chosen]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a plot."""

    name: str
    value: float
    note: str
    """The text behind the bar."""
    low: float | None = None
    """The limits of the value, if it was measured more than once."""
    high: float | None = None


def lines(
    name: str,
    title: str,
    series: Sequence[Series],
    *,
    x_name: str,
    y_name: str,
    is_share: bool = False,
) -> Markup:
    """Draw lines over a common axis; the y axis of shares is from 0 to 1."""
    drawn = [(one, points) for one in series if (points := one.finite())]
    x_scale = spanning([x for _, points in drawn for x, _ in points], LEFT, WIDTH - RIGHT)
    bottom = HEIGHT - BOTTOM
    limits = [limit for one, _ in drawn for _, low, high in one.band() for limit in (low, high)]
    y_scale = spanning([*(y for _, points in drawn for _, y in points), *limits], bottom, TOP)
    if is_share:
        y_scale = Scale(0, 1, bottom, TOP)
    shapes = [_axes(x_scale, y_scale, x_name, y_name)]
    for index, (one, points) in enumerate(drawn):
        shapes += [_interval(x_scale(x), y_scale(low), y_scale(high), index) for x, low, high in one.band()]
        shapes.append(_line(points, x_scale, y_scale, index))
    shapes.append(_legend([one.name for one, _ in drawn]))
    words = [f"{one.name} from {points[0][1]:.4g} to {points[-1][1]:.4g}" for one, points in drawn]
    rows = (len(drawn) + 1) // 2 if len(drawn) > 1 else 0
    return drawing(
        name, title, f"{y_name} over {x_name}: {'; '.join(words) or 'no points'}.", *shapes, rows=rows
    )


def points(
    name: str, title: str, pairs: Sequence[tuple[float, float]], *, x_name: str, y_name: str
) -> Markup:
    """Draw points, and the diagonal on which both numbers are equal."""
    shown = Series("", [x for x, _ in pairs], [y for _, y in pairs]).finite()
    both = [value for pair in shown for value in pair]
    x_scale, y_scale = spanning(both, LEFT, WIDTH - RIGHT), spanning(both, HEIGHT - BOTTOM, TOP)
    dots = [tag("circle", cx=x_scale(x), cy=y_scale(y), r=2.5, class_="point") for x, y in shown]
    words = f"{y_name} over {x_name}: {len(shown)} of {len(pairs)} points."
    return drawing(
        name, title, words, _axes(x_scale, y_scale, x_name, y_name), _diagonal(x_scale, y_scale), *dots
    )


def reliability(name: str, title: str, bins: Sequence[ReliabilityBin]) -> Markup:
    """Draw the accuracy of each bin of confidence, stronger the more guesses are in it."""
    x_scale = Scale(0, 1, LEFT, WIDTH - RIGHT)
    y_scale = Scale(0, 1, HEIGHT - BOTTOM, TOP)
    largest = max((part.count for part in bins), default=0)
    shapes = [_axes(x_scale, y_scale, "confidence", "accuracy")]
    for part in (part for part in bins if part.count):
        left, right, top = x_scale(part.low), x_scale(part.high), y_scale(part.accuracy)
        box = {"x": left + 1, "width": right - left - 2}
        note = f"confidence {part.confidence:.3f}, accuracy {part.accuracy:.3f}, {part.count} guesses"
        share = 0.25 + 0.75 * part.count / largest
        accuracy = tag("rect", y=top, height=y_scale(0) - top, class_="bar", fill_opacity=share, **box)
        confidence = y_scale(part.confidence)
        edge = tag("line", x1=left + 1, x2=right - 1, y1=confidence, y2=confidence, class_="mark")
        shapes.append(tag("g", tag("title", note), accuracy, edge))
    shapes.append(_diagonal(x_scale, y_scale))
    words = [f"{part.accuracy:.2f} right at {part.confidence:.2f}" for part in bins if part.count]
    return drawing(name, title, f"Accuracy by confidence: {'; '.join(words) or 'no guesses'}.", *shapes)


def bars(name: str, title: str, rows: Sequence[Bar], *, highest: float | None = None) -> Markup:
    """Draw a horizontal bar for each row.

    Args:
        highest: The value of a bar of full length; the highest value when not given.
    """
    label_columns = min(max((width_of(row.name) for row in rows), default=0), LABEL_COLUMNS)
    note_columns = max((width_of(row.note) for row in rows), default=0)
    left = 8 + label_columns * COLUMN_WIDTH
    largest = max((max(row.value, row.high or 0.0) for row in rows), default=0.0)
    top = largest if highest is None else highest
    scale = Scale(0, top or 1.0, left + 6, WIDTH - 8 - note_columns * COLUMN_WIDTH)
    shapes = []
    for index, row in enumerate(rows):
        y = 6 + 24 * index
        end = scale(row.value)
        box = tag("rect", x=left + 6, y=y, width=max(end - left - 6, 1), height=16, rx=2, class_="bar")
        label = tag("text", shortened(row.name, LABEL_COLUMNS), x=left, y=y + 12, text_anchor="end")
        parts = [label, box]
        if row.low is not None and row.high is not None:
            low, high = (min(max(scale(limit), scale.start), scale.stop) for limit in (row.low, row.high))
            parts.append(tag("line", x1=low, x2=high, y1=y + 8, y2=y + 8, class_="mark"))
            end = max(end, high)
        parts.append(tag("text", row.note, x=end + 6, y=y + 12, class_="quiet"))
        shapes.append(tag("g", tag("title", f"{row.name}: {row.note}"), *parts))
    words = "; ".join(f"{row.name} {row.note}" for row in rows) or "nothing"
    return drawing(name, title, f"{words}.", *shapes, height=12 + 24 * len(rows))


def heat_map(name: str, title: str, labels: Sequence[str], counts: NDArray[np.int64]) -> Markup:
    """Draw how often each gold label (row) met each guess (column), shaded by the share of the row."""
    cell = 44
    shorts = [shortened(label, LABEL_COLUMNS) for label in labels]
    room = 14 + max((width_of(short) for short in shorts), default=0) * COLUMN_WIDTH
    left, top = room + 18, room * 0.75 + 24
    shapes = [
        tag("text", "guess", x=left, y=12, class_="quiet"),
        tag(
            "text",
            "gold",
            x=12,
            y=top,
            class_="quiet",
            transform=f"rotate(-90 12 {top:.0f})",
            text_anchor="end",
        ),
    ]
    for index, short in enumerate(shorts):
        x, y = left + cell * (index + 0.5), top + cell * (index + 0.5)
        shapes.append(tag("text", short, x=left - 8, y=y + 4, text_anchor="end"))
        shapes.append(tag("text", short, transform=f"translate({x:.1f} {top - 8:.1f}) rotate(-45)"))
    for row, of_row in enumerate(counts.tolist()):
        for column, count in enumerate(of_row):
            share = count / max(sum(of_row), 1)
            spot = (left + cell * column, top + cell * row, cell)
            note = f"{labels[row]} taken for {labels[column]}: {count} ({share:.1%})"
            shapes.append(_cell(spot, count, share, note, is_right=row == column))
    size = cell * len(labels)
    right = max(room * 0.75, 12)  # the last name extends over the edge
    words = _confusion_in_words(labels, counts)
    return drawing(
        name, title, words, *shapes, width=left + size + right, height=top + size + 8, is_fixed=True
    )


def matrix(
    name: str,
    title: str,
    values: Sequence[Sequence[float]],
    *,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> Markup:
    """Draw numbers as cells: one colour above zero, another below, the stronger the larger."""
    largest = max((abs(value) for row in values for value in row if isfinite(value)), default=0.0) or 1.0
    room = 8 + max((width_of(shortened(one, LABEL_COLUMNS)) for one in rows), default=0) * COLUMN_WIDTH
    num_columns = max((len(row) for row in values), default=1)
    cell = min(40.0, (WIDTH - room - RIGHT) / num_columns)
    top = 20 if columns else 6
    shapes = []
    for index, label in enumerate(columns[:num_columns]):
        x = room + cell * (index + 0.5)
        shapes.append(tag("text", shortened(label, LABEL_COLUMNS), x=x, y=14, text_anchor="middle"))
    for row, numbers in enumerate(values):
        y = top + cell * row
        if row < len(rows):
            label = shortened(rows[row], LABEL_COLUMNS)
            shapes.append(tag("text", label, x=room - 6, y=y + cell / 2 + 4, text_anchor="end"))
        for column, value in enumerate(numbers):
            box = {"x": room + cell * column, "y": y, "width": cell, "height": cell}
            shade = min(abs(value) / largest, 1.0) if isfinite(value) else 0.0
            note = tag("title", f"{row}, {column}: {value:.6g}")
            tone = "right" if value >= 0 else "wrong"
            shapes.append(tag("g", note, tag("rect", class_=tone, fill_opacity=shade, **box)))
            if cell >= 34:
                middle = {"x": box["x"] + cell / 2, "y": y + cell / 2 + 4}
                is_dark = "on-colour" if shade > 0.7 else ""
                shapes.append(tag("text", f"{value:.2g}", text_anchor="middle", class_=is_dark, **middle))
    words = f"{len(values)} rows and {num_columns} columns, the largest number is {largest:.4g}."
    return drawing(name, title, words, *shapes, height=top + cell * len(values) + 8)


def drawing(
    name: str,
    title: str,
    words: str,
    *shapes: Markup,
    width: float = WIDTH,
    height: float = HEIGHT,
    rows: int = 0,
    is_fixed: bool = False,
) -> Markup:
    """Return an SVG with its description.

    Args:
        name: Unique on the page.
        rows: Lines of the legend, which add to the height.
        is_fixed: Whether it keeps its size and scrolls if there is no room, instead of shrinking.
    """
    height += 18 * rows
    size = {"width": width, "height": height} if is_fixed else {}
    return tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", words, id=f"{name}-desc"),
        *shapes,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        **size,
    )


def _axes(x_scale: Scale, y_scale: Scale, x_name: str, y_name: str) -> Markup:
    shapes = []
    for value in y_scale.ticks():
        y = y_scale(value)
        shapes.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        shapes.append(tag("text", written(value), x=LEFT - 6, y=y + 4, text_anchor="end", class_="quiet"))
    base = HEIGHT - BOTTOM
    for value in x_scale.ticks():
        shapes.append(
            tag("text", written(value), x=x_scale(value), y=base + 15, text_anchor="middle", class_="quiet")
        )
    shapes.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=base, y2=base, class_="axis"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    shapes.append(tag("text", x_name, x=middle, y=base + 32, text_anchor="middle"))
    centre = (TOP + base) / 2
    turned = f"rotate(-90 14 {centre:.0f})"
    shapes.append(tag("text", y_name, x=14, y=centre, text_anchor="middle", transform=turned))
    return join(shapes)


def _line(points: Sequence[tuple[float, float]], x_scale: Scale, y_scale: Scale, index: int) -> Markup:
    places = [(x_scale(x), y_scale(y)) for x, y in points]
    path = tag(
        "polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in places), class_=f"line c{index % 6}"
    )
    # Few points are marked; a single one would be invisible otherwise.
    dots = [
        tag("circle", cx=x, cy=y, r=3, class_=f"dot c{index % 6}") for x, y in places if len(places) <= 12
    ]
    return join([path, *dots])


def _interval(x: float, low: float, high: float, index: int) -> Markup:
    return tag("line", x1=x, x2=x, y1=low, y2=high, class_=f"line c{index % 6}", stroke_opacity=0.45)


def _diagonal(x_scale: Scale, y_scale: Scale) -> Markup:
    ends = {"x1": x_scale.start, "y1": y_scale.start, "x2": x_scale.stop, "y2": y_scale.stop}
    return tag("line", class_="diagonal", **ends)


def _legend(names: Sequence[str]) -> Markup:
    if len(names) < 2:
        return Markup()
    shapes = []
    for index, name in enumerate(names):
        x, y = 20 + (index % 2) * LEGEND_WIDTH, HEIGHT + 10 + 18 * (index // 2)
        shapes.append(tag("line", x1=x, x2=x + 22, y1=y - 4, y2=y - 4, class_=f"line c{index % 6}"))
        shapes.append(tag("text", shortened(name, LEGEND_COLUMNS), x=x + 28, y=y))
    return join(shapes)


def _cell(spot: tuple[float, float, float], count: int, share: float, note: str, *, is_right: bool) -> Markup:
    x, y, size = spot
    colour = "right" if is_right else "wrong"
    shade = share if is_right else share**0.6  # rare mistakes must be visible
    box = tag("rect", x=x + 1, y=y + 1, width=size - 2, height=size - 2, rx=3, class_="cell")
    filled = tag(
        "rect", x=x + 1, y=y + 1, width=size - 2, height=size - 2, rx=3, class_=colour, fill_opacity=shade
    )
    tone = "on-colour" if shade > 0.7 else "" if count else "quiet"
    number = tag("text", _brief(count), x=x + size / 2, y=y + size / 2 + 4, text_anchor="middle", class_=tone)
    return tag("g", tag("title", note), box, filled, number)


def _brief(count: int) -> str:
    return str(count) if count < 100_000 else f"{count / 1000:.0f}k"


def _confusion_in_words(labels: Sequence[str], counts: NDArray[np.int64]) -> str:
    right, total = int(np.trace(counts)), int(counts.sum())
    wrong = counts - np.diag(np.diag(counts))
    words = f"{right} of {total} guesses are right."
    if wrong.any():
        row, column = divmod(int(wrong.argmax()), len(labels))
        words += (
            f" Most frequent mistake: {labels[row]} taken for {labels[column]}, {wrong[row, column]} times."
        )
    return words
