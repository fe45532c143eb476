"""Labelled files to examples: a whole file, checked, or a stream of texts to be answered."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from glassbert.data.examples import BadRow, E, ReadOptions, Table
from glassbert.data.rows.formats import format_of_path
from glassbert.data.rows.lines import Lines, open_lines
from glassbert.data.rows.record import Notes
from glassbert.data.rows.schema import Schema
from glassbert.data.rows.source import open_source, stream_source
from glassbert.errors import DataError
from glassbert.storage import sha256_of

_SHOWN_BAD_ROWS = 3


def read_examples(schema: Schema[E], path: Path, options: ReadOptions | None = None) -> Table[E]:
    """Return the examples of a file; raise DataError if it has more bad rows than ``options`` allow."""
    options = options or ReadOptions()
    notes = Notes()
    source = open_source(schema, path, options, notes)
    found, kind = schema.read_all(source)
    items = [_unless_empty(schema, item) for item in found]
    bad = [item for item in items if isinstance(item, BadRow)]
    if not items:
        raise DataError(f"{path}: no rows in it; is it the right file?")
    if len(bad) > options.skip_bad:
        raise DataError(_too_many(path, bad, len(items), source.format, options))
    examples = [item for item in items if not isinstance(item, BadRow)]
    if not examples:
        raise DataError(f"{path}: no good row in it, {len(bad):,} bad; the first: {_shown(bad[0])}")
    sha256 = sha256_of(path) if path.is_file() else ""  # a pipe can be read only once
    return Table(examples, bad, notes.lines(), source.format, sha256, kind)


def stream_examples(
    schema: Schema[E],
    lines: Iterable[str],
    name: str,
    options: ReadOptions | None = None,
    notes: Notes | None = None,
) -> Iterator[E | BadRow]:
    """Yield an example, or what is wrong with the row, for each row as it arrives; labels are optional.

    An empty text is a row too, and so is a blank line of a plain text.

    Args:
        lines: In any format that has lines, such as JSON lines, TSV or plain text.
        notes: Receives remarks on how the rows were read.
    """
    options = options or ReadOptions()
    return schema.read(stream_source(schema, Lines(lines, name), options, notes or Notes()))


def file_examples(
    schema: Schema[E], path: Path, options: ReadOptions | None = None, notes: Notes | None = None
) -> Iterator[E | BadRow]:
    """Yield an example, or what is wrong with the row, for each row of a file of any size and format.

    Labels are optional. An empty text is a row too, and so is a blank line of a plain text.
    """
    options, notes = options or ReadOptions(), notes or Notes()
    format = format_of_path(schema, str(path), options.format)
    if format is not None and not format.has_lines:
        return schema.read(open_source(schema, path, options, notes))
    return schema.read(stream_source(schema, open_lines(path, notes), options, notes))


def _unless_empty(schema: Schema[E], item: E | BadRow) -> E | BadRow:
    """Refuse a row with an empty text: nothing can be learned from it or measured with it."""
    if isinstance(item, BadRow):
        return item
    empty = [role for role, text in zip(schema.required, item.texts, strict=False) if not text.strip()]
    return BadRow(item.where, f"the {empty[0]} is empty") if empty else item


def _too_many(path: Path, bad: list[BadRow], num_rows: int, format: str, options: ReadOptions) -> str:
    guess = "" if options.format else f", read as {format}"
    first = "; ".join(map(_shown, bad[:_SHOWN_BAD_ROWS]))
    more = f"; and {len(bad) - _SHOWN_BAD_ROWS:,} more" if len(bad) > _SHOWN_BAD_ROWS else ""
    allowed = f", {options.skip_bad:,} allowed" if options.skip_bad else ""
    return (
        f"{path}: {len(bad):,} bad of {num_rows:,} rows{guess}{allowed}: {first}{more}; "
        f"correct them, or leave them out with --skip-bad {len(bad)}"
    )


def _shown(bad: BadRow) -> str:
    return f"{bad.where}: {bad.reason}"
