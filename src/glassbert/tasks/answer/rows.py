"""The rows of answer: SQuAD 1.1 and 2.0, CMRC in both its forms, and flat rows.

    article    {"title", "paragraphs": [paragraph...]}
    paragraph  {"context", "qas": [question...]}; CMRC also writes context_text, query_text, query_id
    question   {"id", "question", "answers", "is_impossible"}
    flat       {"id", "question", "context", "answers"}

Answers are a list of {"text", "answer_start"}, a list of strings, {"text": [...], "answer_start": [...]} as
in the `datasets` library, or one string. Their places are checked; a wrong one is repaired if possible.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glassbert.data.examples import Answer, AnswerExample, BadRow
from glassbert.data.rows.columns import find_columns
from glassbert.data.rows.record import Notes, Record, Unusable, nearest_place, shown
from glassbert.data.rows.schema import Schema
from glassbert.data.rows.source import Source

# What annotators add to the end of an answer that is cut out of a longer sentence.
_PLACE = re.compile(r"\s*-?\d{1,18}\s*", re.ASCII)
_END_MARKS = ".,;:!?\u3002\uff0c\uff1b\uff1a\uff01\uff1f\u3001"


@dataclass(frozen=True, kw_only=True)
class AnswerSchema(Schema[AnswerExample]):
    """The rows of answer."""

    def example(self, row: Record, notes: Notes) -> AnswerExample:
        values = row.values
        name = values.get("id")
        answers = _answers(values, values["context"], notes) if "answers" in values else None
        if answers is None and _is_true(values.get("impossible")):
            answers = ()
        return AnswerExample(
            id=row.where if name in (None, "") else str(name),
            question=values["question"],
            context=values["context"],
            answers=answers,
            where=row.where,
        )

    def rows(self, source: Source) -> Iterator[Record | BadRow]:
        for record in source.records():
            if isinstance(record, BadRow):
                yield record
            else:
                yield from _flat(record, source.given)

    def read_all(self, source: Source) -> tuple[list[AnswerExample | BadRow], None]:
        found, _ = super().read_all(source)
        return list(_with_unique_ids(found, source.notes)), None

    def format_of_objects(self, objects: Sequence[Record], given: object) -> str | None:
        return "squad" if any({"paragraphs", "qas"} & set(item.values) for item in objects) else None


ANSWER = AnswerSchema(
    task="answer",
    required=("question", "context"),
    optional=("answers", "start", "impossible", "id"),
    formats=("squad", "csv", "tsv"),
    missing="no answers, though other rows have them; an empty list says that there are none",
)


def _with_unique_ids(
    items: Iterable[AnswerExample | BadRow], notes: Notes
) -> Iterator[AnswerExample | BadRow]:
    """Yield ``items``; an id that occurred before gets a number, since measures look answers up by ids."""
    seen: dict[str, int] = {}
    for item in items:
        if isinstance(item, BadRow):
            yield item
            continue
        count = seen[item.id] = seen.get(item.id, 0) + 1
        if count == 1:
            yield item
            continue
        new = f"{item.id}#{count}"
        seen[new] = seen.get(new, 0) + 1
        notes.count("ids that occurred before, made unique by a number")
        yield replace(item, id=new)


def _flat(record: Record, given: Mapping[str, str]) -> Iterator[Record | BadRow]:
    """Yield the questions of a record, each by role with its context."""
    values, where = record.values, record.where
    if isinstance(values.get("paragraphs"), list):
        for number, paragraph in enumerate(values["paragraphs"]):
            place = f"{where}.paragraphs[{number}]"
            if isinstance(paragraph, dict):
                yield from _flat(Record(place, paragraph), given)
            else:
                yield BadRow(place, f"the paragraph is {shown(paragraph)}; expected an object")
    elif isinstance(values.get("qas"), list):
        paragraph = {name: value for name, value in values.items() if name not in ("id", "qas", "title")}
        for number, question in enumerate(values["qas"]):
            place = f"{where}.qas[{number}]"
            if isinstance(question, dict):
                yield _by_role(Record(place, {**paragraph, **question}), given)
            else:
                yield BadRow(place, f"the question is {shown(question)}; expected an object")
    else:
        yield _by_role(record, given)


def _by_role(record: Record, given: Mapping[str, str]) -> Record:
    columns = find_columns(ANSWER, list(record.values), given)
    return Record(record.where, {role: record.values[column] for role, column in columns.items()})


def _is_true(value: Any) -> bool:
    return value is True or str(value).strip().casefold() in ("true", "1", "yes")


def _answers(values: dict[str, Any], context: str, notes: Notes) -> tuple[Answer, ...] | None:
    if values["answers"] is None:
        return None
    if _is_true(values.get("impossible")):
        return ()
    given = list(_given_answers(values["answers"], values.get("start")))
    if values["answers"] == "":
        notes.count("empty answers, read as no answer")
    answers = [found for text, start in given if (found := _located(text, start, context, notes)) is not None]
    if given and not answers:
        raise Unusable(f"the answer {shown(given[0][0])} is not in the context")
    for _ in range(len(given) - len(answers)):
        notes.count("answers that are not in their context, left out (the question has others)")
    return tuple(answers)


def _given_answers(value: Any, start: Any) -> Iterator[tuple[str, int | None]]:
    """Yield the texts and places of answers in any of their forms; an empty string is no answer."""
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        texts, starts = value["text"], value.get("answer_start") or [None] * len(value["text"])
        if not isinstance(starts, list) or len(starts) != len(texts):
            raise Unusable(f"{len(texts)} answers, but answer_start is {shown(starts)}")
        for text, place in zip(texts, starts, strict=True):
            yield from _given_answers(text, place)
    elif isinstance(value, dict):
        yield from _given_answers(value.get("text"), value.get("answer_start", start))
    elif isinstance(value, list):
        for item in value:
            yield from _given_answers(item, None)
    elif isinstance(value, str):
        if value.strip():
            yield value, _place(start)
    else:
        raise Unusable(f"the answer is {shown(value)}; expected a string")


def _place(start: Any) -> int | None:
    if start is None or start == "":
        return None
    if isinstance(start, str) and _PLACE.fullmatch(start):
        return int(start)
    if isinstance(start, bool) or not isinstance(start, int):
        raise Unusable(f"answer_start is {shown(start)}; expected a number of characters")
    return start


def _located(text: str, start: int | None, context: str, notes: Notes) -> Answer | None:
    """Return the answer at its place, or at the nearest place of its text; None if there is none."""
    if start is not None and start >= 0 and context.startswith(text, start):
        return Answer(text, start)
    place = nearest_place(context, text, start or 0)
    if place is not None:
        if start is not None:
            notes.count("wrong answer_start, moved to the nearest place of the answer's text")
        return Answer(text, place)
    trimmed = text.strip().rstrip(_END_MARKS).strip()
    place = nearest_place(context, trimmed, start or 0) if trimmed else None
    if place is None:
        return None
    notes.count("answers found without the spaces or the full stop around them")
    return Answer(trimmed, place)
