import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from glassbert.data.examples import ReadOptions
from glassbert.data.rows.formats import formats_of
from glassbert.data.rows.read import read_examples
from glassbert.errors import DataError, UserError
from glassbert.tasks.classify.rows import CLASSIFY, PAIR
from glassbert.tasks.registry import TASKS, schema_of
from glassbert.tasks.tag.rows import TAG

Write = Callable[[str, str | bytes], Path]


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("a.csv", "text,label\nx,1\n", "csv"),
        ("a.CSV", "text,label\nx,1\n", "csv"),
        ("a.tsv", "text\tlabel\nx\t1\n", "tsv"),
        ("a.jsonl", '{"text": "x"}\n', "jsonl"),
        ("a.json", '[{"text": "x"}]', "json"),
        ("a.json", '{"text": "x"}\n{"text": "y"}\n', "json"),
        ("a.txt", "text\tlabel\nx\t1\n", "tsv"),
        ("a.txt", '{"text": "x"}\n', "jsonl"),
        ("a.txt", "x\n", "text"),
        ("a", "x\n", "text"),
    ],
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_the_format_is_detected(write: Write, name: str, content: str, format: str, is_packed: bool) -> None:
    data = gzip.compress(content.encode()) if is_packed else content.encode()
    table = read_examples(CLASSIFY, write(name + ".gz" * is_packed, data))
    assert table.format == format
    assert table.examples[0].text == "x"


def test_the_format_that_the_user_names_wins(write: Write) -> None:
    path = write("a.csv", "text\tlabel\nx, y\t1\n")
    assert read_examples(CLASSIFY, path, ReadOptions(format="tsv")).examples[0].text == "x, y"


def test_a_format_that_the_task_does_not_read_is_refused(write: Write) -> None:
    path = write("a.csv", "text,label\nx,1\n")
    with pytest.raises(UserError, match=r"format 'squad' is not read by classify; use one of csv, tsv, "):
        read_examples(CLASSIFY, path, ReadOptions(format="squad"))
    with pytest.raises(
        DataError, match=r"a\.csv: looks like csv, which tag does not read; give JSON, or name"
    ):
        read_examples(TAG, path)
    with pytest.raises(
        DataError, match=r"looks like text, which pair .* give JSON or columns separated by tabs"
    ):
        read_examples(PAIR, write("a.txt", "only one text\n"))


@pytest.mark.parametrize("name", ["a.xlsx", "a.zip", "a.xz"])
def test_files_that_nothing_here_can_read_are_refused_with_advice(write: Write, name: str) -> None:
    with pytest.raises(UserError, match=r"is not read; (save the sheet as CSV|unpack it)"):
        read_examples(CLASSIFY, write(name, b"PK\x03\x04"))


@pytest.mark.parametrize("task", TASKS)
def test_every_task_reads_json_and_parquet(task: str) -> None:
    assert {"jsonl", "json", "parquet"} <= set(formats_of(schema_of(task)))
