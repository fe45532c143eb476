"""The parts that every page is made of: the document itself, headings, tables, figures."""

from collections.abc import Iterable, Sequence
from importlib.resources import files

from glassbert.outputs import GENERATOR
from glassbert.reports.markup import Markup, tag

# A longer table scrolls in a box of its own.
MAX_ROWS = 25


def document(
    title: str,
    header: Markup,
    sections: Iterable[str],
    *,
    language: str = "en",
    own_style: str = "",
    has_pictures: bool = False,
) -> str:
    """Return a whole page: no scripts, nothing loaded from elsewhere, light and dark.

    Args:
        own_style: What the page adds to the style of all pages.
        has_pictures: Let the page show pictures that it holds itself.
    """
    # The policy forbids what the page does not need: whatever its texts say, nothing is run or fetched.
    policy = "default-src 'none'; style-src 'unsafe-inline'" + ("; img-src data:" if has_pictures else "")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="generator", content=GENERATOR),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("title", title),
        tag("style", Markup(style() + own_style)),
    )
    body = tag("body", header, tag("main", *sections))
    return f"<!doctype html>\n{tag('html', head, body, lang=language)}\n"


def style() -> Markup:
    """Return the style sheet of pages and plots."""
    here = files("glassbert.reports")
    return Markup("".join((here / name).read_text(encoding="utf-8") for name in ("page.css", "plots.css")))


def section(title: str, *content: str, intro: str = "") -> Markup:
    """Return a part of the page under its heading."""
    about = [tag("p", intro, class_="intro")] if intro else []
    return tag("section", tag("h2", title), *about, *content)


def table(
    title: str, names: Sequence[str], rows: Iterable[Sequence[str]], *, texts: Sequence[str] = ()
) -> Markup:
    """Return a table whose first column names its rows; it scrolls if there is no room.

    Args:
        names: Of the columns.
        texts: The other columns that are not numbers.
    """
    styles = ["words" if name in texts else None for name in names]
    named = zip(names, styles, strict=True)
    head = tag("tr", *(tag("th", name, scope="col", class_=style) for name, style in named))
    body = []
    for row in rows:
        first = tag("th", row[0], scope="row", dir="auto")
        rest = zip(row[1:], styles[1:], strict=True)
        body.append(tag("tr", first, *(tag("td", cell, class_=style, dir="auto") for cell, style in rest)))
    content = tag("table", tag("thead", head), tag("tbody", *body))
    style = "scroll tall" if len(body) > MAX_ROWS else "scroll"
    return tag("div", content, class_=style, tabindex=0, role="region", aria_label=title)


def columns(*content: Markup) -> Markup:
    """Return tables and figures side by side where there is room."""
    return tag("div", *content, class_="columns")


def figure(plot: Markup, caption: str, *, is_wide: bool = False) -> Markup:
    """Return a plot with its caption; a wide one scrolls instead of shrinking."""
    if is_wide:
        plot = tag("div", plot, class_="scroll", tabindex=0, role="region", aria_label=caption)
    return tag("figure", plot, tag("figcaption", caption))


def definitions(rows: Iterable[tuple[str, str]]) -> Markup:
    """Return names, each with a value."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", text, dir="auto")) for name, text in rows))
