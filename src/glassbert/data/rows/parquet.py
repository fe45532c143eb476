"""Parquet to records, by the package pyarrow, if installed."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassbert.data.rows.parquet_pages import NoPages, pages
from glassbert.data.rows.record import Record
from glassbert.errors import DataError, UserError
from glassbert.open_files import DOCUMENT, LINE, PartsFile, check_regular
from glassbert.parsing import parse_json
from glassbert.text.unpack import check_ratio

if TYPE_CHECKING:
    from glassbert.data.rows.source import Source

_MAX_ROWS = 1024
_BATCH_LINES = 8
"""A batch may have as many bytes as this many of the longest lines."""
_LEAST_BYTES = 8
"""That a value of a list takes in memory, however it is stored."""


def read_parquet(source: "Source") -> Iterator[Record]:
    """Yield the rows of a file, batch by batch; class numbers become the names that the schema has."""
    path = Path(source.name)
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UserError(
            f"{path}: reading parquet needs the package pyarrow; install it with `pip install pyarrow`, "
            "or save the table as CSV or JSON lines"
        ) from None
    check_regular(path, error=DataError)
    pyarrow = importlib.import_module("pyarrow")
    try:
        with parquet.ParquetFile(path) as file:
            class_names = _class_names(file.schema_arrow.metadata or {})
            for number, row in enumerate(_rows(file, PartsFile(path, error=DataError)), start=1):
                for column, names in class_names.items():
                    row[column] = _named(row.get(column), names)
                yield Record(f"{path}:{number}", row)
    except UserError:
        raise
    # Arrow's own errors, and Python's for what it has no value for: names of other bytes, the year 10,000.
    except (pyarrow.ArrowException, NoPages, OSError, ValueError, OverflowError) as error:
        raise DataError(
            f"{path}: cannot be read as parquet ({' '.join(str(error).split())}); copy the file again, or "
            "save it as JSON lines"
        ) from None


def _rows(file: Any, parts: PartsFile) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file in bounded memory; a row may be as long as a line of text."""
    number = 0
    for group in range(file.num_row_groups):
        num_rows = _rows_at_once(file, group, parts)
        for batch in file.iter_batches(num_rows, row_groups=[group]):
            if batch.nbytes <= LINE.num_bytes:
                yield from batch.to_pylist()
                number += batch.num_rows
                continue
            for row in (batch.slice(at, 1) for at in range(batch.num_rows)):
                number += 1
                if row.nbytes > LINE.num_bytes:
                    raise DataError(f"{parts.path}:{number}: {LINE.exceeded('a row')}")
                yield from row.to_pylist()


def _rows_at_once(file: Any, group: int, parts: PartsFile) -> int:
    """Return how many rows of a row group fit into the memory, whichever they are."""
    about = file.metadata.row_group(group)
    longest = num_bytes = num_packed_bytes = 0
    for number in range(about.num_columns):
        column, leaf = about.column(number), file.schema.column(number)
        start = min(filter(None, (column.dictionary_page_offset, column.data_page_offset)), default=0)
        # A slot of a value of fixed length takes its room even where there is none.
        longest_value = leaf.length if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" else 0
        for page in pages(parts, start, column.total_compressed_size):
            unpacked = max(page.num_bytes, _LEAST_BYTES * page.num_values if leaf.max_repetition_level else 0)
            if unpacked > DOCUMENT.num_bytes:
                raise DataError(f"{parts.path}: {DOCUMENT.exceeded('a page')}")
            # All rows may share a value that is stored once, and a list may have all values of its page.
            is_shared = page.is_dictionary or page.has_shared_prefixes or leaf.max_repetition_level
            of_a_row = unpacked if is_shared else unpacked // max(page.num_values, 1)
            longest_value = max(longest_value, of_a_row)
            num_bytes += page.num_bytes
            num_packed_bytes += page.num_packed_bytes
        longest += longest_value
    check_ratio(parts.path, num_bytes, num_packed_bytes)
    return int(max(1, min(_MAX_ROWS, _BATCH_LINES * LINE.num_bytes // max(longest, 1))))


def _class_names(metadata: dict[bytes, bytes]) -> dict[str, list[str]]:
    """Return the names of classes that the `datasets` library keeps in the schema, by column."""
    try:
        features = parse_json(metadata[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError):
        return {}
    found = {}
    for column, feature in features.items() if isinstance(features, dict) else ():
        # Old and new versions write a list of classes differently.
        inner = feature[0] if isinstance(feature, list) and feature else feature
        inner = inner.get("feature", inner) if isinstance(inner, dict) else None
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel":
            names = inner.get("names")
            if isinstance(names, list) and all(isinstance(name, str) for name in names):
                found[column] = names
    return found


def _named(value: Any, names: list[str]) -> Any:
    if isinstance(value, list):
        return [_named(item, names) for item in value]
    if value == -1:
        return None  # how `datasets` marks a missing label
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else value
