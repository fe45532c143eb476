"""A result as one page of HTML, and its plots as one SVG."""

import re
from collections.abc import Iterator

from glassbert.glassbox.lab.result import Bars, Lines, Plot, Result, Table
from glassbert.glassbox.lab.show import HEADINGS, VERDICTS, cells
from glassbert.glassbox.lab.words import Text, said
from glassbert.outputs import GENERATOR
from glassbert.reports.html import definitions, document, figure, section, style, table
from glassbert.reports.markup import Markup, tag
from glassbert.reports.plots import WIDTH, Bar, Series, bars, lines, matrix
from glassbert.sentence import Language

_TITLE_HEIGHT, _GAP = 28, 20
_SIZE = re.compile(r'viewBox="0 0 (\d+) (\d+)"')


def as_page(result: Result, language: Language) -> str:
    """Return the page as HTML."""
    header = tag("header", tag("h1", result.name), tag("p", result.question.in_language(language)))
    title = f"{result.name}: {result.question.in_language(language)}"
    return document(title, header, _sections(result, language), language=language)


def as_svg(result: Result, language: Language) -> str:
    """Return all plots with their titles, one below the other, as one SVG with its style."""
    placed, height = [], 0
    for index, plot in enumerate(result.plots):
        title = tag("text", said(plot.title, language), x=14, y=height + 18, font_weight="bold")
        shape = drawn(plot, index, language)
        found = _SIZE.search(shape)
        assert found is not None, "every plot has a size"
        room = round(WIDTH * int(found[2]) / int(found[1]))
        height += _TITLE_HEIGHT
        placed += [title, tag("svg", shape, x=0, y=height, width=WIDTH, height=room)]
        height += room + _GAP
    return tag(
        "svg",
        tag("metadata", GENERATOR),
        tag("style", style()),
        tag("rect", width=WIDTH, height=height, style="fill: var(--card)"),
        *placed,
        xmlns="http://www.w3.org/2000/svg",
        font_family="system-ui, sans-serif",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
    )


def _sections(result: Result, language: Language) -> Iterator[Markup]:
    def heading(name: str) -> str:
        return HEADINGS[name].in_language(language)

    yield section(heading("theory"), tag("p", result.theory.in_language(language)))
    for steps in result.steps:
        rows = [tag("div", said(line, language)) for line in steps.lines]
        yield section(
            said(steps.title, language), tag("div", *rows, class_="scroll", style="white-space: pre")
        )
    for index, plot in enumerate(result.plots):
        yield section(said(plot.title, language), figure(drawn(plot, index, language), ""))
    for one in result.tables:
        yield section(said(one.title, language), _table(one, language))
    if result.claims:
        names = [heading(name) for name in ("claim", "source", "found", "verdict")]
        claims = [
            (
                claim.statement.in_language(language),
                said(claim.source, language),
                claim.found.in_language(language),
                VERDICTS[claim.verdict].in_language(language),
            )
            for claim in result.claims
        ]
        yield section(heading("claims"), table(heading("claims"), names, claims, texts=names))
    yield section(heading("meaning"), tag("p", result.meaning.in_language(language)))
    settings = [(name, str(value)) for name, value in result.settings.items()]
    if result.seeds:
        settings.append((heading("seeds"), ", ".join(map(str, result.seeds))))
    yield section(heading("settings"), definitions(settings))


def _table(one: Table, language: Language) -> Markup:
    names = [said(name, language) for name in one.columns]
    is_words = [not isinstance(value, int | float) for value in one.rows[0]] if one.rows else []
    texts = [name for name, words in zip(names, is_words, strict=False) if words]
    rows = [cells(row, one, language) for row in one.rows]
    return table(said(one.title, language), names, rows, texts=texts)


def drawn(plot: Plot, index: int, language: Language) -> Markup:
    """Return a plot as SVG, the one of this number on its page."""
    name, title = f"plot-{index}", said(plot.title, language)

    def names(texts: tuple[Text, ...]) -> list[str]:
        return [said(text, language) for text in texts]

    if isinstance(plot, Lines):
        series = [Series(said(one.name, language), one.xs, one.ys, one.lows, one.highs) for one in plot.lines]
        axes = {"x_name": said(plot.x_name, language), "y_name": said(plot.y_name, language)}
        return lines(name, title, series, is_share=plot.is_share, **axes)
    if isinstance(plot, Bars):
        rows = [
            Bar(said(label, language), value.mean, str(value), value.low, value.high)
            for label, value in plot.bars
        ]
        return bars(name, title, rows, highest=1.0 if plot.is_share else None)
    return matrix(name, title, plot.values, rows=names(plot.rows), columns=names(plot.columns))
