import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassbert.data.examples import Kind, ReadOptions
from glassbert.data.rows.read import read_examples
from glassbert.errors import DataError, UserError
from glassbert.tasks.classify.rows import CLASSIFY, PAIR

Write = Callable[[str, str | bytes], Path]


def labels(write: Write, *cells: str, kind: Kind | None = None) -> list[tuple[str, ...]]:
    path = write("a.tsv", "text\tlabel\n" + "".join(f"some text\t{cell}\n" for cell in cells))
    return [example.labels for example in read_examples(CLASSIFY, path, ReadOptions(kind=kind)).examples]


def json_lines(*objects: Any) -> str:
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in objects)


def test_labels_are_kept_as_they_are_but_for_space(write: Write) -> None:
    assert labels(write, "A ", " B", "0", "1.0", "A/B") == [("A",), ("B",), ("0",), ("1.0",), ("A/B",)]


def test_a_bar_parts_labels(write: Write) -> None:
    assert labels(write, "a|b", "c", "a | c") == [("a", "b"), ("c",), ("a", "c")]


def test_a_comma_parts_labels_only_if_each_part_is_a_label_elsewhere(write: Write) -> None:
    assert labels(write, "a,b", "a", "b") == [("a", "b"), ("a",), ("b",)]
    assert labels(write, "Washington, DC", "Paris") == [("Washington, DC",), ("Paris",)]


def test_the_rule_for_several_labels_is_reported(write: Write) -> None:
    table = read_examples(CLASSIFY, write("a.tsv", "text\tlabel\nx\ta,b\ny\ta\nz\tb\n"))
    assert table.kind == "multi"
    assert any("since other rows have each of them alone" in note for note in table.notes)
    assert "labels are split at ','" in table.notes
    table = read_examples(CLASSIFY, write("b.tsv", "text\tlabel\nx\ta,b\ny\ta\n"))
    assert table.kind == "single"
    assert any("read as one label; set data.kind=multi" in note for note in table.notes)


def test_the_kind_that_the_user_names_is_used(write: Write) -> None:
    assert labels(write, "a|b", "c", kind="single") == [("a|b",), ("c",)]
    assert labels(write, "a,b", "c", kind="multi") == [("a", "b"), ("c",)]
    assert labels(write, "a;b,c", "", kind="multi") == [("a", "b,c"), ()]


def test_cells_may_hold_lists_of_labels(write: Write) -> None:
    assert labels(write, '["a", "b"]', "['c']", "[]") == [("a", "b"), ("c",), ()]
    assert labels(write, "[x] done", "[y]") == [("[x] done",), ("[y]",)]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([["a", "b"], [], ["c"]], "multi", [("a", "b"), (), ("c",)]),
        ([["a"], ["b"]], "single", [("a",), ("b",)]),
        ([1, 0], "single", [("1",), ("0",)]),
        ([True, False], "single", [("true",), ("false",)]),
        ([[3, 5], [1]], "multi", [("3", "5"), ("1",)]),
        ([{"choices": ["a"]}, {"choices": ["b"]}], "single", [("a",), ("b",)]),
    ],
)
def test_labels_of_json(write: Write, values: list[Any], kind: Kind, expected: list[Any]) -> None:
    path = write("a.jsonl", json_lines(*({"text": "x", "label": value} for value in values)))
    table = read_examples(CLASSIFY, path)
    assert table.kind == kind
    assert [example.labels for example in table.examples] == expected


def test_scores_are_read_from_their_column(write: Write) -> None:
    path = write("a.tsv", "sentence1\tsentence2\tscore\na\tb\t5\nc\td\t2\n")
    table = read_examples(PAIR, path)
    assert table.kind == "regression"
    assert [(example.labels, example.score) for example in table.examples] == [((), 5.0), ((), 2.0)]
    table = read_examples(PAIR, path, ReadOptions(kind="single"))
    assert [(example.labels, example.score) for example in table.examples] == [(("5",), None), (("2",), None)]


def test_of_labels_and_scores_the_kind_decides(write: Write) -> None:
    path = write("a.csv", "text,score,label\nx,0.5,A\ny,0.7,B\n")
    table = read_examples(CLASSIFY, path)
    assert (table.kind, table.examples[0].labels, table.examples[0].score) == ("single", ("A",), None)
    table = read_examples(CLASSIFY, path, ReadOptions(kind="regression"))
    assert (table.kind, table.examples[0].labels, table.examples[0].score) == ("regression", (), 0.5)


