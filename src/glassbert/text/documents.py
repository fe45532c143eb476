"""Files to documents: which form a text has, and where its documents begin and end.

    sentences   one sentence a line, blank lines between documents
    paragraphs  one paragraph a line, blank lines between documents
    documents   one document a line
    jsonl       one JSON object a line, whose "text" is a document with paragraphs on lines of their own
    wikitext    a line ` = Title = ` opens a document, as in WikiText

The end of a file always ends a document.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from glassbert.errors import DataError
from glassbert.text.files import read_lines
from glassbert.text.sentences import split_sentences
from glassbert.text.word_counts import json_text, unpacked_name

Form = Literal["sentences", "paragraphs", "documents", "jsonl", "wikitext"]
FORMS: tuple[Form, ...] = get_args(Form)

# A part of a document that goes on holds about this much, so that a book in one document is no burden.
_PART_CHARACTERS = 1 << 19

_TITLE = re.compile(r"\s*= [^=\s](?:.*[^=\s])? =\s*")
_HEADING = re.compile(r"\s*((?:= )+)(.*?)(?: =)+\s*")

_SAMPLE_LINES = 5_000
_SAMPLE_CHARACTERS = 1 << 21


@dataclass(frozen=True)
class Part:
    """Some lines of one document: all of it, unless it is very long."""

    number: int
    """Of the document, through all files."""
    path: Path
    file: int
    """Which of the files it is."""
    first_line: int
    lines: tuple[str, ...]
    """Blank ones among them, so that they can be counted."""
    form: Form
    is_last: bool
    """Whether the document ends here."""

    def line_number(self, index: int) -> int:
        """Return where in the file the line stands."""
        return self.first_line if self.form in ("documents", "jsonl") else self.first_line + index


@dataclass(frozen=True)
class TextSource:
    """A file with its form."""

    path: Path
    form: Form


class AmbiguousForm(DataError):
    """A text that shows no form."""


def read_documents(
    sources: Sequence[TextSource],
    read: Callable[[Path], Iterator[str]] = read_lines,
    on_error: Callable[[DataError], None] | None = None,
) -> Iterator[Part]:
    """Yield the documents of all sources, in parts where they are long.

    Args:
        read: gives the lines of a file.
        on_error: told what is wrong with a file, which is then left; without it, the error is raised.
    """
    number = 0
    for file, source in enumerate(sources):
        try:
            for first_line, lines, is_last in _READERS[source.form](read(source.path), source.path):
                yield Part(number, source.path, file, first_line, lines, source.form, is_last)
                number += is_last
        except DataError as error:
            if on_error is None:
                raise
            on_error(error)
            number += 1


def detect_form(path: Path, told: Form | None = None) -> Form | None:
    """Return the form of a file by its name and its first lines, unless told; None when it holds no text.

    A form that cannot be seen is refused: taken wrongly, every document boundary would be wrong.
    """
    if told is None and unpacked_name(path).endswith(".jsonl"):
        told = "jsonl"
    if told is not None:
        return told if any(line.strip() for line in read_lines(path)) else None
    lines = _sample(path)
    texts = [line for line in lines if line.strip()]
    if not texts:
        return None
    if texts[0].lstrip().startswith("{"):
        json_text(texts[0], f"{path}:{lines.index(texts[0]) + 1}")
        return "jsonl"
    if _TITLE.fullmatch(texts[0]):
        return "wikitext"
    return _detect_plain(path, lines, texts)


def _detect_plain(path: Path, lines: Sequence[str], texts: Sequence[str]) -> Form:
    has_many_sentences = sum(_has_two_sentences(text) for text in texts) * 2 > len(texts)
    if len(texts) == 1:
        return "documents"
    pairs = zip(["", *lines], lines, strict=False)
    groups = sum(1 for before, line in pairs if line.strip() and not before.strip())
    if 1 < groups < len(texts):
        return "paragraphs" if has_many_sentences else "sentences"
    if has_many_sentences:
        return "documents"
    what = "no blank line" if groups == 1 else "a blank line after each line"
    raise AmbiguousForm(
        f"{path}: one sentence a line and {what}, which does not tell where documents end; put a blank line "
        "between documents, or add --form documents if each line is one, or --form sentences if only blank "
        "lines and the end of a file end one"
    )


def _has_two_sentences(text: str) -> bool:
    """Tell whether a line is more than one sentence; clauses that a Chinese semicolon ends do not count."""
    return len(split_sentences(text[:2_000].replace("\uff1b", "\uff0c"), max_characters=2_000)) > 1


def _sample(path: Path) -> list[str]:
    lines: list[str] = []
    num_characters = 0
    for line in read_lines(path):
        lines.append(line)
        num_characters += len(line)
        if len(lines) >= _SAMPLE_LINES or num_characters >= _SAMPLE_CHARACTERS:
            break
    return lines


_Piece = tuple[int, tuple[str, ...], bool]
"""The number of the first line, the lines, and whether the document ends with them."""


def _blank_line_documents(lines: Iterable[str], path: Path) -> Iterator[_Piece]:
    return _gathered(lines, lambda line: not line.strip())


def _line_documents(lines: Iterable[str], path: Path) -> Iterator[_Piece]:
    return ((number, (line,), True) for number, line in enumerate(lines, start=1) if line.strip())


def _json_documents(lines: Iterable[str], path: Path) -> Iterator[_Piece]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, tuple(json_text(line, f"{path}:{number}").split("\n")), True


def _wikitext_documents(lines: Iterable[str], path: Path) -> Iterator[_Piece]:
    for first_line, texts, is_last in _gathered(lines, lambda line: _TITLE.fullmatch(line) is not None):
        yield first_line, tuple(map(_without_marks, texts)), is_last


def _without_marks(line: str) -> str:
    heading = _HEADING.fullmatch(line)
    return heading[2] if heading else line


_READERS: dict[Form, Callable[[Iterable[str], Path], Iterator[_Piece]]] = {
    "sentences": _blank_line_documents,
    "paragraphs": _blank_line_documents,
    "documents": _line_documents,
    "jsonl": _json_documents,
    "wikitext": _wikitext_documents,
}


def _gathered(lines: Iterable[str], begins: Callable[[str], bool]) -> Iterator[_Piece]:
    """Yield runs of lines; a new document begins with each line that ``begins`` one, blank or not."""
    gathered: list[str] = []
    first_line, num_characters = 1, 0
    is_open = False  # whether a part of the document was handed out
    for number, line in enumerate(lines, start=1):
        if begins(line):
            if is_open or any(map(str.strip, gathered)):
                yield first_line, tuple(gathered), True
            gathered, first_line, num_characters, is_open = [], number, 0, False
        elif num_characters >= _PART_CHARACTERS:
            yield first_line, tuple(gathered), False
            gathered, first_line, num_characters, is_open = [], number, 0, True
        gathered.append(line)
        num_characters += len(line)
    if is_open or any(map(str.strip, gathered)):
        yield first_line, tuple(gathered), True
