"""Files to examples: the whole of a labelled file, checked, or a stream of texts to be answered."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from glassbert.data.examples import (
    AnswerExample,
    BadRow,
    Example,
    Kind,
    ReadOptions,
    Table,
    TagExample,
    TaskName,
    TextExample,
)
from glassbert.data.rows.lines import Lines
from glassbert.data.rows.questions import with_unique_ids
from glassbert.data.rows.record import Notes
from glassbert.data.rows.source import Source, open_source, stream_source
from glassbert.data.rows.texts import finish_streamed, settle
from glassbert.errors import DataError
from glassbert.storage import sha256_of

_SHOWN_BAD_ROWS = 3


@overload
def read_examples(
    task: Literal["classify", "pair"], path: Path, options: ReadOptions = ...
) -> Table[TextExample]: ...
@overload
def read_examples(task: Literal["tag"], path: Path, options: ReadOptions = ...) -> Table[TagExample]: ...
@overload
def read_examples(
    task: Literal["answer"], path: Path, options: ReadOptions = ...
) -> Table[AnswerExample]: ...
@overload
def read_examples(task: TaskName, path: Path, options: ReadOptions = ...) -> Table[Any]: ...


def read_examples(task: TaskName, path: Path, options: ReadOptions | None = None) -> Table[Any]:
    """Return the examples of a file; more bad rows than ``options`` allow are an error with the first."""
    options = options or ReadOptions()
    notes = Notes()
    source = open_source(task, path, options, notes)
    items, kind = _items(source)
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
    task: TaskName,
    lines: Iterable[str],
    name: str,
    options: ReadOptions | None = None,
    notes: Notes | None = None,
) -> Iterator[Example | BadRow]:
    """Yield an example, or what is wrong with it, for each row as it comes; labels are optional.

    Rows are JSON lines, TSV or plain text, or any other format that comes in lines.

    Args:
        notes: Takes what is to be told of how the rows were read.
    """
    options = options or ReadOptions()
    source = stream_source(task, Lines(lines, name), options, notes or Notes())
    if task == "tag":
        yield from source.tagged()
    elif task == "answer":
        yield from source.questions()
    else:
        for draft in source.drafts():
            yield draft if isinstance(draft, BadRow) else finish_streamed(draft, options.kind)


def _items(source: Source) -> tuple[Sequence[Example | BadRow], Kind | None]:
    if source.task == "tag":
        tagged = list(source.tagged())
        is_labelled = any(isinstance(item, TagExample) and item.spans is not None for item in tagged)
        return [_labelled(item, is_labelled) for item in tagged], None
    if source.task == "answer":
        questions = list(with_unique_ids(source.questions(), source.notes))
        is_labelled = any(isinstance(item, AnswerExample) and item.answers is not None for item in questions)
        return [_labelled(item, is_labelled) for item in questions], None
    return settle(list(source.drafts()), source.options.kind, source.notes)


def _labelled(item: TagExample | AnswerExample | BadRow, is_labelled: bool) -> Example | BadRow:
    """Return the item; in a file with labels, one without is bad."""
    if is_labelled and isinstance(item, TagExample) and item.spans is None:
        return BadRow(
            item.where, "no spans, though other rows have them; an empty list says that there are none"
        )
    if is_labelled and isinstance(item, AnswerExample) and item.answers is None:
        return BadRow(
            item.where, "no answers, though other rows have them; an empty list says that there are none"
        )
    return item


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
