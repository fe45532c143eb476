"""The formats of labelled files: how each is recognised, and what reads it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassbert.arguments import checked
from glassbert.data.examples import BadRow
from glassbert.data.rows.conll import read_conll
from glassbert.data.rows.json_rows import looks_like_json, read_objects
from glassbert.data.rows.lines import Lines
from glassbert.data.rows.parquet import read_parquet
from glassbert.data.rows.record import Record
from glassbert.data.rows.schema import Schema
from glassbert.data.rows.tables import looks_like_tsv, read_csv, read_text, read_tsv
from glassbert.errors import DataError, UserError
from glassbert.text.files import unpacked_name

if TYPE_CHECKING:
    from glassbert.data.rows.source import Source


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of labelled files."""

    name: str
    read: Callable[["Source"], Iterator[Record | BadRow]]
    """Yields the rows of a source, their values named as the file names them, or by role."""
    suffixes: tuple[str, ...] = ()
    """How the names of such files end."""
    looks_like: Callable[[Lines], bool] | None = None
    """Recognises the format where the name of a file says nothing. Streams wait for each line that it peeks
    at, so it should look at the first one only."""
    is_general: bool = True
    """Whether every task reads it; otherwise only tasks whose schema lists it do."""
    is_by_role: bool = False
    """Whether ``read`` names values by role; otherwise columns are looked up by their usual names."""
    has_lines: bool = True
    """Whether the file is text; otherwise ``read`` opens it by its path, and it cannot be streamed."""


FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        Format(name="csv", read=read_csv, suffixes=(".csv",), is_general=False, is_by_role=True),
        Format(
            name="tsv",
            read=read_tsv,
            suffixes=(".tsv", ".tab"),
            looks_like=looks_like_tsv,
            is_general=False,
            is_by_role=True,
        ),
        Format(name="jsonl", read=read_objects, suffixes=(".jsonl", ".ndjson"), looks_like=looks_like_json),
        Format(name="json", read=read_objects, suffixes=(".json",)),
        Format(name="parquet", read=read_parquet, suffixes=(".parquet",), has_lines=False),
        Format(name="text", read=read_text, is_general=False, is_by_role=True),
        Format(
            name="conll",
            read=read_conll,
            suffixes=(".conll", ".bio", ".iob", ".bioes", ".bmes"),
            is_general=False,
            is_by_role=True,
        ),
        # JSON objects of a particular shape, which the schema of a task knows.
        *(
            Format(name=name, read=read_objects, is_general=False)
            for name in ("spans", "doccano", "cluener", "labelstudio", "tokens", "squad")
        ),
    )
}
"""By name, in the order in which messages list them."""

_REFUSED = {
    ".xlsx": "save the sheet as CSV",
    ".xls": "save the sheet as CSV",
    ".zip": "unpack it, or pack its file with gzip",
    ".tar": "unpack it",
    ".tgz": "unpack it",
    ".bz2": "unpack it, or pack its file with gzip",
    ".xz": "unpack it, or pack its file with gzip",
}


@checked
def register_format(format: Format) -> None:
    """Make a format known to every reader."""
    if format.name in FORMATS:
        raise UserError(f"there is a format {format.name!r} already; choose another name")
    FORMATS[format.name] = format


def formats_of(schema: Schema[Any]) -> list[str]:
    """Return the names of the formats that a task reads."""
    return [name for name, format in FORMATS.items() if format.is_general or name in schema.formats]


def format_of_path(schema: Schema[Any], name: str, asked: str | None) -> Format | None:
    """Return the format that is asked for, or that the name of a file shows; None if there is neither.

    Raise UserError for a format that the task does not read, and for files that nothing here can read.
    """
    known = formats_of(schema)
    if asked is not None and asked not in known:
        raise UserError(f"format {asked!r} is not read by {schema.task}; use one of {', '.join(known)}")
    if asked is not None:
        return FORMATS[asked]
    suffix = Path(unpacked_name(Path(name))).suffix.lower()
    if suffix in _REFUSED:
        raise UserError(f"{name}: {suffix} is not read; {_REFUSED[suffix]}")
    return next((format for format in FORMATS.values() if suffix in format.suffixes), None)


def detect_format(schema: Schema[Any], lines: Lines, by_name: Format | None, *, is_stream: bool) -> Format:
    """Return the format of a text file.

    Args:
        by_name: The format that the name of the file shows.
    """
    seen = (by_name or _by_content(lines)).name
    seen = schema.format_of_lines(seen, lines, can_look_ahead=by_name is not None or not is_stream)
    known = formats_of(schema)
    if seen not in known:
        raise DataError(
            f"{lines.name}: looks like {seen}, which {schema.task} does not read; give JSON"
            f"{' or columns separated by tabs' if 'tsv' in known else ''}, "
            f"or name the format with --format: {', '.join(known)}"
        )
    return FORMATS[seen]


def _by_content(lines: Lines) -> Format:
    # The last one first: formats that are registered from outside are more particular than ours.
    for format in reversed(FORMATS.values()):
        if format.looks_like is not None and format.looks_like(lines):
            return format
    return FORMATS["text"]
