"""Parallel text: sentences with their translations, streamed from one file or from two.

    tsv      source TAB target
    jsonl    objects with "source" and "target", themselves or within "translation"; the keys can be named
    aligned  two files, written FILE,FILE: line n of the second translates line n of the first

Each may be packed (.gz, .zst) and encoded in UTF-8 or GB18030. Text is taken as it is: no space is stripped,
no letter changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Self

from glassbert.data.examples import BadRow
from glassbert.errors import DataError, UserError
from glassbert.messages import to_stderr
from glassbert.parsing import FormatError, parse_json
from glassbert.text.files import read_lines, unpacked_name


class SentencePair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str
    line: int


@dataclass(frozen=True, kw_only=True)
class ParallelFiles:
    """Files of sentence pairs, and how many bad rows they may hold."""

    source: Path
    """The file with both sides, or with the sources."""
    target: Path | None = None
    """The file with the targets of aligned files."""
    source_key: str = "source"
    """The key of the source in a JSON object."""
    target_key: str = "target"
    skip_bad: int = 0
    """How many rows may be left out because a side is empty or missing."""
    bad: list[BadRow] = field(default_factory=list, compare=False)
    """The rows that the latest pass left out."""
    notes: list[str] = field(default_factory=list, compare=False)
    """Remarks on the files, printed once."""

    def __post_init__(self) -> None:
        if self.skip_bad < 0:
            raise UserError(f"data.skip_bad={self.skip_bad}; expected 0 or more, such as 10")

    @classmethod
    def of(cls, name: str | Path, **options: Any) -> Self:
        """Return the files that a user names as FILE or FILE,FILE."""
        first, comma, second = str(name).partition(",")
        if comma and not Path(name).exists():
            return cls(source=Path(first), target=Path(second), **options)
        return cls(source=Path(name), **options)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files themselves."""
        return (self.source,) if self.target is None else (self.source, self.target)

    def pairs(self) -> Iterator[SentencePair]:
        """Yield all pairs in order.

        Raises at the first bad row beyond ``skip_bad``, or if aligned files differ in length.
        """
        self.bad.clear()
        for row in self._rows():
            if isinstance(row, SentencePair):
                yield row
                continue
            self.bad.append(row)
            if len(self.bad) > self.skip_bad:
                before = f" ({self.skip_bad} bad rows before it)" if self.skip_bad else ""
                raise DataError(
                    f"{row.where}: {row.reason}{before}; correct it, "
                    f"or leave bad rows out with --skip-bad {max(10, 10 * self.skip_bad)}"
                )

    def _rows(self) -> Iterator[SentencePair | BadRow]:
        if self.target is not None:
            return _checked(self._aligned_rows(self.target), self.source, self.target)
        is_json = unpacked_name(self.source).endswith(".jsonl")
        return _checked(self._json_rows() if is_json else self._tsv_rows(), self.source, self.source)

    def _lines(self, path: Path) -> Iterator[str]:
        return read_lines(path, self._note)

    def _note(self, line: str) -> None:
        if line not in self.notes:
            self.notes.append(line)
            to_stderr(line)

    def _tsv_rows(self) -> Iterator[SentencePair | str]:
        for number, line in enumerate(self._lines(self.source), start=1):
            cells = line.split("\t")
            if len(cells) == 2:
                yield SentencePair(cells[0], cells[1], number)
            elif not line.strip():
                yield "a blank line"
            else:
                yield f"{len(cells)} columns; expected source TAB target"

    def _json_rows(self) -> Iterator[SentencePair | str]:
        for number, line in enumerate(self._lines(self.source), start=1):
            try:
                row = parse_json(line)
            except FormatError as error:
                yield f"not JSON ({error}); expected an object with a source and a target"
                continue
            inner = row.get("translation", row) if isinstance(row, dict) else row
            sides = [
                inner.get(key) if isinstance(inner, dict) else None
                for key in (self.source_key, self.target_key)
            ]
            if isinstance(sides[0], str) and isinstance(sides[1], str):
                yield SentencePair(sides[0], sides[1], number)
            else:
                missing = self.target_key if isinstance(sides[0], str) else self.source_key
                yield f"no string under {missing!r}; name the keys with data.source_key and data.target_key"

    def _aligned_rows(self, target: Path) -> Iterator[SentencePair | str]:
        lines = zip_longest(self._lines(self.source), self._lines(target))
        for number, (source_line, target_line) in enumerate(lines, start=1):
            if source_line is None or target_line is None:
                longer, shorter = (self.source, target) if target_line is None else (target, self.source)
                raise DataError(
                    f"{longer}:{number}: {shorter} ends before this line, after {number - 1}; "
                    "each line of the one file needs its translation in the other"
                )
            yield SentencePair(source_line, target_line, number)


def _checked(
    rows: Iterator[SentencePair | str], source: Path, target: Path
) -> Iterator[SentencePair | BadRow]:
    """Add their place to bad rows, given as a reason; a pair with an empty side is bad too."""
    for number, row in enumerate(rows, start=1):
        if isinstance(row, str):
            yield BadRow(f"{source}:{number}", row)
            continue
        empty = [name for name, side in (("source", row.source), ("target", row.target)) if not side.strip()]
        if empty:
            place = target if empty == ["target"] else source
            yield BadRow(f"{place}:{number}", f"empty {' and '.join(empty)}")
        else:
            yield row
