import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.data.examples import ReadOptions, Span, Table, TagExample
from glassbert.data.rows.read import read_examples, stream_examples
from glassbert.errors import DataError
from glassbert.tasks.tag.rows import TAG

Write = Callable[[str, str | bytes], Path]
TEXT = "王小明 lives in 上海。"
SPANS = (Span(0, 3, "PER"), Span(13, 15, "LOC"))


def task(result: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"id": 1, "data": {"text": TEXT}, "annotations": [{"result": result, **more}]}


SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "spans of objects": (
        "spans",
        {
            "text": TEXT,
            "spans": [{"start": 13, "end": 15, "label": "LOC"}, {"start": 0, "end": 3, "type": "PER"}],
        },
    ),
    "spans of lists": ("spans", {"text": TEXT, "entities": [[0, 3, "PER"], [13, 15, "LOC"]]}),
    "doccano": ("doccano", {"id": 5, "text": TEXT, "label": [[0, 3, "PER"], [13, 15, "LOC"]]}),
    "doccano with relations": (
        "doccano",
        {
            "text": TEXT,
            "entities": [
                {"id": 1, "label": "PER", "start_offset": 0, "end_offset": 3},
                {"id": 2, "label": "LOC", "start_offset": 13, "end_offset": 15},
            ],
            "relations": [],
        },
    ),
    "cluener": (
        "cluener",
        {"text": TEXT, "label": {"LOC": {"上海": [[13, 14]]}, "PER": {"王小明": [[0, 2]]}}},
    ),
    "label studio": (
        "labelstudio",
        task(
            [
                {"type": "labels", "value": {"start": 0, "end": 3, "text": "王小明", "labels": ["PER"]}},
                {"type": "labels", "value": {"start": 13, "end": 15, "text": "上海", "labels": ["LOC"]}},
                {"type": "choices", "value": {"choices": ["news"]}},
            ]
        ),
    ),
    "label studio, small": (
        "spans",
        {
            "id": 1,
            "text": TEXT,
            "label": [
                {"start": 0, "end": 3, "text": "王小明", "labels": ["PER"]},
                {"start": 13, "end": 15, "text": "上海", "labels": ["LOC"]},
            ],
        },
    ),
    "tokens": (
        "tokens",
        {"tokens": ["王小明", "lives", "in", "上海", "。"], "ner_tags": ["B-PER", "O", "O", "B-LOC", "O"]},
    ),
    "tokens with labels": (
        "tokens",
        {"tokens": ["王小明", "lives", "in", "上海", "。"], "labels": ["B-PER", "O", "O", "B-LOC", "O"]},
    ),
    "tokens with a column that mostly holds spans": (
        "tokens",
        {"tokens": ["王小明", "lives", "in", "上海", "。"], "ner": ["B-PER", "O", "O", "B-LOC", "O"]},
    ),
}


def read(write: Write, *rows: Any, skip_bad: int = 0, format: str | None = None) -> Table[TagExample]:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return read_examples(TAG, write("a.jsonl", text), ReadOptions(skip_bad=skip_bad, format=format))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("is_list", [False, True])
def test_every_shape_gives_the_same_spans(write: Write, name: str, is_list: bool) -> None:
    format, row = SHAPES[name]
    path = write("a.json", json.dumps([row], indent=2) if is_list else json.dumps(row))
    table = read_examples(TAG, path)
    assert (table.examples[0].text, table.examples[0].spans) == (TEXT, SPANS)
    assert table.format == format
    assert read_examples(TAG, path, ReadOptions(format=format)).examples == table.examples
    assert table.examples[0].where.endswith("a.json:[0]" if is_list else "a.json:1")


def test_a_text_without_entities_is_not_one_that_nobody_has_looked_at(write: Write) -> None:
    table = read(write, {"text": "a", "label": []}, {"text": "b", "label": [[0, 1, "X"]]})
    assert [example.spans for example in table.examples] == [(), (Span(0, 1, "X"),)]
    assert [example.spans for example in read(write, {"text": "a"}, {"text": "b"}).examples] == [None, None]
    with pytest.raises(DataError, match=r"a\.jsonl:2: no spans, though other rows have them"):
        read(write, {"text": "a", "label": []}, {"text": "b"})


def test_of_spans_that_overlap_the_longest_stays_and_the_others_are_counted(write: Write) -> None:
    spans = [[0, 2, "A"], [1, 6, "B"], [1, 6, "B"], [5, 7, "C"], [6, 8, "D"]]
    table = read(write, {"text": "abcdefgh", "spans": spans})
    assert table.examples[0].spans == (Span(1, 6, "B"), Span(6, 8, "D"))
    assert table.notes == ["spans that overlap a longer one, left out: 2"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 10)), max_size=8))
