"""Lines to documents: which form a text has, and where its documents begin and end.

    sentences   one sentence per line, blank lines between documents
    paragraphs  one paragraph per line, blank lines between documents
    documents   one document per line
    jsonl       one JSON object per line, whose "text" is a document with paragraphs on lines of their own
    wikitext    a line ` = Title = ` opens a document, as in WikiText

The end of a file always ends a document. To add a form, add its name to `Form`, and to `_FORMS` how it is
recognised and read.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from glassbert.errors import DataError
from glassbert.parsing import FormatError, parse_json
from glassbert.text.files import read_lines, unpacked_name
from glassbert.text.sentences import split_sentences

Form = Literal["sentences", "paragraphs", "documents", "jsonl", "wikitext"]
FORMS: tuple[Form, ...] = get_args(Form)

# A long document is yielded in parts of about this size, so that a book in one document fits in memory.
_PART_CHARACTERS = 1 << 19
_PART_LINES = 1 << 19  # blank lines have no characters

_TITLE = re.compile(r"\s*= [^=\s](?:.*[^=\s])? =\s*")
_MARKS = re.compile(r"(?:= )*")

_SAMPLE_LINES = 5_000
_SAMPLE_CHARACTERS = 1 << 21


class Part(NamedTuple):
    """Some lines of one document: all of it, unless it is very long."""

    number: int
    """Of the document, through all files."""
    path: Path
    file: int
    """The index of the file."""
    first_line: int
    lines: tuple[str, ...]
    """Including blank ones, so that lines can be numbered."""
    form: Form
    is_last: bool
    """Whether the document ends here."""
    num_characters: int
    """Of its lines as they are in the file, JSON syntax included."""

    @property
    def is_one_line(self) -> bool:
        """Whether all of it is one line of the file."""
        return self.form in ("documents", "jsonl")

    def line_number(self, index: int) -> int:
        """Return the number in the file of a line of this part."""
        return self.first_line if self.is_one_line else self.first_line + index


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
    """Yield the documents of all sources, long ones in parts.

    Args:
        read: returns the lines of a file.
        on_error: receives what is wrong with a file, the rest of which is skipped; without it, the error is
            raised.
    """
    number = 0
    for file, source in enumerate(sources):
        try:
            for piece in _FORMS[source.form].read(read(source.path), source.path):
                first_line, lines, is_last, size = piece
                yield Part(number, source.path, file, first_line, lines, source.form, is_last, size)
                number += is_last
        except DataError as error:
            if on_error is None:
                raise
            on_error(error)
            number += 1


def detect_form(path: str | Path, form: Form | None = None) -> Form | None:
    """Return the form of a file, by its name and first lines unless it is given; None if it holds no text.

    Raises `AmbiguousForm` for lines that show no form: with a wrong guess, every document boundary would be
    wrong.
    """
    path = Path(path)
    for name, rules in _FORMS.items():
        if form is None and rules.suffix and unpacked_name(path).endswith(rules.suffix):
            form = name
    if form is not None:
        return form if any(line.strip() for line in read_lines(path, _ignore)) else None
    sample = _Sample(path, _first_lines(path))
    if not sample.texts:
        return None
    for name, rules in _FORMS.items():
        if rules.is_shown_by(sample):
            return name
    what = "no blank line" if sample.num_groups == 1 else "a blank line after each line"
    raise AmbiguousForm(
        f"{path}: one sentence per line and {what}, which does not show where documents end; put a blank "
        "line between documents, or add --form documents if each line is one, or --form sentences if only "
        "blank lines and the end of a file end one"
    )


def json_text(line: str, place: str) -> str:
    """Return the "text" of a JSON line; ``place`` is where the line is."""
    try:
        row = parse_json(line, allow_halves=True)
    except FormatError as error:
        raise DataError(
            f'{place}: not JSON ({error}); expected an object with a "text" in each line, or add '
            "--form documents if it is plain text"
        ) from None
    text = row.get("text") if isinstance(row, dict) else None
    if not isinstance(text, str):
        raise DataError(f'{place}: no string under "text"; expected an object with one in each line')
    return text


@dataclass(frozen=True)
class _Sample:
    """The first lines of a file that holds text."""

    path: Path
    lines: tuple[str, ...]

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The lines that are not blank."""
        return tuple(line for line in self.lines if line.strip())

    @cached_property
    def num_groups(self) -> int:
        """Runs of lines between blank lines."""
        pairs = zip(("", *self.lines), self.lines, strict=False)
        return sum(1 for before, line in pairs if line.strip() and not before.strip())

    @cached_property
    def has_groups(self) -> bool:
        """Whether blank lines separate groups of lines, not just lines."""
        return 1 < self.num_groups < len(self.texts)

    @cached_property
    def has_many_sentences(self) -> bool:
        """Whether most lines are more than one sentence."""
        return sum(map(_has_two_sentences, self.texts)) * 2 > len(self.texts)


