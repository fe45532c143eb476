"""CSV, TSV and plain text: lines to records by role.

TSV has no quotes: a `"` is a character of the text. CSV has the quotes of RFC 4180: a quoted cell may hold
commas, quotes and line ends.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glassbert.data.examples import BadRow
from glassbert.data.rows.columns import (
    Roles,
    assign_by_elimination,
    column_number,
    find_columns,
    guess_columns,
    is_number,
    named,
)
from glassbert.data.rows.lines import Ahead, Lines
from glassbert.data.rows.record import MAX_COLUMNS, Notes, Record, shown
from glassbert.errors import DataError, UserError

if TYPE_CHECKING:
    from glassbert.data.rows.source import Source

_SAMPLE_ROWS = 200
_SHOWN_CELLS = 20
_DELIMITERS = (",", "\t", ";")
# A quote that is never closed swallows all that follows: it is reported once the cell is this long.
_LONGEST_CELL = 1 << 24


@dataclass(frozen=True, slots=True)
class _Row:
    where: str
    cells: list[str]
    problem: str | None = None


def read_csv(source: "Source") -> Iterator[Record | BadRow]:
    """Yield the rows of a CSV file by role."""
    return _read_table(source, Ahead(_csv_rows(source.lines, source.notes)))


def read_tsv(source: "Source") -> Iterator[Record | BadRow]:
    """Yield the rows of a TSV file by role."""
    return _read_table(source, Ahead(_tsv_rows(source.lines)))


def looks_like_tsv(lines: Lines) -> bool:
    """Return whether the first line that is not blank has a tab."""
    return any("\t" in line for line in lines.peek_texts(1))


def read_text(source: "Source") -> Iterator[Record | BadRow]:
    """Yield each line as a text; in a stream the blank ones too, since every line gets an answer."""
    for line in source.lines:
        if line.strip() or source.is_stream:
            yield Record(source.lines.where, {"text": line})


def _read_table(source: "Source", rows: Ahead[_Row]) -> Iterator[Record | BadRow]:
    first = next(iter(rows.peek(1)), None)
    if first is None:
        return
    if first.problem is not None:
        raise DataError(f"{first.where}: {first.problem}")
    if len(first.cells) > MAX_COLUMNS:
        raise DataError(
            f"{first.where}: {len(first.cells):,} columns; expected at most {MAX_COLUMNS:,}: is it a table?"
        )
    roles, given, name, notes = source.schema, source.columns, source.name, source.notes
    # A stream may bring its rows one at a time: look ahead only where nothing else shows the columns.
    sample = [first.cells] if source.is_stream else _sample(rows)
    if _has_header(roles, sample, given, name):
        names = [cell.strip() for cell in next(rows).cells]
        columns = _named_columns(roles, names, given, name, notes, [] if source.is_stream else sample[1:])
    else:
        is_plain = len(first.cells) == len(roles.required)
        columns = _numbered_columns(roles, sample if is_plain else _sample(rows), given, name, notes)
    yield from _records(rows, columns, len(first.cells))


def _sample(rows: Ahead[_Row]) -> list[list[str]]:
    return [row.cells for row in rows.peek(_SAMPLE_ROWS) if row.problem is None]


def _records(rows: Iterator[_Row], columns: dict[str, int], num_columns: int) -> Iterator[Record | BadRow]:
    for row in rows:
        if row.problem is not None:
            yield BadRow(row.where, row.problem)
        elif len(row.cells) != num_columns:
            yield BadRow(row.where, f"{len(row.cells)} columns, expected {num_columns}")
        elif any("\0" in row.cells[column] for column in columns.values()):
            yield BadRow(row.where, "a NUL character; if the file is UTF-16, convert it to UTF-8")
        else:
            yield Record(row.where, {role: row.cells[column] for role, column in columns.items()})


def _tsv_rows(lines: Lines) -> Iterator[_Row]:
    for line in lines:
        if line.strip():
            yield _Row(lines.where, line.split("\t"))


def _csv_rows(lines: Lines, notes: Notes) -> Iterator[_Row]:
    # The limit is one for the whole process and has no other way to be set.
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    reader = csv.reader((line + "\n" for line in lines), delimiter=_delimiter(lines, notes), strict=True)
    while True:
        where = f"{lines.name}:{lines.number + 1}"
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "end of data" in str(error) or "limit" in str(error):
                raise DataError(
                    f'{where}: a quote (") that opens here is never closed; close or double it'
                ) from None
            yield _Row(where, [], f"not CSV ({error}); quotes within a quoted cell are doubled")
            continue
        if cells and any(cell.strip() for cell in cells):
            yield _Row(where, cells)


def _delimiter(lines: Lines, notes: Notes) -> str:
    """Return what separates the cells: a comma, or what the first line has instead."""
    first = "".join(lines.peek_texts(1))
    delimiter = next((delimiter for delimiter in _DELIMITERS if delimiter in first), ",")
    if delimiter != ",":
        notes.say(f"cells are separated by {delimiter!r}")
    return delimiter


def _has_header(roles: Roles, rows: list[list[str]], given: dict[str, str], name: str) -> bool:
    """Return whether the first row is a header: usual names, or words above a column of numbers."""
    first = rows[0]
    by_name = [column for column in given.values() if column_number(column) is None]
    for column in by_name:
        if named(column, first) is None:
            raise UserError(f"{name}: no column {shown(column)}; the first row is {_listed(first)}")
    if by_name:
        return True
    others = [row for row in rows[1:] if len(row) == len(first)]
    if any(map(is_number, first)):
        return False
    found = find_columns(roles, first, {})
    if all(role in found for role in roles.required):
        return True
    for role in {"label", "score"} & set(found):
        place = first.index(found[role])
        if all(row[place] != first[place] for row in others):
            return True
    return len(others) > 1 and any(
        cell.strip() and all(is_number(row[column]) for row in others) for column, cell in enumerate(first)
    )


def _named_columns(
    roles: Roles, names: list[str], given: dict[str, str], name: str, notes: Notes, rows: list[list[str]]
) -> dict[str, int]:
    """Return the columns of a table with a header; those of unknown names by elimination, or by ``rows``."""
    for column in given.values():
        if named(column, names) is None:
            raise UserError(f"{name}: no column {shown(column)}; the columns are {_listed(names)}")
    found = find_columns(roles, names, given)
    if rows and found:
        found |= assign_by_elimination(roles, found, names)
    elif rows:
        found = {role: names[column] for role, column in (guess_columns(roles, rows) or {}).items()}
    for role in roles.required:
        if role not in found:
            raise DataError(
                f"{name}: none of the columns {_listed(names)} is known as the {role}; "
                f"name it with --set data.columns.{role}=NAME"
            )
    for column in found.values():
        if names.count(column) > 1:
            raise DataError(f"{name}: two columns are named {shown(column)}; give each a name of its own")
    notes.say("columns: " + ", ".join(f"{role} = {shown(column)}" for role, column in found.items()))
    unused = [column for column in names if column not in found.values()]
    if unused:
        notes.say("columns that are not used: " + _listed(unused))
    return {role: names.index(column) for role, column in found.items()}


def _numbered_columns(
    roles: Roles, rows: list[list[str]], given: dict[str, str], name: str, notes: Notes
) -> dict[str, int]:
    """Return the columns of a table without a header."""
    num_columns = len(rows[0])
    columns = {role: number for role, name in given.items() if (number := column_number(name)) is not None}
    for role, column in columns.items():
        if column >= num_columns:
            raise UserError(f"{name}: data.columns.{role}={column}; the columns are 0 to {num_columns - 1}")
    missing = [role for role in roles.required if role not in columns]
    left = [column for column in range(num_columns) if column not in columns.values()]
    if given and len(missing) == len(left):
        columns |= dict(zip(missing, left, strict=True))
    elif not given:
        columns = guess_columns(roles, rows) or {}
    if not all(role in columns for role in roles.required):
        cells = ", ".join(f"{number}: {shown(cell)}" for number, cell in enumerate(rows[0][:_SHOWN_CELLS]))
        wanted = (*roles.required, *roles.optional[:1])
        raise DataError(
            f"{name}: {num_columns} columns without a header, and it is unclear what they hold ({cells}); "
            f"name them with {' '.join(f'--set data.columns.{role}=NUMBER' for role in wanted)}"
        )
    notes.say("no header: " + ", ".join(f"column {column} is the {role}" for role, column in columns.items()))
    return columns


def _listed(cells: list[str]) -> str:
    """Return the first cells for a message."""
    return ", ".join(map(shown, cells[:_SHOWN_CELLS]))
