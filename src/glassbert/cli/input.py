"""What verbs that read text share: the lines of a file or of stdin, and the number of processes."""

from collections.abc import Iterable, Iterator

from glassbert.cli.output import remark, stdin_lines
from glassbert.errors import DataError
from glassbert.parsing import FormatError, parse_json
from glassbert.serve.cores import num_cores
from glassbert.text.files import read_lines


def num_processes(given: int | None) -> int:
    """Return the number of processes to use: one for each core when not given."""
    return given if given is not None else num_cores()


def input_texts(source: str) -> Iterator[str]:
    """Open a file or stdin, and return its texts: plain lines, or JSON objects with "text"."""
    if source == "-":
        return _texts(stdin_lines(), "stdin")
    return _texts(read_lines(source, remark), source)


def _texts(lines: Iterable[str], name: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        yield _text_of(line, f"{name}:{number}") if line.startswith("{") else line


def _text_of(line: str, place: str) -> str:
    """Return the text of a JSON line; a line that only looks like JSON is a text itself."""
    try:
        row = parse_json(line)
    except FormatError as error:
        if error.line is not None:
            return line
        raise DataError(f"{place}: {error}; correct the JSON, or give plain lines") from None
    if not isinstance(row.get("text"), str):
        raise DataError(f'{place}: no string under "text" in this JSON object; add it, or give plain lines')
    return str(row["text"])