def test_labels_with_fractions_are_scores_and_that_is_reported(write: Write) -> None:
    table = read_examples(CLASSIFY, write("a.csv", "text,label\na,0.5\nb,1\n"))
    assert table.kind == "regression"
    assert [example.score for example in table.examples] == [0.5, 1.0]
    assert any("set data.kind=single if they are classes" in note for note in table.notes)
    assert read_examples(CLASSIFY, write("b.csv", "text,label\na,0.0\nb,1.0\n")).kind == "single"


@pytest.mark.parametrize("score", ["high", "nan", "inf", "", "1_0"])
def test_scores_that_are_no_numbers_are_bad(write: Write, score: str) -> None:
    path = write("a.csv", f"text,similarity\na,0.5\nb,{score}\nc,1\n")
    table = read_examples(CLASSIFY, path, ReadOptions(skip_bad=1))
    assert [example.score for example in table.examples] == [0.5, 1.0]
    assert [bad.where.rsplit(":", 1)[1] for bad in table.bad] == ["3"]


def test_rows_without_a_label_are_bad_if_others_have_one(write: Write) -> None:
    path = write(
        "a.jsonl", json_lines({"text": "x", "label": "A"}, {"text": "y"}, {"text": "z", "label": None})
    )
    table = read_examples(CLASSIFY, path, ReadOptions(skip_bad=2))
    assert [bad.reason for bad in table.bad] == ["no label, though other rows have one"] * 2
    with pytest.raises(
        DataError, match=r"2 bad of 3 rows, read as jsonl: .*a\.jsonl:2: no label.*--skip-bad 2"
    ):
        read_examples(CLASSIFY, path)


def test_a_file_without_labels_is_read_without(write: Write) -> None:
    table = read_examples(CLASSIFY, write("a.txt", "one text\n\nanother, longer\n"))
    assert [(example.text, example.labels) for example in table.examples] == [
        ("one text", ()),
        ("another, longer", ()),
    ]
    assert table.kind is None
    assert table.format == "text"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"text": "  ", "label": "A"}, "the text is empty"),
        ({"text": 7}, "the text is not a string but '7'"),
        ({"words": "x"}, "no text; name its column with --set data.columns.text=NAME"),
        ({"text": "a\ud800"}, "not JSON (half of a character, a lone surrogate)"),
        (
            {"text": "x", "label": [0, 1, 0]},
            "label '0' is given twice; expected a list of the labels that apply",
        ),
        (
            {"text": "x", "label": {"a": 1}},
            "the label is \"{'a': 1}\"; expected a string, a number or a list of them",
        ),
        ({"text": "x", "label": ["a", ""]}, "an empty label"),
        ({"text": "x", "label": ["a", "b"]}, "2 labels; expected one, or set data.kind=multi"),
        (["x"], "expected a JSON object, got a list"),
    ],
)
def test_bad_rows_of_json_have_a_reason(write: Write, row: Any, reason: str) -> None:
    path = write("a.jsonl", json.dumps(row) + "\n" + json_lines({"text": "fine", "label": "A"}))
    table = read_examples(CLASSIFY, path, ReadOptions(skip_bad=1, kind="single"))
    assert [(bad.where.rsplit(":", 1)[1], bad.reason) for bad in table.bad] == [("1", reason)]


def test_a_column_that_no_object_has_is_refused(write: Write) -> None:
    path = write("a.jsonl", json_lines({"text": "x", "label": "A"}))
    with pytest.raises(UserError, match="no object has 'mood'"):
        read_examples(CLASSIFY, path, ReadOptions(columns={"label": "mood"}))
    table = read_examples(CLASSIFY, path, ReadOptions(columns={"text": "label", "label": "text"}))
    assert (table.examples[0].text, table.examples[0].labels) == ("A", ("x",))


def test_choices_of_label_studio_are_labels(write: Write) -> None:
    task = {"data": {"text": "good"}, "annotations": [{"result": [{"value": {"choices": ["pos"]}}]}]}
    table = read_examples(CLASSIFY, write("a.json", json.dumps([task])))
    assert (table.examples[0].text, table.examples[0].labels, table.format) == (
        "good",
        ("pos",),
        "labelstudio",
    )
