"""Records to texts and pairs of texts with labels or scores, and what kind of labels a file has."""

import ast
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from glassbert.data.examples import BadRow, Kind, TaskName, TextExample
from glassbert.data.rows.columns import REQUIRED, is_number
from glassbert.data.rows.record import Notes, Record, Unusable, shown

_SEPARATORS = ("|", ";", ",")


@dataclass(frozen=True, slots=True)
class Draft:
    """A text whose label is still as the file has it: a string, a list, or None without one."""

    text: str
    pair: str | None
    label: str | tuple[str, ...] | None
    is_score: bool
    """Whether the column is one of scores by its name."""
    where: str


def read_drafts(
    task: TaskName, records: Iterable[Record | BadRow], kind: Kind | None
) -> Iterator[Draft | BadRow]:
    """Yield records, by role, as texts."""
    for record in records:
        if isinstance(record, BadRow):
            yield record
            continue
        try:
            yield _draft(task, record, kind)
        except Unusable as problem:
            yield BadRow(record.where, str(problem))


def _draft(task: TaskName, record: Record, kind: Kind | None) -> Draft:
    text = text_of(record.values, "text")
    pair = text_of(record.values, "pair") if "pair" in REQUIRED[task] else None
    order = ("score", "label") if kind == "regression" else ("label", "score")
    for role in order:
        if role in record.values:
            return Draft(text, pair, _label(record.values[role]), role == "score", record.where)
    return Draft(text, pair, None, False, record.where)


def text_of(values: dict[str, Any], role: str) -> str:
    """Return the text under ``role``, which must hold more than space."""
    if role not in values:
        raise Unusable(f"no {role}; name its column with --set data.columns.{role}=NAME")
    text = values[role]
    if not isinstance(text, str):
        raise Unusable(f"the {role} is not a string but {shown(text)}")
    if not text.strip():
        raise Unusable(f"the {role} is empty")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise Unusable(f"the {role} holds half of a character (a lone surrogate)") from None
    return text


def _label(value: Any) -> str | tuple[str, ...] | None:
    if isinstance(value, str):
        text = value.strip()
        return _listed(text) if text.startswith("[") and text.endswith("]") else text
    if value is None:
        return None
    if isinstance(value, dict) and isinstance(value.get("choices"), list):
        value = value["choices"]
    if isinstance(value, list):
        return _names(value)
    return _name(value)


def _listed(text: str) -> str | tuple[str, ...]:
    """Return the labels of a list that stands in a cell, as JSON or as Python writes it."""
    for parse in (json.loads, ast.literal_eval):
        try:
            value = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, list):
            return _names(value)
    return text


def _names(values: Sequence[Any]) -> tuple[str, ...]:
    names = tuple(_name(value) for value in values)
    for name in names:
        if not name:
            raise Unusable("an empty label")
        if names.count(name) > 1:
            raise Unusable(f"label {shown(name)} is given twice; expected a list of the labels that apply")
    return names


def _name(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value).strip()
    raise Unusable(f"the label is {shown(value)}; expected a string, a number or a list of them")


def settle(
    drafts: Sequence[Draft | BadRow], kind: Kind | None, notes: Notes
) -> tuple[list[TextExample | BadRow], Kind | None]:
    """Return the examples with their labels read as what they are, and that kind; None without labels."""
    labels = [draft.label for draft in drafts if isinstance(draft, Draft) and draft.label not in (None, "")]
    if not labels:
        return [item if isinstance(item, BadRow) else _unlabelled(item) for item in drafts], None
    is_score = any(draft.is_score for draft in drafts if isinstance(draft, Draft))
    cells = [label for label in labels if isinstance(label, str)]
    if kind is None:
        kind = _kind_of(cells, [label for label in labels if isinstance(label, tuple)], is_score, notes)
    separator = _separator(cells) if kind == "multi" else None
    if separator is not None:
        notes.say(f"labels are parted at {separator!r}")
    if kind == "multi":
        for draft in drafts:
            if isinstance(draft, Draft) and draft.label in ("", ()):
                notes.count("rows without any label")
    return [item if isinstance(item, BadRow) else finish(item, kind, separator) for item in drafts], kind


def finish(draft: Draft, kind: Kind, separator: str | None) -> TextExample | BadRow:
    """Return the example with its label read as ``kind``."""
    try:
        labels, score = _read_label(draft.label, kind, separator)
    except Unusable as problem:
        return BadRow(draft.where, str(problem))
    return TextExample(draft.text, draft.pair, labels, score, draft.where)


def finish_streamed(draft: Draft, kind: Kind | None) -> TextExample:
    """Return the example; its label is a help to the reader, and none is no fault."""
    if draft.label in (None, ""):
        return _unlabelled(draft)
    if kind is None:
        is_list = isinstance(draft.label, tuple)
        kind = "regression" if draft.is_score and not is_list else "multi" if is_list else "single"
    cells = [draft.label] if isinstance(draft.label, str) else []
    example = finish(draft, kind, _separator(cells) if kind == "multi" else None)
    return example if isinstance(example, TextExample) else _unlabelled(draft)


def _unlabelled(draft: Draft) -> TextExample:
    return TextExample(draft.text, draft.pair, (), None, draft.where)


def _read_label(
    label: str | tuple[str, ...] | None, kind: Kind, separator: str | None
) -> tuple[tuple[str, ...], float | None]:
    if label is None:
        raise Unusable("no label, though other rows have one")
    if kind == "multi":
        return _parted(label, separator) if isinstance(label, str) else label, None
    if isinstance(label, tuple):
        if len(label) != 1:
            raise Unusable(f"{len(label)} labels; expected one, or set data.kind=multi")
        label = label[0]
    if not label:
        raise Unusable("no label, though other rows have one")
    return ((label,), None) if kind == "single" else ((), _number(label))


def _parted(cell: str, separator: str | None) -> tuple[str, ...]:
    parts = [cell] if separator is None else cell.split(separator)
    return _names([part for part in map(str.strip, parts) if part])


def _number(cell: str) -> float:
    if not is_number(cell):
        raise Unusable(f"the score is {shown(cell)}; expected a number")
    return float(cell)


def _kind_of(cells: Sequence[str], lists: Sequence[tuple[str, ...]], is_score: bool, notes: Notes) -> Kind:
    """Return the kind that the labels look like; a guess that could be wrong is told."""
    if lists:
        return "multi" if any(len(labels) != 1 for labels in lists) else "single"
    num_numbers = sum(map(is_number, cells))
    if is_score and num_numbers * 2 > len(cells):
        return "regression"
    if num_numbers == len(cells) and any(not float(cell).is_integer() for cell in cells):
        notes.say(
            "labels are numbers with fractions, taken for scores; set data.kind=single if they are classes"
        )
        return "regression"
    if any("|" in cell for cell in cells):
        notes.say("some labels hold '|', taken for several labels; set data.kind=single if they are one")
        return "multi"
    with_comma = [cell for cell in cells if "," in cell]
    if with_comma and {part for cell in with_comma for part in _parted(cell, ",")} <= set(cells):
        notes.say(
            "some labels are several with ',' between, each of which stands alone in other rows; "
            "set data.kind=single if they are one"
        )
        return "multi"
    if with_comma:
        notes.say("some labels hold ',' and were taken whole; set data.kind=multi if they are several")
    return "single"


def _separator(cells: Sequence[str]) -> str | None:
    """Return the first of the usual separators that is in any cell."""
    return next((separator for separator in _SEPARATORS if any(separator in cell for cell in cells)), None)
