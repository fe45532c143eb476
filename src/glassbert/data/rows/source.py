"""A file or a stream whose format is known: its rows by role, its objects, its examples."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from glassbert.data.examples import AnswerExample, BadRow, ReadOptions, TagExample, TaskName
from glassbert.data.rows.columns import check_roles, find_columns
from glassbert.data.rows.conll import read_columns
from glassbert.data.rows.entities import label_studio_task, read_entities, shape_of
from glassbert.data.rows.formats import check_format, detect_format, is_parquet
from glassbert.data.rows.json_rows import read_objects
from glassbert.data.rows.lines import Ahead, Lines, open_lines
from glassbert.data.rows.parquet import read_parquet
from glassbert.data.rows.questions import read_questions
from glassbert.data.rows.record import Notes, Record, Unusable
from glassbert.data.rows.tables import read_table
from glassbert.data.rows.texts import Draft, read_drafts, text_of
from glassbert.errors import UserError

# Formats that say no more than how objects are packed; what the objects are is seen from the objects.
_PACKINGS = ("jsonl", "json", "parquet")
_SAMPLE_OBJECTS = 100
# Sets of keys that are remembered with their columns: a stream without end may bring ever new ones.
_MOST_SHAPES = 100


@dataclass
class Source:
    """What a reader reads from."""

    task: TaskName
    name: str
    format: str
    options: ReadOptions
    notes: Notes
    lines: Lines | None
    """None for parquet."""
    is_stream: bool

    def __post_init__(self) -> None:
        self._told = check_roles(self.task, self.options.columns)
        self._objects: Ahead[Record | BadRow] | None = None
        if self.format in _PACKINGS and not self.is_stream:
            self.format = self._shape() or self.format

    def drafts(self) -> Iterator[Draft | BadRow]:
        """Yield the rows as texts or pairs of texts."""
        return read_drafts(self.task, self._rows(), self.options.kind)

    def tagged(self) -> Iterator[TagExample | BadRow]:
        """Yield the rows as texts with spans."""
        if self.format == "conll":
            return read_columns(self._lines, self._told, self.notes)
        if self.format == "text":
            return map(_untagged, self._text_rows())
        told = None if self.options.format in _PACKINGS else self.options.format
        return read_entities(self._all_objects(), told, self._told, self.notes)

    def questions(self) -> Iterator[AnswerExample | BadRow]:
        """Yield the rows as questions."""
        if self.format in ("csv", "tsv"):
            return read_questions(self._rows(), {}, self.notes)
        return read_questions(self._all_objects(), self._told, self.notes)

    @property
    def _lines(self) -> Lines:
        assert self.lines is not None
        return self.lines

    def _all_objects(self) -> Ahead[Record | BadRow]:
        if self._objects is None:
            self._objects = Ahead(
                read_parquet(Path(self.name)) if self.lines is None else read_objects(self._lines)
            )
        return self._objects

    def _shape(self) -> str | None:
        """Return the format that the first objects show."""
        objects = [item for item in self._all_objects().peek(_SAMPLE_OBJECTS) if isinstance(item, Record)]
        if self.task == "answer":
            return "squad" if any({"paragraphs", "qas"} & set(item.values) for item in objects) else None
        if self.task != "tag":
            is_task = any(isinstance(item.values.get("data"), dict) for item in objects)
            return "labelstudio" if is_task and self.task == "classify" else None
        return next((shape for item in objects if (shape := shape_of(item.values, self._told))), None)

    def _rows(self) -> Iterator[Record | BadRow]:
        """Yield the rows by role."""
        if self.format in ("csv", "tsv"):
            return read_table(
                self.task, self._lines, self.format, self.options, self.notes, is_stream=self.is_stream
            )
        if self.format == "text":
            return self._text_rows()
        if self.format == "labelstudio":
            return map(self._label_studio_row, self._all_objects())
        return self._rows_of_objects()

    def _text_rows(self) -> Iterator[Record]:
        """Yield each line as a text; in a stream each line is to be answered, the blank ones too."""
        for line in self._lines:
            if line.strip() or self.is_stream:
                yield Record(self._lines.where, {"text": line})

    def _rows_of_objects(self) -> Iterator[Record | BadRow]:
        never_seen = set(self._told.values())
        columns_of: dict[tuple[str, ...], dict[str, str]] = {}
        for item in self._all_objects():
            if isinstance(item, BadRow):
                yield item
                continue
            names = tuple(item.values)
            if names not in columns_of:
                if len(columns_of) >= _MOST_SHAPES:
                    columns_of.clear()
                columns_of[names] = find_columns(self.task, names, self._told)
                never_seen -= {self._told[role] for role in self._told if role in columns_of[names]}
            yield Record(item.where, {role: item.values[name] for role, name in columns_of[names].items()})
        if never_seen and not self.is_stream:
            raise UserError(f"{self.name}: no object has {sorted(never_seen)[0]!r}; see data.columns")

    def _label_studio_row(self, item: Record | BadRow) -> Record | BadRow:
        if isinstance(item, BadRow):
            return item
        try:
            data, result = label_studio_task(item.values, self.notes)
        except Unusable as problem:
            return BadRow(item.where, str(problem))
        columns = find_columns(self.task, list(data), self._told)
        row: dict[str, Any] = {role: data[name] for role, name in columns.items() if role in ("text", "pair")}
        values = [region.get("value") for region in result or []]
        choices = [value["choices"] for value in values if isinstance(value, dict) and "choices" in value]
        return Record(item.where, {**row, "label": list(chain(*choices)) if choices else None})


def _untagged(row: Record) -> TagExample | BadRow:
    try:
        return TagExample(text_of(row.values, "text"), None, row.where)
    except Unusable as problem:
        return BadRow(row.where, str(problem))


def open_source(task: TaskName, path: Path, options: ReadOptions, notes: Notes) -> Source:
    """Return a file as a source, its format told or detected."""
    check_format(task, str(path), options.format)
    if is_parquet(str(path), options.format):
        return Source(task, str(path), "parquet", options, notes, None, is_stream=False)
    lines = open_lines(path, notes)
    format = options.format or detect_format(task, lines, is_stream=False)
    return Source(task, str(path), format, options, notes, lines, is_stream=False)


def stream_source(task: TaskName, lines: Lines, options: ReadOptions, notes: Notes) -> Source:
    """Return lines as a source, their format told or detected."""
    check_format(task, lines.name, options.format)
    format = options.format or detect_format(task, lines, is_stream=True)
    if format == "parquet":
        raise UserError(f"{lines.name}: parquet cannot be streamed; save it as JSON lines")
    return Source(task, lines.name, format, options, notes, lines, is_stream=True)
