"""A file or a stream whose format is known."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassbert.data.examples import BadRow, ReadOptions
from glassbert.data.rows.columns import check_roles, find_columns
from glassbert.data.rows.formats import Format, detect_format, format_of_path
from glassbert.data.rows.lines import Ahead, Lines, open_lines
from glassbert.data.rows.record import Notes, Record, shown
from glassbert.data.rows.schema import Schema
from glassbert.errors import UserError

_SAMPLE_OBJECTS = 100
# Sets of keys whose columns are remembered: an endless stream may keep bringing new ones.
_MAX_SHAPES = 100


@dataclass
class Source:
    """What a schema and the reader of a format read from."""

    schema: Schema[Any]
    name: str
    packing: Format
    """What reads the file."""
    options: ReadOptions
    notes: Notes
    text: Lines | None
    """None for a format that has no lines."""
    is_stream: bool
    """Whether rows may arrive slowly, one at a time: then nothing looks ahead unless it must."""

    def __post_init__(self) -> None:
        self.columns = check_roles(self.schema, self.options.columns)
        """The columns that the user named, by role."""
        self.format = self.packing.name
        """What the rows are: the packing, or a more particular format that the first objects show."""
        self._records: Ahead[Record | BadRow] | None = None
        if self.packing.is_general and not self.is_stream:
            sample = [item for item in self.records().peek(_SAMPLE_OBJECTS) if isinstance(item, Record)]
            self.format = self.schema.format_of_objects(sample, self.columns) or self.format

    @property
    def lines(self) -> Lines:
        """The lines of a text file."""
        assert self.text is not None
        return self.text

    @property
    def given(self) -> dict[str, str]:
        """The columns that are still to be looked up by the names that the user gave, by role."""
        return {} if self.packing.is_by_role else self.columns

    def records(self) -> Ahead[Record | BadRow]:
        """Return the rows as the reader of the format gives them."""
        if self._records is None:
            self._records = Ahead(self.packing.read(self))
        return self._records

    def rows(self) -> Iterator[Record | BadRow]:
        """Yield the rows, their values named by role."""
        return self.records() if self.packing.is_by_role else self._rows_of_objects()

    def _rows_of_objects(self) -> Iterator[Record | BadRow]:
        never_seen = set(self.columns.values())
        columns_of: dict[tuple[str, ...], dict[str, str]] = {}
        for item in self.records():
            if isinstance(item, BadRow):
                yield item
                continue
            names = tuple(item.values)
            if names not in columns_of:
                if len(columns_of) >= _MAX_SHAPES:
                    columns_of.clear()
                columns_of[names] = find_columns(self.schema, names, self.columns)
                never_seen -= {self.columns[role] for role in self.columns if role in columns_of[names]}
            yield Record(item.where, {role: item.values[name] for role, name in columns_of[names].items()})
        if never_seen and not self.is_stream:
            raise UserError(f"{self.name}: no object has {shown(sorted(never_seen)[0])}; see data.columns")


def open_source(schema: Schema[Any], path: Path, options: ReadOptions, notes: Notes) -> Source:
    """Open a file in the format that the options name, or that is detected."""
    format = format_of_path(schema, str(path), options.format)
    if format is not None and not format.has_lines:
        return Source(schema, str(path), format, options, notes, None, is_stream=False)
    lines = open_lines(path, notes)
    if options.format is None or format is None:
        format = detect_format(schema, lines, format, is_stream=False)
    return Source(schema, str(path), format, options, notes, lines, is_stream=False)


def stream_source(schema: Schema[Any], lines: Lines, options: ReadOptions, notes: Notes) -> Source:
    """Open lines in the format that the options name, or that is detected."""
    format = format_of_path(schema, lines.name, options.format)
    if options.format is None or format is None:
        format = detect_format(schema, lines, format, is_stream=True)
    if not format.has_lines:
        raise UserError(f"{lines.name}: {format.name} cannot be streamed; save it as JSON lines")
    return Source(schema, lines.name, format, options, notes, lines, is_stream=True)
