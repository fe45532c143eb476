"""What a file of labelled text is read into: one small record an example, the same for every format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar, get_args

from glassbert.errors import UserError

TaskName = Literal["classify", "pair", "tag", "answer"]
Kind = Literal["single", "multi", "regression"]
"""What a text of classify or pair is given: one label, any number of labels, or a number."""


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text, or a pair of texts, with its labels or its score."""

    text: str
    pair: str | None
    labels: tuple[str, ...]
    score: float | None
    where: str
    """The file and the line; without a label `labels` is empty and `score` None."""


@dataclass(frozen=True, slots=True)
class Span:
    """A labelled part of a text, in code points; ``end`` is exclusive."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class TagExample:
    """A text with its spans, which are sorted and do not overlap; None when nobody has looked for any."""

    text: str
    spans: tuple[Span, ...] | None
    where: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A part of the context: ``context[start : start + len(text)] == text``."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class AnswerExample:
    """A question about a context; no answers at all: impossible to answer; None: not labelled."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None
    where: str


Example = TextExample | TagExample | AnswerExample
E = TypeVar("E", bound=Example)


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used."""

    where: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How files of examples are read: the table `[data]` of a run."""

    format: str | None = None
    """The format of the files; when absent, what their names and their first lines show."""
    skip_bad: int = 0
    """Bad rows that a file may have; they are left out and told."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Which column holds what, by its name or by its number from 0: { text = "review", label = "1" }."""
    kind: Kind | None = None
    """What the labels are; when absent, what they look like."""

    def __post_init__(self) -> None:
        if self.skip_bad < 0:
            raise UserError(f"skip_bad={self.skip_bad}; expected 0 or more, such as 10")
        if self.kind is not None and self.kind not in get_args(Kind):
            raise UserError(f"kind={self.kind!r} is not known; use one of {', '.join(get_args(Kind))}")


@dataclass(frozen=True, slots=True)
class Table(Generic[E]):
    """A file of examples that was read and checked."""

    examples: list[E]
    bad: list[BadRow]
    """The rows that were left out."""
    notes: list[str]
    """What the user should know: guesses, repairs and their counts."""
    format: str
    sha256: str
    """Of the file as it lies on disk; empty for a pipe."""
    kind: Kind | None = None
    """What the labels of classify or pair were taken for; None without labels, and for other tasks."""
