"""The rows of classify and pair: texts with labels or scores, and which of the two a file has."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from glassbert.data.examples import BadRow, Kind, TextExample
from glassbert.data.rows.columns import find_columns, is_number
from glassbert.data.rows.json_rows import label_studio_task
from glassbert.data.rows.record import Notes, Record, Unusable, label_of, shown
from glassbert.data.rows.schema import Schema
from glassbert.data.rows.source import Source
from glassbert.parsing import parse_json

_SEPARATORS = ("|", ";", ",")
_LONGEST_LIST = 100_000
"""Characters of a cell that may be a list of labels."""
_LARGEST_SCORE = 1e15
"""The square of a larger error comes near the largest number of the training."""


@dataclass(frozen=True, slots=True)
class RawRow:
    """A text whose label is still as the file has it: a string, a list, or None without one."""

    text: str
    pair: str | None
    label: str | tuple[str, ...] | None
    is_score: bool
    """Whether the name of the column says that it holds scores."""
    where: str


@dataclass(frozen=True, kw_only=True)
class TextSchema(Schema[TextExample]):
    """The rows of classify or pair."""

    def example(self, row: Record, notes: Notes) -> TextExample:
        return finish(self._raw(row, None), None)

    def read(self, source: Source) -> Iterator[TextExample | BadRow]:
        kind = source.options.kind
        for row in self._raw_rows(source):
            yield row if isinstance(row, BadRow) else finish(row, kind)

    def read_all(self, source: Source) -> tuple[list[TextExample | BadRow], Kind | None]:
        return finish_all(list(self._raw_rows(source)), source.options.kind, source.notes)

    def format_of_objects(self, objects: Sequence[Record], given: object) -> str | None:
        is_task = any(isinstance(item.values.get("data"), dict) for item in objects)
        return "labelstudio" if is_task and "labelstudio" in self.formats else None

    def rows(self, source: Source) -> Iterator[Record | BadRow]:
        if source.format != "labelstudio":
            return source.rows()
        return (self._label_studio_row(item, source) for item in source.records())

    def _raw_rows(self, source: Source) -> Iterator[RawRow | BadRow]:
        return self.each(source, lambda row: self._raw(row, source.options.kind))

    def _raw(self, row: Record, kind: Kind | None) -> RawRow:
        text, pair = row.values["text"], row.values["pair"] if "pair" in self.required else None
        for role in ("score", "label") if kind == "regression" else ("label", "score"):
            if role in row.values:
                return RawRow(text, pair, _label(row.values[role]), role == "score", row.where)
        return RawRow(text, pair, None, False, row.where)

    def _label_studio_row(self, item: Record | BadRow, source: Source) -> Record | BadRow:
        if isinstance(item, BadRow):
            return item
        try:
            data, result = label_studio_task(item.values, source.notes)
        except Unusable as problem:
            return BadRow(item.where, str(problem))
        columns = find_columns(self, list(data), source.columns)
        row: dict[str, Any] = {role: data[name] for role, name in columns.items() if role in self.required}
        values = [region.get("value") for region in result or []]
        choices = [value["choices"] for value in values if isinstance(value, dict) and "choices" in value]
        if not all(isinstance(one, list) for one in choices):
            return BadRow(item.where, f"the choices are {shown(choices)}; expected lists of labels")
        return Record(item.where, {**row, "label": list(chain(*choices)) if choices else None})


CLASSIFY = TextSchema(
    task="classify",
    required=("text",),
    optional=("label", "score"),
    formats=("csv", "tsv", "text", "labelstudio"),
)
PAIR = TextSchema(task="pair", required=("text", "pair"), optional=("label", "score"))
SCHEMAS = {schema.task: schema for schema in (CLASSIFY, PAIR)}


def _label(value: Any) -> str | tuple[str, ...] | None:
    if isinstance(value, str):
        text = value.strip()
        is_list = text.startswith("[") and text.endswith("]") and len(text) <= _LONGEST_LIST
        return _listed(text) if is_list else text
    if value is None:
        return None
    if isinstance(value, dict) and isinstance(value.get("choices"), list):
        value = value["choices"]
    if isinstance(value, list):
        return _names(value)
    return _name(value)


def _listed(text: str) -> str | tuple[str, ...]:
    """Return the labels of a list in a cell, written as in JSON or in Python."""
    for parse in (parse_json, ast.literal_eval):
        try:
            value = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, list):
            return _names(value)
    return text


def _names(values: Sequence[Any]) -> tuple[str, ...]:
    names = tuple(_name(value) for value in values)
    seen: set[str] = set()
    for name in names:
        if not name:
            raise Unusable("an empty label")
        if name in seen:
            raise Unusable(f"label {shown(name)} is given twice; expected a list of the labels that apply")
        seen.add(label_of(name))
    return names


def _name(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value).strip()
    raise Unusable(f"the label is {shown(value)}; expected a string, a number or a list of them")


def finish_all(
    rows: Sequence[RawRow | BadRow], kind: Kind | None, notes: Notes
) -> tuple[list[TextExample | BadRow], Kind | None]:
    """Read the labels of a whole file; return the examples and the kind of their labels, None without any."""
    raw = [row for row in rows if isinstance(row, RawRow)]
    labels = [row.label for row in raw if row.label not in (None, "")]
    if not labels:
        return [row if isinstance(row, BadRow) else _unlabelled(row) for row in rows], None
    cells = [label for label in labels if isinstance(label, str)]
    if kind is None:
        lists = [label for label in labels if isinstance(label, tuple)]
        kind = _kind_of(cells, lists, any(row.is_score for row in raw), notes)
    separator = _separator(cells) if kind == "multi" else None
    if separator is not None:
        notes.say(f"labels are split at {separator!r}")
    if kind == "multi":
        for row in raw:
            if row.label in ("", ()):
                notes.count("rows without any label")
    return [row if isinstance(row, BadRow) else _finished(row, kind, separator) for row in rows], kind


def finish(row: RawRow, kind: Kind | None) -> TextExample:
    """Read the label of a row on its own, if it has one that can be read."""
    if row.label in (None, ""):
        return _unlabelled(row)
    if kind is None:
        is_list = isinstance(row.label, tuple)
        kind = "regression" if row.is_score and not is_list else "multi" if is_list else "single"
    cells = [row.label] if isinstance(row.label, str) else []
    example = _finished(row, kind, _separator(cells) if kind == "multi" else None)
    return example if isinstance(example, TextExample) else _unlabelled(row)


def _finished(row: RawRow, kind: Kind, separator: str | None) -> TextExample | BadRow:
    try:
        labels, score = _read_label(row.label, kind, separator)
    except Unusable as problem:
        return BadRow(row.where, str(problem))
    return TextExample(row.text, row.pair, labels, score, row.where)


def _unlabelled(row: RawRow) -> TextExample:
    return TextExample(row.text, row.pair, (), None, row.where)


def _read_label(
    label: str | tuple[str, ...] | None, kind: Kind, separator: str | None
) -> tuple[tuple[str, ...], float | None]:
    if label is None:
        raise Unusable("no label, though other rows have one")
    if kind == "multi":
        return _split(label, separator) if isinstance(label, str) else label, None
    if isinstance(label, tuple):
        if len(label) != 1:
            raise Unusable(f"{len(label)} labels; expected one, or set data.kind=multi")
        label = label[0]
    if not label:
        raise Unusable("no label, though other rows have one")
    return ((label_of(label),), None) if kind == "single" else ((), _number(label))


def _split(cell: str, separator: str | None) -> tuple[str, ...]:
    parts = [cell] if separator is None else cell.split(separator)
    return _names([part for part in map(str.strip, parts) if part])


def _number(cell: str) -> float:
    if not is_number(cell):
        raise Unusable(f"the score is {shown(cell)}; expected a number")
    if abs(float(cell)) > _LARGEST_SCORE:
        raise Unusable(f"the score is {shown(cell)}; expected at most {_LARGEST_SCORE:g}: scale the scores")
    return float(cell)


def _kind_of(cells: Sequence[str], lists: Sequence[tuple[str, ...]], is_score: bool, notes: Notes) -> Kind:
    """Return the kind that the labels look like; note a guess that could be wrong."""
    if lists:
        return "multi" if any(len(labels) != 1 for labels in lists) else "single"
    num_numbers = sum(map(is_number, cells))
    if is_score and (num_numbers + sum(map(_is_not_finite, cells))) * 2 > len(cells):
        return "regression"
    if num_numbers == len(cells) and any(not float(cell).is_integer() for cell in cells):
        notes.say(
            "labels are numbers with fractions, read as scores; set data.kind=single if they are classes"
        )
        return "regression"
    if any("|" in cell for cell in cells):
        notes.say("some labels hold '|', read as several labels; set data.kind=single if they are one")
        return "multi"
    with_comma = [cell for cell in cells if "," in cell]
    if with_comma and {part for cell in with_comma for part in _split(cell, ",")} <= set(cells):
        notes.say(
            "some labels hold ',', read as several labels, since other rows have each of them alone; "
            "set data.kind=single if they are one"
        )
        return "multi"
    if with_comma:
        notes.say("some labels hold ',', read as one label; set data.kind=multi if they are several")
    return "single"


def _is_not_finite(cell: str) -> bool:
    """Return whether a cell holds what a computation writes instead of a number."""
    return cell.lstrip("+-").casefold() in ("nan", "inf", "infinity")


def _separator(cells: Sequence[str]) -> str | None:
    """Return the first of the usual separators that is in any cell."""
    return next((separator for separator in _SEPARATORS if any(separator in cell for cell in cells)), None)
