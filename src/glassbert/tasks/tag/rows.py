"""The rows of tag: texts with spans, as JSON objects in the shapes of annotation tools and data sets.

    spans        {"text", "spans" or "entities": [{"start", "end", "label"} or [start, end, label]...]}
    doccano      {"text", "label": [[start, end, label]...]}, or "entities": [{"start_offset", ...}...]
    cluener      {"text", "label": {label: {surface: [[start, last]...]}}}
    labelstudio  {"data": {"text"}, "annotations": [{"result": [{"value": {"start", "end", "labels"}}...]}]}
    tokens       {"tokens": [...], "tags": [...]}; files in CoNLL columns are read as such objects

Where the shape has the words of a span, they are compared with the text, and a wrong place is repaired if
possible.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from glassbert.data.examples import BadRow, Span, TagExample
from glassbert.data.rows.columns import find_columns
from glassbert.data.rows.conll import looks_like_conll
from glassbert.data.rows.json_rows import label_studio_task
from glassbert.data.rows.lines import Lines
from glassbert.data.rows.record import Notes, Record, Unusable, label_of, nearest_place, shown, text_of
from glassbert.data.rows.schema import Schema
from glassbert.data.rows.schemes import TagScheme, join_tokens, tagged_text
from glassbert.data.rows.source import Source

_STARTS = ("start", "start_offset", "begin", "start_idx")
_ENDS = ("end", "end_offset", "end_idx")
_LABELS = ("label", "labels", "type", "tag", "entity_type", "entity_group", "entity")
_WORDS = ("text", "surface", "word", "entity", "mention")


@dataclass(frozen=True, slots=True)
class _RawSpan:
    """A span as the file has it."""

    start: Any
    end: Any
    label: Any
    words: str | None


@dataclass(frozen=True, kw_only=True)
class TagSchema(Schema[TagExample]):
    """The rows of tag."""

    def example(self, row: Record, notes: Notes) -> TagExample:
        if "spans" not in row.values:
            return TagExample(row.values["text"], None, row.where)
        return _example(row, None, {}, TagScheme(), notes)

    def read(self, source: Source) -> Iterator[TagExample | BadRow]:
        shape = source.options.format if source.options.format in ("tokens", *_SHAPES) else None
        scheme = TagScheme()
        for record in source.records():
            if isinstance(record, BadRow):
                yield record
                continue
            try:
                yield _example(record, shape, source.given, scheme, source.notes)
            except Unusable as problem:
                yield BadRow(record.where, str(problem))
        scheme.log(source.notes)

    def format_of_lines(self, format: str, lines: Lines, *, can_look_ahead: bool) -> str:
        if format not in ("tsv", "text"):
            return format
        return "conll" if can_look_ahead and looks_like_conll(lines) else "text"

    def format_of_objects(self, objects: Sequence[Record], given: Mapping[str, str]) -> str | None:
        return next((shape for item in objects if (shape := _shape_of(item.values, given))), None)


TAG = TagSchema(
    task="tag",
    required=("text",),
    optional=("spans", "tokens", "tags"),
    formats=("conll", "spans", "doccano", "cluener", "labelstudio", "tokens", "text"),
    missing="no spans, though other rows have them; an empty list says that there are none",
)


def _shape_of(values: Mapping[str, Any], given: Mapping[str, str]) -> str | None:
    """Return the shape of an object; None if it has no annotation."""
    if isinstance(values.get("data"), dict):
        return "labelstudio"
    columns = _columns(values, given)
    if "tokens" in columns:
        return "tokens"
    annotation = values.get(columns.get("spans", ""))
    if annotation is None:
        return None
    if isinstance(annotation, dict):
        return "cluener"
    first = annotation[0] if isinstance(annotation, list) and annotation else None
    if isinstance(first, dict):
        return "doccano" if "start_offset" in first else "spans"
    return "doccano" if columns["spans"] in ("label", "labels") else "spans"


def _example(
    record: Record, shape: str | None, given: Mapping[str, str], scheme: TagScheme, notes: Notes
) -> TagExample:
    shape = shape or _shape_of(record.values, given)
    if shape == "tokens":
        text, spans = _from_tokens(record.values, given, scheme)
    elif shape is None:
        text, spans = _text(record.values, given), None
    else:
        text, annotation = _SHAPES[shape](record.values, given, notes)
        spans = None if annotation is None else _checked(text, annotation, notes)
    return TagExample(text_of({"text": text}, "text"), spans, record.where)


def _columns(values: Mapping[str, Any], given: Mapping[str, str]) -> Mapping[str, str]:
    return _columns_of(tuple(values), tuple(given.items()))


@lru_cache(maxsize=100)
def _columns_of(names: tuple[str, ...], given: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    # Remembered, since the objects of a file mostly have the same keys and each is asked several times.
    return MappingProxyType(find_columns(TAG, names, dict(given)))


def _text(values: Mapping[str, Any], given: Mapping[str, str]) -> str:
    columns = _columns(values, given)
    return text_of({role: values[column] for role, column in columns.items()}, "text")


def _from_tokens(
    values: Mapping[str, Any], given: Mapping[str, str], scheme: TagScheme
) -> tuple[str, tuple[Span, ...] | None]:
    columns = _columns(values, given)
    tokens, tags, spans = (values.get(columns.get(role, "")) for role in ("tokens", "tags", "spans"))
    if tags is None and isinstance(spans, list) and any(isinstance(tag, str | int) for tag in spans):
        tags = spans  # a column such as "labels" may hold either
    if (
        not isinstance(tokens, list)
        or not all(isinstance(token, str) and token for token in tokens)
        or not tokens
    ):
        raise Unusable(f"the tokens are {shown(tokens)}; expected a list of strings, none of them empty")
    if tags is None:
        return join_tokens(tokens)[0], None
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise Unusable(f"the tags are {shown(tags)}; expected a list of strings such as B-PER")
    if len(tags) != len(tokens):
        raise Unusable(f"{len(tokens)} tokens, but {len(tags)} tags")
    return tagged_text(tokens, tags, scheme)


_Annotation = tuple[str, list[_RawSpan] | None]
"""The text and its spans."""


def _listed(values: Mapping[str, Any], given: Mapping[str, str], notes: Notes) -> _Annotation:
    annotation = values.get(_columns(values, given).get("spans", ""))
    if annotation is not None and not isinstance(annotation, list):
        raise Unusable(f"the spans are {shown(annotation)}; expected a list")
    return _text(values, given), None if annotation is None else [_raw_span(item) for item in annotation]


def _cluener(values: Mapping[str, Any], given: Mapping[str, str], notes: Notes) -> _Annotation:
    annotation = values.get(_columns(values, given).get("spans", ""))
    if annotation is None:
        return _text(values, given), None
    spans = []
    try:
        for label, places_of in annotation.items():
            for words, places in places_of.items():
                spans += [_RawSpan(start, last + 1, label, words) for start, last in places]
    except (AttributeError, TypeError, ValueError):
        raise Unusable(f"the label is {shown(annotation)}; expected label: words: [[start, last]]") from None
    return _text(values, given), spans


def _label_studio(values: Mapping[str, Any], given: Mapping[str, str], notes: Notes) -> _Annotation:
    data, result = label_studio_task(values, notes)
    if result is None:
        return _text(data, given), None
    regions = [region["value"] for region in result if isinstance(region.get("value"), dict)]
    return _text(data, given), [_raw_span(value) for value in regions if "start" in value]


_SHAPES: dict[str, Callable[[Mapping[str, Any], Mapping[str, str], Notes], _Annotation]] = {
    "spans": _listed,
    "doccano": _listed,
    "cluener": _cluener,
    "labelstudio": _label_studio,
}


def _raw_span(item: Any) -> _RawSpan:
    if isinstance(item, list | tuple) and len(item) == 3:
        return _RawSpan(item[0], item[1], item[2], None)
    if not isinstance(item, dict):
        raise Unusable(f"a span is {shown(item)}; expected start, end and label")
    start, end, label = (
        next((item[name] for name in names if name in item), None) for names in (_STARTS, _ENDS, _LABELS)
    )
    if isinstance(label, list) and len(label) == 1:
        label = label[0]
    words = next((item[name] for name in _WORDS if isinstance(item.get(name), str)), None)
    if words is label:
        words = None  # "entity" is the label in some files and the words in others
    return _RawSpan(start, end, label, words)


def _checked(text: str, raw: Iterable[_RawSpan], notes: Notes) -> tuple[Span, ...]:
    """Return the spans in order; of overlapping ones the longest stays, since a token has one tag."""
    spans = {_span(text, one, notes): None for one in raw}
    kept: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start - span.end, span.start)):
        place = bisect_right(kept, span.start, key=lambda other: other.start)
        before, after = kept[max(place - 1, 0) : place], kept[place : place + 1]
        if any(span.start < other.end and other.start < span.end for other in before + after):
            notes.count("spans that overlap a longer one, left out")
        else:
            kept.insert(place, span)
    return tuple(kept)


def _span(text: str, raw: _RawSpan, notes: Notes) -> Span:
    start, end, label = raw.start, raw.end, raw.label
    if not _is_count(start) or not _is_count(end):
        raise Unusable(f"a span from {shown(start)} to {shown(end)}; expected numbers of characters")
    if isinstance(label, bool) or not isinstance(label, str | int) or not str(label).strip():
        raise Unusable(f"a span with the label {shown(label)}; expected a name")
    if raw.words and (start < 0 or text[start:end] != raw.words):
        place = nearest_place(text, raw.words, start)
        if place is None:
            raise Unusable(f"the words {shown(raw.words)} of a span are not in the text")
        notes.count("spans moved to the nearest place of their words")
        start, end = place, place + len(raw.words)
    if not 0 <= start < end <= len(text):
        raise Unusable(f"a span from {start} to {end} in a text of {len(text)} characters")
    return Span(start, end, label_of(str(label).strip()))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