def test_spans_come_in_order_and_apart(places: list[tuple[int, int]]) -> None:
    spans = [(start, min(start + length, 10), "A") for start, length in places]
    (example,) = stream_examples(TAG, [json.dumps({"text": "0123456789", "spans": spans})], "f")
    assert isinstance(example, TagExample)
    assert example.spans is not None
    assert all(one.end <= two.start for one, two in zip(example.spans, example.spans[1:], strict=False))
    taken = {place for span in example.spans for place in range(span.start, span.end)}
    assert all(taken & set(range(start, end)) for start, end, _ in spans)


@pytest.mark.parametrize(
    ("place", "surface"),
    [([1, 4], "王小明"), ([0, 2], "王小明"), ([-4, -1], "王小明"), ([-3, -1], "上海"), ([14, 16], "上海")],
)
def test_a_span_is_moved_to_its_words(write: Write, place: list[int], surface: str) -> None:
    span = {"start": place[0], "end": place[1], "label": "X", "text": surface}
    table = read(write, {"text": TEXT, "spans": [span]})
    (found,) = table.examples[0].spans or ()
    assert TEXT[found.start : found.end] == surface
    assert table.notes == ["spans moved to the nearest place of their words: 1"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"text": "abc", "spans": [[1, 4, "X"]]}, "a span from 1 to 4 in a text of 3 characters"),
        ({"text": "abc", "spans": [[2, 2, "X"]]}, "a span from 2 to 2 in a text of 3 characters"),
        ({"text": "abc", "spans": [[-1, 2, "X"]]}, "a span from -1 to 2 in a text of 3 characters"),
        ({"text": "abc", "spans": [["0", 2, "X"]]}, "a span from '0' to '2'; expected numbers of characters"),
        ({"text": "abc", "spans": [[0, 2, ""]]}, "a span with the label ''; expected a name"),
        ({"text": "abc", "spans": [[0, 2]]}, "a span is '[0, 2]'; expected start, end and label"),
        ({"text": "abc", "spans": [{"start": 0, "end": 1}]}, "a span with the label 'None'; expected a name"),
        ({"text": "abc", "spans": 7}, "the spans are '7'; expected a list"),
        (
            {"text": "abc", "label": {"X": ["ab"]}},
            "the label is \"{'X': ['ab']}\"; expected label: words: [[start, last]]",
        ),
        ({"text": "abc", "label": {"X": {"xy": [[0, 1]]}}}, "the words 'xy' of a span are not in the text"),
        ({"text": "", "spans": []}, "the text is empty"),
        ({"spans": []}, "no text; name its column with --set data.columns.text=NAME"),
        ({"tokens": ["a"], "tags": ["O", "O"]}, "1 tokens, but 2 tags"),
        ({"tokens": ["a"], "tags": [0]}, "the tags are '[0]'; expected a list of strings such as B-PER"),
        ({"tokens": ["a"], "labels": [0]}, "the tags are '[0]'; expected a list of strings such as B-PER"),
        (
            {"tokens": ["a", ""], "tags": ["O", "O"]},
            "the tokens are \"['a', '']\"; expected a list of strings, none of them empty",
        ),
    ],
)
def test_bad_spans_have_a_reason(write: Write, row: dict[str, Any], reason: str) -> None:
    table = read(write, {"text": "fine", "spans": []}, row, skip_bad=1)
    assert [(bad.where.rsplit(":", 1)[1], bad.reason) for bad in table.bad] == [("2", reason)]


def test_the_first_annotation_of_label_studio_that_is_not_cancelled_is_used(write: Write) -> None:
    region = {"value": {"start": 0, "end": 3, "labels": ["PER"]}}
    row = task([], was_cancelled=True)
    row["annotations"] += [{"result": [region]}, {"result": []}]
    table = read(write, row)
    assert table.examples[0].spans == (Span(0, 3, "PER"),)
    assert table.notes == ["texts with several annotations, of which the first is used: 1"]
    row["annotations"] = []
    assert read(write, row).examples[0].spans is None


def test_an_entity_is_a_label_or_the_words_as_its_file_has_it(write: Write) -> None:
    label = {"start": 0, "end": 3, "entity": "PER"}
    words = {"start_idx": 0, "end_idx": 2, "type": "PER", "entity": "王小明"}
    for span in (label, words):
        assert read(write, {"text": TEXT, "entities": [span]}).examples[0].spans == (Span(0, 3, "PER"),)


def test_labels_of_numbers_are_names(write: Write) -> None:
    assert read(write, {"text": "abc", "label": [[0, 1, 7]]}).examples[0].spans == (Span(0, 1, "7"),)


def test_columns_may_be_named(write: Write) -> None:
    path = write("a.jsonl", json.dumps({"body": "abc", "marks": [[0, 1, "X"]], "text": "no"}) + "\n")
    table = read_examples(TAG, path, ReadOptions(columns={"text": "body", "spans": "marks"}))
    assert (table.examples[0].text, table.examples[0].spans) == ("abc", (Span(0, 1, "X"),))
