"""Printing: results on stdout, everything else on stderr."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from glassbert.messages import STEERING as _STEERING
from glassbert.messages import one_line
from glassbert.parsing import json_text
from glassbert.text.files import read_stream

if TYPE_CHECKING:
    from glassbert.inference.model import Model
    from glassbert.text.wordpiece.tokenizer import Tokenizer

JsonValue = Mapping[str, Any] | Sequence[Any]
_NOT_ASCII = re.compile(r"[^\x00-\x7e]")


# Progress and remarks; stdout stays clean for results.
class _Messages(Console):
    """A console that ignores a closed pipe: remarks are not results."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


messages = _Messages(stderr=True, highlight=False)


def _refuse_options(_: object, value: str) -> None:
    """Refuse an unknown option where - means stdin; a file of that name is not an option."""
    if value.startswith("-") and value != "-" and not Path(value).exists():
        raise ValueError(f'Unknown option: "{value}".')


InputSource = Annotated[str, Parameter(name="INPUT", allow_leading_hyphen=True, validator=_refuse_options)]
"""A file, or - for stdin."""


def print_json(value: JsonValue) -> None:
    """Print ``value`` as one line of JSON; Chinese is not escaped."""
    text = json_text(value)
    if not text.isascii() or "\x7f" in text:
        is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
        text = (_STEERING if is_unicode else _NOT_ASCII).sub(_escaped, text)
    print(text)


def print_lines(lines: Iterable[object]) -> None:
    """Print lines of text that may quote names, pieces and labels; none of them controls a terminal."""
    for line in lines:
        print(one_line(str(line)))


def _escaped(found: re.Match[str]) -> str:
    """Return a character as JSON can write it in ASCII."""
    return "".join(f"\\u{int.from_bytes(unit, 'big'):04x}" for unit in _units(found[0]))


def _units(character: str) -> Iterator[bytes]:
    encoded = character.encode("utf-16-be", "surrogatepass")
    return (encoded[place : place + 2] for place in range(0, len(encoded), 2))


def remark(text: str) -> None:
    """Print a line for the user that is not a result."""
    with suppress(OSError):  # a closed terminal is not an error
        messages.print(one_line(text), markup=False, soft_wrap=True)


def print_assumptions(tokenizer: "Tokenizer") -> None:
    """Print what was assumed because a folder does not say how it splits text."""
    for assumption in tokenizer.assumptions:
        remark(f"assumed: {assumption}")


def print_remarks(model: "Model") -> None:
    """Print what is odd about a model folder: unused weights and keys, and what was assumed."""
    for line in model.report.remarks():
        remark(line)
    print_assumptions(model.tokenizer)


def progress_bar() -> Progress:
    """Return the progress bar of every long verb; it is silent if stderr is not a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal)


def stdin_lines() -> Iterator[str]:
    """Yield the lines of stdin without their line ends."""
    return read_stream(sys.stdin.buffer, "stdin")
