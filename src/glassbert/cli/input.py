"""The texts that a verb reads: lines of a file or of stdin."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from glassbert.cli.output import stdin_lines
from glassbert.errors import DataError
from glassbert.text.files import read_lines


def input_texts(source: str) -> Iterator[str]:
    """Yield the texts of a file or of stdin: plain lines, or JSON objects with "text"."""
    lines: Iterable[str] = stdin_lines() if source == "-" else read_lines(Path(source))
    for number, line in enumerate(lines, start=1):
        yield (
            _text_of(line, f"{'stdin' if source == '-' else source}:{number}")
            if line.startswith("{")
            else line
        )


def _text_of(line: str, place: str) -> str:
    """Return the text of a JSON line; a line that only looks like JSON is a text itself."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        return line
    if not isinstance(row.get("text"), str):
        raise DataError(f'{place}: a JSON object without a string "text"; add it, or give plain lines')
    return str(row["text"])
