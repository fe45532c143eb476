import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassbert.data.examples import Span, TextExample
from glassbert.data.rows.parquet import _class_names
from glassbert.data.rows.read import file_examples, read_examples
from glassbert.errors import DataError, UserError
from glassbert.tasks.classify.rows import CLASSIFY
from glassbert.tasks.tag.rows import TAG

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

FEATURES = {
    "label": {"names": ["neg", "pos"], "_type": "ClassLabel"},
    "ner_tags": {"feature": {"names": ["O", "B-PER", "I-PER"], "_type": "ClassLabel"}, "_type": "Sequence"},
    "text": {"dtype": "string", "_type": "Value"},
}
METADATA = {b"huggingface": json.dumps({"info": {"features": FEATURES}}).encode()}


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write columns to a file."""

    def write_columns(metadata: dict[bytes, bytes] | None = METADATA, **columns: Any) -> Path:
        table = pyarrow.table(columns).replace_schema_metadata(metadata)
        pyarrow.parquet.write_table(table, tmp_path / "a.parquet", compression="zstd")
        return tmp_path / "a.parquet"

    return write_columns


def test_rows_are_read_and_classes_have_their_names(write: Write) -> None:
    table = read_examples(CLASSIFY, write(text=["good", "bad"] * 2_000, label=[1, 0] * 2_000))
    assert [(example.text, example.labels) for example in table.examples] == [
        ("good", ("pos",)),
        ("bad", ("neg",)),
    ] * 2_000
    assert [example.where.rsplit(":", 1)[1] for example in table.examples] == [
        str(number) for number in range(1, 4_001)
    ]
    assert table.format == "parquet"


def test_classes_without_names_are_numbers(write: Write) -> None:
    path = write(text=["good"], label=[1], metadata=None)
    assert read_examples(CLASSIFY, path).examples[0].labels == ("1",)


def test_a_class_of_minus_one_is_no_label(write: Write) -> None:
    assert read_examples(CLASSIFY, write(text=["good"], label=[-1])).kind is None


def test_tokens_with_numbered_tags_are_read(write: Write) -> None:
    table = read_examples(TAG, write(tokens=[["Ann", "Lee", "left"]], ner_tags=[[1, 2, 0]]))
    assert table.examples[0].spans == (Span(0, 7, "PER"),)
    assert table.format == "tokens"


def test_a_file_that_is_not_parquet_is_reported_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"text, not parquet")
    with pytest.raises(DataError, match=r"a\.parquet: not parquet \(Parquet magic bytes not found in footer"):
        read_examples(CLASSIFY, path)


def test_a_damaged_page_is_reported_in_one_line(write: Write) -> None:
    path = write(text=[f"good {number}" for number in range(1_000)], label=[1] * 1_000)
    data = bytearray(path.read_bytes())
    data[100:200] = bytes(100)
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"a\.parquet: not parquet"):
        read_examples(CLASSIFY, path)


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"needs the package pyarrow; install it with `pip install pyarrow`"):
        read_examples(CLASSIFY, path)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"text": ["a" * (17 << 20)]}, "unpacks to more than 200 times its size"),
        ({"text": ["a" * (9 << 20)]}, "rows of more than 8 MB"),
        ({"text": ["a", "b", "a" * (9 << 20), "c"]}, r"a\.parquet:3: a row of more than 8 MB"),
        ({"text": ["a"] * 4, "more": [[], [], [], ["b" * (1 << 20)] * 9]}, r"a\.parquet:4: a row of more"),
    ],
)
def test_a_row_is_limited_as_a_line_is(write: Write, columns: dict[str, Any], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        list(file_examples(CLASSIFY, write(**columns)))


def test_the_limit_of_a_row_can_be_raised(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSBERT_MAX_LINE_MB", "10")
    (row,) = file_examples(CLASSIFY, write(text=["a" * (9 << 20)]))
    assert isinstance(row, TextExample)
    assert len(row.text) == 9 << 20


@pytest.mark.parametrize("name", ["text", "more"])
def test_rows_that_share_a_long_value_are_read_in_bounded_portions(
    write: Write, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSBERT_MAX_LINE_MB", "1")
    long = "a" * (1 << 19)
    path = write(**{"text": ["b"] * 150, name: [long if name == "text" else [long]] * 150})
    assert path.stat().st_size < 10_000
    before = pyarrow.total_allocated_bytes()
    largest = max(pyarrow.total_allocated_bytes() - before for _ in file_examples(CLASSIFY, path))
    assert largest < 20 << 20


@pytest.mark.parametrize(
    "features",
    [[], 5, None, "x", {"label": []}, {"label": 5}, {"label": [[]]}, {"label": {"feature": 5}},
     {"label": {"_type": "ClassLabel", "names": 5}}, {"label": {"_type": "ClassLabel", "names": [1, None]}}],
)  # fmt: skip
def test_odd_names_of_classes_are_ignored(features: object) -> None:
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    assert _class_names(metadata) == {}
