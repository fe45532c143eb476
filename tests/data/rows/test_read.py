import hashlib
import json
import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from glassbert.data.examples import (
    AnswerExample,
    BadRow,
    Example,
    ReadOptions,
    Span,
    TagExample,
    TextExample,
)
from glassbert.data.rows.read import read_examples, stream_examples
from glassbert.data.rows.schema import Schema
from glassbert.errors import DataError, UserError
from glassbert.tasks.answer.rows import ANSWER
from glassbert.tasks.classify.rows import CLASSIFY, PAIR
from glassbert.tasks.registry import schema_of
from glassbert.tasks.tag.rows import TAG

Write = Callable[[str, str | bytes], Path]


def stream(schema: Schema[Any], *lines: str, name: str = "stdin", **options: Any) -> list[Example | BadRow]:
    return list(stream_examples(schema, lines, name, ReadOptions(**options)))


def test_a_table_knows_its_file(write: Write) -> None:
    path = write("a.tsv", "text\tlabel\nx\t1\n")
    assert read_examples(CLASSIFY, path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.skipif(os.name != "posix", reason="pipes that have a name")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe.tsv"
    os.mkfifo(path)
    writer = Thread(target=path.write_text, args=("text\tlabel\nx\t1\n",), daemon=True)
    writer.start()
    table = read_examples(CLASSIFY, path)
    writer.join()
    assert (table.examples[0].text, table.sha256) == ("x", "")


@pytest.mark.parametrize("content", ["", "\n\n", "text\tlabel\n"])
def test_a_file_without_rows_is_refused(write: Write, content: str) -> None:
    with pytest.raises(DataError, match=r"a\.tsv: no rows in it; is it the right file\?"):
        read_examples(CLASSIFY, write("a.tsv", content))


def test_bad_rows_are_counted_and_the_first_are_named_in_one_line(write: Write) -> None:
    path = write("a.tsv", "text\tlabel\n" + "only one\n" * 5 + "x\tA\n")
    with pytest.raises(DataError) as raised:
        read_examples(CLASSIFY, path, ReadOptions(skip_bad=4))
    message = str(raised.value)
    assert message.startswith(
        f"{path}: 5 bad of 6 rows, read as tsv, 4 allowed: {path}:2: 1 columns, expected 2;"
    )
    assert message.endswith("; and 2 more; correct them, or leave them out with --skip-bad 5")
    assert "\n" not in message
    table = read_examples(CLASSIFY, path, ReadOptions(skip_bad=5))
    assert (len(table.examples), len(table.bad)) == (1, 5)


def test_a_file_of_nothing_but_bad_rows_is_refused_however_many_are_allowed(write: Write) -> None:
    path = write("a.jsonl", '{"text": ""}\n')
    with pytest.raises(
        DataError, match=r"no good row in it, 1 bad; the first: .*a\.jsonl:1: the text is empty"
    ):
        read_examples(CLASSIFY, path, ReadOptions(skip_bad=9))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encodings_and_line_ends_make_no_difference(write: Write, encoding: str, end: str) -> None:
    rows = ["文本,标签", '"服务好，房间也干净",好评', "早餐一般,差评", ""]
    table = read_examples(CLASSIFY, write("a.csv", end.join(rows).encode(encoding)))
    assert [(example.text, example.labels) for example in table.examples] == [
        ("服务好，房间也干净", ("好评",)),
        ("早餐一般", ("差评",)),
    ]
    assert any("GB18030" in note for note in table.notes) == (encoding == "gb18030")


def test_plain_lines_are_streamed_one_for_one() -> None:
    assert stream(CLASSIFY, "one", "", "two") == [
        TextExample("one", None, (), None, "stdin:1"),
        TextExample("", None, (), None, "stdin:2"),
        TextExample("two", None, (), None, "stdin:3"),
    ]
    assert stream(TAG, "one\twith a tab") == [TagExample("one\twith a tab", None, "stdin:1")]


@pytest.mark.parametrize(
    ("task", "row", "expected"),
    [
        ("classify", {"text": "a"}, TextExample("a", None, (), None, "stdin:1")),
        ("classify", {"text": "a", "label": "x"}, TextExample("a", None, ("x",), None, "stdin:1")),
        (
            "classify",
            {"text": "a", "labels": ["x", "y"]},
            TextExample("a", None, ("x", "y"), None, "stdin:1"),
        ),
        ("classify", {"text": "a", "score": 0.5}, TextExample("a", None, (), 0.5, "stdin:1")),
        ("classify", {"text": "a", "score": "high"}, TextExample("a", None, (), None, "stdin:1")),
        ("pair", {"text_a": "a", "text_b": "b"}, TextExample("a", "b", (), None, "stdin:1")),
        ("tag", {"text": "ab", "spans": [[0, 1, "X"]]}, TagExample("ab", (Span(0, 1, "X"),), "stdin:1")),
        ("tag", {"text": "ab"}, TagExample("ab", None, "stdin:1")),
        (
            "answer",
            {"question": "q", "context": "c", "id": 7},
            AnswerExample("7", "q", "c", None, "stdin:1"),
        ),
    ],
)
def test_objects_are_streamed_for_every_task(task: str, row: dict[str, Any], expected: Example) -> None:
    assert stream(schema_of(task), json.dumps(row)) == [expected]


def test_columns_are_streamed() -> None:
    assert stream(PAIR, "a\tb", "c\td", "e") == [
        TextExample("a", "b", (), None, "stdin:1"),
        TextExample("c", "d", (), None, "stdin:2"),
        BadRow("stdin:3", "1 columns, expected 2"),
    ]
    assert stream(ANSWER, "q\tc") == [AnswerExample("stdin:1", "q", "c", None, "stdin:1")]
    assert stream(CLASSIFY, "label\ttext", "1\tgood") == [TextExample("good", None, ("1",), None, "stdin:2")]
    assert stream(CLASSIFY, "1\tgood", "0\tbad", name="a.tsv.gz") == [
        TextExample("good", None, ("1",), None, "a.tsv.gz:1"),
        TextExample("bad", None, ("0",), None, "a.tsv.gz:2"),
    ]
    assert stream(CLASSIFY, "x,1", name="a.csv", columns={"text": "0"}) == [
        TextExample("x", None, (), None, "a.csv:1")
    ]


def test_a_bad_row_keeps_its_place_and_the_stream_continues() -> None:
    found = stream(CLASSIFY, '{"text": "a"}', "{oops", '{"text": 7}', '{"text": "b"}')
    assert [type(item).__name__ for item in found] == ["TextExample", "BadRow", "BadRow", "TextExample"]
    assert [item.where for item in found] == ["stdin:1", "stdin:2", "stdin:3", "stdin:4"]


@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("classify", "plain"),
        ("classify", '{"text": "a"}'),
        ("pair", "a\tb"),
        ("tag", "plain"),
        ("tag", '{"text": "a"}'),
        ("answer", '{"question": "q", "context": "c"}'),
    ],
)
def test_a_stream_answers_each_line_before_it_reads_the_next(task: str, line: str) -> None:
    num_read = 0

    def endless() -> Iterator[str]:
        nonlocal num_read
        while True:
            num_read += 1
            yield line

    examples = stream_examples(schema_of(task), endless(), "stdin", ReadOptions())
    for count in range(1, 4):
        assert not isinstance(next(examples), BadRow)
        assert num_read == count
    assert sum(1 for _ in islice(examples, 1_000)) == 1_000


def test_a_stream_of_conll_columns_is_recognised_by_its_name() -> None:
    (example,) = stream(TAG, "Ann\tB-PER", "left\tO", name="a.conll")
    assert isinstance(example, TagExample)
    assert (example.text, example.spans) == ("Ann left", (Span(0, 3, "PER"),))


def test_what_cannot_be_streamed_is_refused() -> None:
    with pytest.raises(UserError, match="parquet cannot be streamed"):
        stream(CLASSIFY, "x", format="parquet")
    with pytest.raises(DataError, match=r"stdin: looks like text, which answer does not read"):
        stream(ANSWER, "only a question")


def test_a_stream_with_ever_new_keys_is_answered() -> None:
    found = stream(CLASSIFY, *(json.dumps({"text": "a", f"key{i}": i}) for i in range(1_000)))
    assert {item.text for item in found if isinstance(item, TextExample)} == {"a"}
    assert len(found) == 1_000


def test_a_stream_of_nothing_is_empty() -> None:
    assert stream(CLASSIFY) == []
    assert stream(TAG, name="a.jsonl") == []
