"""Parquet to records, by the package pyarrow if it is installed."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassbert.data.rows.record import Record
from glassbert.errors import DataError, UserError
from glassbert.open_files import LINE, check_regular
from glassbert.parsing import parse_json
from glassbert.text.unpack import check_ratio

if TYPE_CHECKING:
    from glassbert.data.rows.source import Source

_MOST_ROWS = 1024
_BATCH_LINES = 8
"""A batch may have as many bytes as this many of the longest lines."""


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
            for number, row in enumerate(_rows(file, path, parquet), start=1):
                for column, names in class_names.items():
                    row[column] = _named(row.get(column), names)
                yield Record(f"{path}:{number}", row)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(
            f"{path}: not parquet ({' '.join(str(error).split())}); copy the file again"
        ) from None


def _rows(file: Any, path: Path, parquet: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file in bounded memory; a row may be as long as a line of text."""
    number = 0
    for group in range(file.num_row_groups):
        num_rows = _rows_at_once(file, group, path, parquet)
        for batch in file.iter_batches(num_rows, row_groups=[group]):
            if batch.nbytes <= LINE.num_bytes:
                yield from batch.to_pylist()
                number += batch.num_rows
                continue
            for row in (batch.slice(at, 1) for at in range(batch.num_rows)):
                number += 1
                if row.nbytes > LINE.num_bytes:
                    raise DataError(f"{path}:{number}: {LINE.exceeded('a row')}")
                yield from row.to_pylist()


def _rows_at_once(file: Any, group: int, path: Path, parquet: Any) -> int:
    """Return how many rows of a row group fit into the memory, whichever they are.

    A value that all rows share is stored once, in the dictionary of its column: a file of a kilobyte can hold
    a gigabyte of rows. The dictionaries come with any row that is read without resolving them.
    """
    about = file.metadata.row_group(group)
    columns = [about.column(number) for number in range(about.num_columns)]
    check_ratio(path, about.total_byte_size, sum(column.total_compressed_size for column in columns))
    mean_bytes = about.total_byte_size // max(about.num_rows, 1)
    if mean_bytes > LINE.num_bytes:
        raise DataError(f"{path}: {LINE.exceeded('rows')}")
    texts = [column.path_in_schema for column in columns if column.physical_type == "BYTE_ARRAY"]
    with parquet.ParquetFile(path, read_dictionary=texts) as unresolved:
        one = next(unresolved.iter_batches(1, row_groups=[group]), None)
    longest = max(mean_bytes, one.nbytes if one is not None else 0, 1)
    return int(max(1, min(_MOST_ROWS, _BATCH_LINES * LINE.num_bytes // longest)))


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