def _first_lines(path: Path) -> tuple[str, ...]:
    lines: list[str] = []
    num_characters = 0
    for line in read_lines(path, _ignore):
        lines.append(line)
        num_characters += len(line)
        if len(lines) >= _SAMPLE_LINES or num_characters >= _SAMPLE_CHARACTERS:
            break
    return tuple(lines)


def _ignore(_: str) -> None:
    """Log nothing: the file will be read again."""


def _has_two_sentences(text: str) -> bool:
    """Return whether a line is more than one sentence, not counting clauses that a Chinese semicolon ends."""
    return len(split_sentences(text[:2_000].replace("\uff1b", "\uff0c"), max_characters=2_000)) > 1


def _shows_json(sample: _Sample) -> bool:
    first = sample.texts[0]
    if not first.lstrip().startswith("{"):
        return False
    json_text(first, f"{sample.path}:{sample.lines.index(first) + 1}")
    return True


_Piece = tuple[int, tuple[str, ...], bool, int]
"""The number of the first line, the lines, whether the document ends with them, and their characters."""


def _blank_line_documents(lines: Iterable[str], path: Path) -> Iterator[_Piece]:
    return _gathered(lines, lambda line: not line.strip())


def _line_documents(lines: Iterable[str], path: Path) -> Iterator[_Piece]:
    return ((number, (line,), True, len(line)) for number, line in enumerate(lines, start=1) if line.strip())


def _json_documents(lines: Iterable[str], path: Path) -> Iterator[_Piece]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, tuple(json_text(line, f"{path}:{number}").split("\n")), True, len(line)


def _wikitext_documents(lines: Iterable[str], path: Path) -> Iterator[_Piece]:
    for first_line, texts, is_last, size in _gathered(lines, lambda line: _TITLE.fullmatch(line) is not None):
        yield first_line, tuple(map(_without_marks, texts)), is_last, size


def _without_marks(line: str) -> str:
    """Return the words of a heading ` = = Words = = `, or any other line as it is.

    Not by one regular expression: on a long line of marks it would try out every end for every start.
    """
    text = line.strip()
    marks = _MARKS.match(text)
    assert marks is not None  # it also matches the empty string
    start, end = marks.end() - 2 * (text[marks.end() :] == "="), len(text)
    while text.endswith(" =", start, end):
        end -= 2
    return text[start:end] if start and end < len(text) else line


def _gathered(lines: Iterable[str], begins: Callable[[str], bool]) -> Iterator[_Piece]:
    """Yield groups of lines; a new document begins with each line that ``begins`` one, blank or not."""
    gathered: list[str] = []
    first_line, num_characters = 1, 0
    is_open = False  # whether a part of the document was already yielded
    for number, line in enumerate(lines, start=1):
        if begins(line):
            if is_open or any(map(str.strip, gathered)):
                yield first_line, tuple(gathered), True, num_characters
            gathered, first_line, num_characters, is_open = [], number, 0, False
        elif num_characters >= _PART_CHARACTERS or len(gathered) >= _PART_LINES:
            yield first_line, tuple(gathered), False, num_characters
            gathered, first_line, num_characters, is_open = [], number, 0, True
        gathered.append(line)
        num_characters += len(line)
    if is_open or any(map(str.strip, gathered)):
        yield first_line, tuple(gathered), True, num_characters


class _FormRules(NamedTuple):
    is_shown_by: Callable[[_Sample], bool]
    read: Callable[[Iterable[str], Path], Iterator[_Piece]]
    suffix: str | None = None
    """Of the names of files that have this form whatever they hold."""


# The first form that a text shows is taken.
_FORMS: dict[Form, _FormRules] = {
    "jsonl": _FormRules(_shows_json, _json_documents, ".jsonl"),
    "wikitext": _FormRules(lambda s: _TITLE.fullmatch(s.texts[0]) is not None, _wikitext_documents),
    "paragraphs": _FormRules(lambda s: s.has_groups and s.has_many_sentences, _blank_line_documents),
    "sentences": _FormRules(lambda s: s.has_groups, _blank_line_documents),
    "documents": _FormRules(lambda s: s.has_many_sentences or len(s.texts) == 1, _line_documents),
}
