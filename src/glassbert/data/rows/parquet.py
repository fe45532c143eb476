"""Parquet to records, by the package pyarrow if it is installed."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassbert.data.rows.record import Record
from glassbert.errors import DataError, UserError
from glassbert.parsing import parse_json

if TYPE_CHECKING:
    from glassbert.data.rows.source import Source

_BATCH_ROWS = 1024


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
            f"{path}: not parquet ({' '.join(str(error).split())}); copy the file again"
        ) from None


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
