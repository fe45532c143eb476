"""The files that a job writes: JSON lines, or parquet for vectors; formats that any tool can read."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from glassbert.bulk.jobs import OutputFormat
from glassbert.data.examples import BadRow
from glassbert.errors import UserError
from glassbert.parsing import json_text

if TYPE_CHECKING:
    from glassbert.bulk.jobs import Answer

_ROWS_OF_A_GROUP = 1024


class Writer(Protocol):
    """Writes the answers of one file, a row each."""

    def add(self, row: "Answer | BadRow") -> None:
        """Write the next row; a bad one keeps its place, with the reason."""

    def finish(self) -> None:
        """Write the rows that are still held back."""

    def close(self) -> None:
        """Close the file, finished or not."""


class JsonLines:
    """An object for each row, as the verb prints it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def add(self, row: "Answer | BadRow") -> None:
        content = {"error": row.reason, "where": row.where} if isinstance(row, BadRow) else row.to_json()
        self._file.write(f"{json_text(content)}\n".encode())

    def finish(self) -> None:
        pass  # every row is written at once

    def close(self) -> None:
        pass


class ParquetVectors:
    """Columns embedding (a list of float32 of fixed length), tokens, truncated; error where a row is bad."""

    def __init__(self, file: BinaryIO, width: int) -> None:
        try:
            self._arrow: Any = importlib.import_module("pyarrow")
            parquet: Any = importlib.import_module("pyarrow.parquet")
        except ImportError:
            raise UserError(
                "writing parquet needs the package pyarrow; install it: pip install 'glassbert[parquet]', "
                "or write jsonl"
            ) from None
        pa = self._arrow
        self._schema = pa.schema(
            {
                "embedding": pa.list_(pa.float32(), width),
                "tokens": pa.int32(),
                "truncated": pa.bool_(),
                "error": pa.string(),
            }
        )
        self._writer = parquet.ParquetWriter(file, self._schema)
        self._rows: list[dict[str, Any]] = []

    def add(self, row: "Answer | BadRow") -> None:
        content = {"error": f"{row.where}: {row.reason}"} if isinstance(row, BadRow) else row.to_json()
        self._rows.append(content)
        if len(self._rows) == _ROWS_OF_A_GROUP:
            self._write_rows()

    def finish(self) -> None:
        self._write_rows()
        self._writer.close()

    def close(self) -> None:
        self._writer.is_open = False  # otherwise it writes on, into a closed file, when it is forgotten

    def _write_rows(self) -> None:
        if self._rows:
            self._writer.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
            self._rows = []


@contextmanager
def writer_to(file: BinaryIO, to: OutputFormat, width: int) -> Iterator[Writer]:
    """Return the writer of a job's answers.

    Args:
        width: Numbers of a vector.
    """
    writer: Writer = JsonLines(file) if to == "jsonl" else ParquetVectors(file, width)
    try:
        yield writer
        writer.finish()
    finally:
        writer.close()
