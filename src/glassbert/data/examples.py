"""What the rows of labelled files become: one small record each, the same for every format."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from glassbert.ranges import CountOrNone
from glassbert.typed import check_fields

Kind = Literal["single", "multi", "regression"]
"""How a text of classify or pair is labelled: with one label, with any number of them, or with a number."""


class Example(Protocol):
    """A row of any task, as task-independent code sees it."""

    @property
    def where(self) -> str:
        """File and line, for messages."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that the model reads, in their order."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes that the row names; empty for numbers, free answers and unlabelled rows."""

    @property
    def is_labelled(self) -> bool:
        """Whether the row says what is right for its texts."""

    @property
    def gold(self) -> Hashable:
        """Everything the row says about its texts: two rows with the same texts agree if these are equal."""


E = TypeVar("E", bound=Example)


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text, or a pair of texts, with its labels or its score; neither if it is not labelled."""

    text: str
    pair: str | None
    labels: tuple[str, ...]
    score: float | None
    where: str

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,) if self.pair is None else (self.text, self.pair)

    @property
    def is_labelled(self) -> bool:
        return bool(self.labels) or self.score is not None

    @property
    def gold(self) -> Hashable:
        return self.labels, self.score


@dataclass(frozen=True, slots=True)
class Span:
    """A labelled part of a text, in code points; ``end`` is exclusive."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class TagExample:
    """A text with its spans, which are sorted and do not overlap; None if it is not labelled."""

    text: str
    spans: tuple[Span, ...] | None
    where: str

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(span.label for span in self.spans or ())

    @property
    def is_labelled(self) -> bool:
        return self.spans is not None

    @property
    def gold(self) -> Hashable:
        return self.spans


@dataclass(frozen=True, slots=True)
class Answer:
    """A part of the context: ``context[start : start + len(text)] == text``."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class AnswerExample:
    """A question about a context. Empty answers: there is none in the context; None: it is not labelled."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None
    where: str

    @property
    def texts(self) -> tuple[str, ...]:
        return self.question, self.context

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    @property
    def is_labelled(self) -> bool:
        return self.answers is not None

    @property
    def gold(self) -> Hashable:
        return self.answers


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used."""

    where: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How labelled files are read: part of the table `[data]` of a run."""

    format: str | None = None
    """The format of the files; detected from their names and first lines when absent."""
    skip_bad: CountOrNone = 0
    """Bad rows that a file may have; they are left out and reported."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Which column holds what, by its name or by its number from 0: { text = "review", label = "1" }."""
    kind: Kind | None = None
    """How texts are labelled: single, multi or regression; guessed from the labels when absent."""

    def __post_init__(self) -> None:
        check_fields(self, "data")


@dataclass(frozen=True, slots=True)
class Table(Generic[E]):
    """The examples of a file that was read and checked."""

    examples: list[E]
    bad: list[BadRow]
    """The rows that were left out."""
    notes: list[str]
    """What the user should know: guesses, repairs and their counts."""
    format: str
    sha256: str
    """Of the file on disk; empty for a pipe."""
    kind: Kind | None = None
    """How the texts of classify or pair are labelled; None for unlabelled files and for other tasks."""
