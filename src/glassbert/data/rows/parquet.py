"""Parquet to records, with the package pyarrow if it is there."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glassbert.data.rows.record import Record
from glassbert.errors import DataError, UserError

_BATCH_ROWS = 1024


def read_parquet(path: Path) -> Iterator[Record]:
    """Yield the rows of a file, part by part; numbers of classes are given the names that the file has."""
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UserError(
            f"{path}: reading parquet needs the package pyarrow; install it with `pip install pyarrow`, "
            "or save the table as CSV or JSON lines"
        ) from None
    pyarrow = importlib.import_module("pyarrow")
    try:
        with parquet.ParquetFile(path) as file:
            class_names = _class_names(file.schema_arrow.metadata or {})
            number = 0
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    for column, names in class_names.items():
                        row[column] = _named(row.get(column), names)
                    yield Record(f"{path}:{number}", row)
    except pyarrow.ArrowException as error:
        raise DataError(
            f"{path}: not parquet ({' '.join(str(error).split())}); fetch the file again"
        ) from None


def _class_names(metadata: dict[bytes, bytes]) -> dict[str, list[str]]:
    """Return the names of classes that the `datasets` library keeps in the schema, by column."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError):
        return {}
    found = {}
    for column, feature in features.items():
        # A list of classes is written in two ways, by old and new versions.
        inner = feature.get("feature", feature) if isinstance(feature, dict) else feature[0]
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" and inner.get("names"):
            found[column] = inner["names"]
    return found


def _named(value: Any, names: list[str]) -> Any:
    if isinstance(value, list):
        return [_named(item, names) for item in value]
    if value == -1:
        return None  # how that library writes that there is no label
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else value
