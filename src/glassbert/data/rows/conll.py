"""CoNLL columns: one token per line with its tag, a blank line between sentences."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from glassbert.data.examples import BadRow
from glassbert.data.rows.columns import column_number
from glassbert.data.rows.lines import Lines
from glassbert.data.rows.record import Notes, Record, shown
from glassbert.data.rows.schemes import is_tag
from glassbert.errors import UserError

if TYPE_CHECKING:
    from glassbert.data.rows.source import Source

_SAMPLE_LINES = 200
_DOCUMENT_START = "-DOCSTART-"
_BYTE_ORDER_MARK = "\ufeff"


def looks_like_conll(lines: Lines) -> bool:
    """Return whether most of the first lines end in a tag."""
    rows = [_cells(line, has_tabs=False) for line in lines.peek_texts(20)]
    return sum(len(cells) > 1 and is_tag(cells[-1]) for cells in rows) * 2 > len(rows)


def read_conll(source: "Source") -> Iterator[Record | BadRow]:
    """Yield tokens and tags of each sentence: the first and the last column, unless the user names others."""
    token_column, tag_column = _column(source, "tokens", 0), _column(source, "tags", -1)
    for where, rows in _sentences(source.lines, source.notes):
        if isinstance(rows, str):
            yield BadRow(where, rows)
            continue
        try:
            tokens = [row[token_column] for row in rows]
            tags = [row[tag_column].strip() for row in rows]
            yield Record(where, {"tokens": tokens, "tags": tags})
        except IndexError:
            yield BadRow(
                where, f"{len(rows[0])} columns; data.columns asks for {max(token_column, tag_column)}"
            )


def _column(source: "Source", role: str, default: int) -> int:
    name = source.columns.get(role, str(default))
    number = column_number(name.removeprefix("-"))
    if number is None:
        raise UserError(
            f"data.columns.{role}={shown(name)}; expected the number of a column, 0 for the first"
        )
    return -number if name.startswith("-") else number


def _sentences(lines: Lines, notes: Notes) -> Iterator[tuple[str, list[list[str]] | str]]:
    """Yield the place and the rows of each sentence; for one with a bad line, its place and the reason."""
    sample = lines.peek_texts(_SAMPLE_LINES)
    has_tabs = sum("\t" in line for line in sample) * 2 > len(sample)
    widths = Counter(len(_cells(line, has_tabs)) for line in sample)
    num_columns = max(widths, key=lambda width: widths[width], default=0)
    rows: list[list[str]] = []
    where = problem = ""
    for line in lines:
        if not line.strip(f"{_BYTE_ORDER_MARK} \t") or line.startswith(_DOCUMENT_START):
            if _BYTE_ORDER_MARK in line:
                notes.count("lines of nothing but a byte order mark, read as blank")
            if problem or rows:
                yield where, problem or rows
            rows, problem = [], ""
            continue
        cells = _cells(line, has_tabs)
        if problem or (line.startswith("#") and len(cells) != num_columns):
            continue  # the sentence is lost; or a comment
        problem = _problem(cells, num_columns)
        if problem or not rows:
            where = lines.where
        rows.append(cells)
    if problem or rows:
        yield where, problem or rows


def _cells(line: str, has_tabs: bool) -> list[str]:
    # Not str.split(): an ideographic space can be a token.
    return line.split("\t") if has_tabs else re.split(r"[ \t]+", line.strip(" \t"))


def _problem(cells: list[str], num_columns: int) -> str:
    if num_columns < 2:
        return "one column; expected a token and a tag"
    if len(cells) != num_columns:
        return f"{len(cells)} columns, expected {num_columns}"
    return "" if cells[0] else "an empty token"
