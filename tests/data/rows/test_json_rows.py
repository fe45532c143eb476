import json
from collections.abc import Iterable, Iterator
from types import SimpleNamespace

import pytest

from glassbert.data.examples import BadRow
from glassbert.data.rows.json_rows import looks_like_json, read_objects
from glassbert.data.rows.lines import Lines
from glassbert.data.rows.record import Record
from glassbert.errors import DataError


def objects(lines: Iterable[str]) -> Iterator[Record | BadRow]:
    return read_objects(SimpleNamespace(lines=Lines(lines, "f")))  # type: ignore[arg-type]


def read(text: str) -> list[tuple[str, object]]:
    found = objects(text.split("\n"))
    return [(item.where, item.values if isinstance(item, Record) else item.reason) for item in found]


def test_objects_come_from_lines_lists_and_documents() -> None:
    assert read('{"a": 1}\n\n{"a": 2}\n') == [("f:1", {"a": 1}), ("f:3", {"a": 2})]
    assert read('[{"a": 1}, {"a": 2}]') == [("f:[0]", {"a": 1}), ("f:[1]", {"a": 2})]
    assert read('[\n{"a": 1},\n{"a": 2}\n]') == [("f:[0]", {"a": 1}), ("f:[1]", {"a": 2})]
    assert read('{"version": 1, "data": [{"a": 1}]}') == [("f:1:data[0]", {"a": 1})]
    assert read('{\n"version": 1,\n"data": [{"a": 1}]}') == [("f:data[0]", {"a": 1})]
    assert read('{\n"a": 1\n}') == [("f", {"a": 1})]
    assert read("") == []


def test_a_line_that_is_no_json_is_bad_wherever_it_stands() -> None:
    for text in ('{"a": 1}\n{"a": \n{"a": 2}', '{"a": \n{"a": 1}\n{"a": 2}'):
        items = list(objects(text.split("\n")))
        assert sorted(type(item).__name__ for item in items) == ["BadRow", "Record", "Record"]
        (bad,) = [item for item in items if isinstance(item, BadRow)]
        assert bad.reason.startswith("not JSON (")


def test_lists_too_deep_to_be_read_are_no_crash() -> None:
    deep = "[" * 100_000
    assert "not JSON" in str(read('{"a": 1}\n{"a": ' + deep)[1][1])
    with pytest.raises(DataError, match="f"):
        read(deep)


def test_a_damaged_document_is_reported_with_its_line() -> None:
    with pytest.raises(DataError, match=r"f:3: not JSON \(.*, column 7\)"):
        read('[\n{"a": 1},\n{"a": }\n]')


@pytest.mark.parametrize(
    ("line", "is_json"),
    [
        ('{"text": "a"}', True),
        ("{", True),
        ("[", True),
        ("[{", True),
        ("{}", True),
        ("[MASK] is a word", False),
        ("{smile} hello", False),
        ("text", False),
    ],
)
def test_text_may_begin_with_a_bracket(line: str, is_json: bool) -> None:
    assert looks_like_json(Lines(["", line], "f")) is is_json


def test_one_line_is_enough_to_begin() -> None:
    def slowly():  # type: ignore[no-untyped-def]
        yield json.dumps({"a": 1})
        raise AssertionError("asked for more before the first was given")

    assert next(objects(slowly())) == Record("f:1", {"a": 1})
