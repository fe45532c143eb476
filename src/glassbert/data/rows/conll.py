"""CoNLL columns: one token a line with its tag, a blank line between sentences."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from glassbert.data.examples import BadRow, TagExample
from glassbert.data.rows.lines import Lines
from glassbert.data.rows.record import Notes, Unusable
from glassbert.data.rows.schemes import TagScheme, is_tag, tagged_text
from glassbert.errors import UserError

_SAMPLE_LINES = 200
_DOCUMENT_START = "-DOCSTART-"
_BYTE_ORDER_MARK = "\ufeff"


def looks_like_columns(lines: Lines) -> bool:
    """Tell whether most of the first lines end in a tag."""
    rows = [_cells(line, has_tabs=False) for line in lines.peek_texts(20)]
    return sum(len(cells) > 1 and is_tag(cells[-1]) for cells in rows) * 2 > len(rows)


def read_columns(lines: Lines, told: Mapping[str, str], notes: Notes) -> Iterator[TagExample | BadRow]:
    """Yield the sentences of a file of columns; the token is the first, the tag the last, unless told."""
    token_column, tag_column = _column(told, "tokens", 0), _column(told, "tags", -1)
    scheme = TagScheme()
    for where, rows in _sentences(lines, notes):
        if isinstance(rows, str):
            yield BadRow(where, rows)
            continue
        try:
            tokens = [row[token_column] for row in rows]
            tags = [row[tag_column].strip() for row in rows]
            yield TagExample(*tagged_text(tokens, tags, scheme), where)
        except IndexError:
            yield BadRow(
                where, f"{len(rows[0])} columns; data.columns asks for {max(token_column, tag_column)}"
            )
        except Unusable as problem:
            yield BadRow(where, str(problem))
    scheme.log(notes)


def _column(told: Mapping[str, str], role: str, default: int) -> int:
    number = told.get(role, str(default))
    if not number.removeprefix("-").isdecimal():
        raise UserError(f"data.columns.{role}={number!r}; expected the number of a column, 0 for the first")
    return int(number)


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
                notes.count("lines of nothing but a byte order mark, taken for blank")
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
