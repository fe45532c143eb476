"""`glassbert tokenize`: show how a model's tokenizer cuts a text."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from glassbert.cli.output import print_assumptions, print_json, remark, stdin_lines
from glassbert.errors import UserError
from glassbert.interop.families import encoder_folder
from glassbert.ranges import LENGTH
from glassbert.text.truncate import Keep

if TYPE_CHECKING:
    from glassbert.text.wordpiece.tokenizer import Encoding

_LONGEST_SOURCE = 40


def tokenize(
    model: str,
    text: str | None = None,
    /,
    *,
    pair: str | None = None,
    max_length: Annotated[int | None, Parameter(validator=LENGTH)] = None,
    keep: Keep = "head",
    json: bool = False,
) -> None:
    """Cut text into the pieces of a model's vocabulary.

    Args:
        model: Folder with a vocabulary.
        text: Text to cut; without it, each line of stdin is one text.
        pair: Second text of a pair.
        max_length: Most pieces to return, specials included; the model's own limit when not given.
        keep: What is kept of a text that is too long: its head, its tail, or some of both.
        json: Print one JSON object per text.
    """
    from glassbert.text.wordpiece.tokenizer import Tokenizer

    if text is None and pair is not None:
        raise UserError("got --pair without a text; give both: glassbert tokenize MODEL TEXT --pair TEXT")
    tokenizer = Tokenizer.load(encoder_folder(model))
    print_assumptions(tokenizer)
    for number, source in enumerate(_sources(text), start=1):
        encoding = tokenizer.encode(source, pair, max_length=max_length, keep=keep)
        if json:
            print_json(_as_json(encoding))
        else:
            _print_table(encoding, source, pair or "", is_first=number == 1)
            _remark_on_losses(encoding, f"line {number}: " if text is None else "")


def _sources(text: str | None) -> Iterator[str]:
    return stdin_lines() if text is None else iter([text])


def _as_json(encoding: "Encoding") -> dict[str, object]:
    return {
        "pieces": encoding.pieces,
        "ids": encoding.ids,
        "segments": encoding.segments,
        "offsets": encoding.offsets,
        "truncated": encoding.truncated,
        "cut": [cut._asdict() for cut in encoding.cut],
        "unknown": encoding.num_unknown,
    }


def _print_table(encoding: "Encoding", text: str, pair: str, *, is_first: bool) -> None:
    """Print one row per piece with the characters of the text that it covers."""
    table = Table(box=None, pad_edge=False)
    for name in ("position", "piece", "id", "segment", "offsets", "source"):
        table.add_column(name, justify="left" if name in ("piece", "source") else "right", no_wrap=True)
    rows = zip(encoding.pieces, encoding.ids, encoding.segments, encoding.offsets, strict=True)
    for position, (piece, id_, segment, (start, end)) in enumerate(rows):
        source = _readable((pair if segment else text)[start:end])
        cells = (str(position), _readable(piece), str(id_), str(segment), f"{start}-{end}", source)
        table.add_row(*cells)
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 1000  # a file or a pipe has no edge to wrap at
    with console.capture() as capture:
        console.print(table)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    print("\n".join(lines if is_first else ["", *lines]))


def _readable(source: str) -> str:
    """Return ``source`` on one line, in full or, when it is long, its beginning."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in source)
    return shown if len(shown) <= _LONGEST_SOURCE else shown[: _LONGEST_SOURCE - 3] + "..."


def _remark_on_losses(encoding: "Encoding", where: str) -> None:
    """Report what the model will not see of the text."""
    for cut in encoding.cut:
        name = {"a": "text", "b": "pair"}[cut.text]
        remark(f"{where}pieces cut: {cut.num_pieces}, characters {cut.start}-{cut.end} of the {name}")
    if encoding.num_unknown:
        remark(f"{where}pieces unknown: {encoding.num_unknown} of {len(encoding.ids)}")
