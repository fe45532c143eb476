"""HTML and SVG in which every text is escaped, unless these functions made it."""

import re
from collections.abc import Iterable
from html import escape

# Control characters except tab and line ends, changes of the writing direction, lone surrogates.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_VOID = frozenset({"meta", "br", "img"})


class Markup(str):
    """Text that is already markup."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """Return an element; children that are not markup are escaped, and so are the attributes.

    Args:
        attributes: ``class_`` for class, ``stroke_width`` for stroke-width; None is left out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(parts: Iterable[str]) -> Markup:
    """Return the parts in a row; those that are not markup are escaped."""
    return Markup("".join(part if isinstance(part, Markup) else plain(part) for part in parts))


def plain(text: str) -> Markup:
    """Return a text as markup that shows it, whatever its characters."""
    return Markup(escape(printable(text), quote=True))


def printable(text: str) -> str:
    """Return a text in which characters that control a page or a terminal are replaced by U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return plain(value)
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"
