import json
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from glassbert.data.examples import Span, TextExample
from glassbert.data.rows.parquet import _class_names
from glassbert.data.rows.parquet_pages import NoPages, pages
from glassbert.data.rows.read import file_examples, read_examples
from glassbert.errors import DataError, UserError
from glassbert.open_files import PartsFile
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
    with pytest.raises(
        DataError, match=r"a\.parquet: cannot be read as parquet \(Parquet magic bytes not found in footer"
    ):
        read_examples(CLASSIFY, path)


def test_a_damaged_page_is_reported_in_one_line(write: Write) -> None:
    path = write(text=[f"good {number}" for number in range(1_000)], label=[1] * 1_000)
    data = bytearray(path.read_bytes())
    data[100:200] = bytes(100)
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"a\.parquet: cannot be read as parquet"):
        read_examples(CLASSIFY, path)


def test_what_python_has_no_value_for_is_reported_in_one_line(write: Write) -> None:
    path = write(text=["good"], label=pyarrow.array([2**30], pyarrow.date32()))
    with pytest.raises(DataError, match=r"a\.parquet: cannot be read as parquet \("):
        read_examples(CLASSIFY, path)
    path = write(text=["good"], other=["x"])
    path.write_bytes(path.read_bytes().replace(b"other", b"\x80ther"))
    with pytest.raises(DataError, match=r"a\.parquet: cannot be read as parquet \("):
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
        ({"text": ["a" * (9 << 20)]}, r"a\.parquet:1: a row of more than 8 MB"),
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


def most_memory(path: Path) -> int:
    """Return the most bytes that pyarrow holds while the rows of a file are read, or refused."""
    pool, before = pyarrow.proxy_memory_pool(pyarrow.default_memory_pool()), pyarrow.default_memory_pool()
    pyarrow.set_memory_pool(pool)
    try:
        for row in file_examples(CLASSIFY, path):
            del row
    except DataError:
        pass
    finally:
        pyarrow.set_memory_pool(before)
    return int(pool.max_memory())


def lie(path: Path) -> Path:
    """Let the footer of a file say that each column and row group has fifty bytes."""
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    footer, metadata = data[-8 - size : -8], pyarrow.parquet.ParquetFile(path).metadata
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        columns = map(group.column, range(group.num_columns))
        for count in {group.total_byte_size, *(column.total_uncompressed_size for column in columns)}:
            number, written = 2 * count, b""
            while number > 127:
                written, number = written + bytes([number & 127 | 128]), number >> 7
            written += bytes([number])
            fifty = bytes([100 | 128, *[128] * (len(written) - 2), 0]) if len(written) > 1 else b"d"
            footer = footer.replace(written, fifty)
    path.write_bytes(data[: -8 - size] + footer + data[-8:])
    return path


# How a few kilobytes become many megabytes: the columns, and how pyarrow writes them.
LONG = "a" * (1 << 20)
SWELLING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one page": ({"text": [LONG] * 300}, {"data_page_size": 1 << 30, "write_batch_size": 1000}),
    "the long rows last": ({"text": ["a"] * 20_000 + [LONG] * 200}, {}),
    "shared prefixes": ({"text": [LONG] * 300}, {"column_encoding": "DELTA_BYTE_ARRAY"}),
    "a list of nothing": ({"text": ["a"], "more": [[None] * (60 << 20)]}, {"use_dictionary": True}),
    "values of fixed length": (
        {"text": ["a"] * 300, "more": pyarrow.array([None] * 300, pyarrow.binary(1 << 20))},
        {},
    ),
}


@pytest.mark.parametrize("name", SWELLING)
def test_no_footer_makes_a_small_file_fill_the_memory(name: str, tmp_path: Path) -> None:
    columns, options = SWELLING[name]
    path = tmp_path / "a.parquet"
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(
        table, path, **{"compression": "zstd", "use_dictionary": False, "write_statistics": False, **options}
    )
    assert path.stat().st_size < 400_000
    del table
    assert most_memory(lie(path)) < 160 << 20


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False},
        {"data_page_version": "2.0"},
        {"compression": "none", "write_batch_size": 10, "data_page_size": 100},
        {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY", "compression": "gzip"},
        {"write_page_checksum": True, "row_group_size": 300},
    ],
)
def test_pages_are_found_as_they_were_written(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "a.parquet"
    texts = [f"{number} " * (number % 50) for number in range(1_000)]
    pyarrow.parquet.write_table(pyarrow.table({"text": texts}), path, write_statistics=False, **options)
    metadata, file = pyarrow.parquet.ParquetFile(path).metadata, PartsFile(path)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        column = group.column(0)
        start = column.dictionary_page_offset or column.data_page_offset
        found = list(pages(file, start, column.total_compressed_size))
        assert sum(page.num_values for page in found if not page.is_dictionary) == group.num_rows
        assert [page.is_dictionary for page in found][:1] == [column.dictionary_page_offset is not None]
        encoded = options.get("column_encoding") is not None
        assert {page.has_shared_prefixes for page in found} == {encoded}
        # The headers themselves are counted in the footer, and not here.
        size = sum(page.num_bytes for page in found)
        assert size < column.total_uncompressed_size < size + 200 * len(found)


def test_bytes_that_are_no_pages_are_refused(tmp_path: Path) -> None:
    path, draw = tmp_path / "a", random.Random(0)
    for number in range(2_000):
        path.write_bytes(draw.randbytes(draw.randrange(60)))
        file = PartsFile(path)
        with suppress(NoPages):
            list(pages(file, 0, file.size + (number % 50 == 0)))
    for data in (
        b"\x1c" * 100,
        b"\x19" * 5_000,
        b"\x19\xff" + b"\xff" * 20,
        b"\x15" + b"\xff" * 40,
        b"\x15\x01\x15\x01\x15\x01\x00",
    ):
        path.write_bytes(data)
        with pytest.raises(NoPages):
            list(pages(PartsFile(path), 0, len(data)))


@pytest.mark.parametrize(
    "features",
    [[], 5, None, "x", {"label": []}, {"label": 5}, {"label": [[]]}, {"label": {"feature": 5}},
     {"label": {"_type": "ClassLabel", "names": 5}}, {"label": {"_type": "ClassLabel", "names": [1, None]}}],
)  # fmt: skip
def test_odd_names_of_classes_are_ignored(features: object) -> None:
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    assert _class_names(metadata) == {}
