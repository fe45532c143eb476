"""What a model got wrong, row by row: texts with marks, the right answer beside the model's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from glassbert.metrics.spans import Span, compare


@dataclass(frozen=True, slots=True)
class Mark:
    """A part of a text that was found, missed or wrongly guessed; in code points, end exclusive."""

    start: int
    end: int
    label: str
    kind: Literal["right", "missed", "wrong"]


@dataclass(frozen=True, slots=True)
class Passage:
    """One of the texts of a row."""

    name: str
    """Its role in the row, such as "question"; empty if the row has only one text."""
    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Mistake:
    """A row that the model got wrong."""

    where: str
    passages: tuple[Passage, ...]
    gold: str
    """The right answer, as a person would write it; empty if a passage shows it."""
    guess: str
    score: float
    """What mistakes are ranked by, such as the model's confidence in its wrong guess."""
    score_name: str = "score"


def worst_first(mistakes: Sequence[Mistake], limit: int) -> tuple[Mistake, ...]:
    """Return the ``limit`` mistakes with the highest scores."""
    return tuple(sorted(mistakes, key=lambda mistake: -mistake.score)[:limit])


def span_marks(gold: Sequence[Span], guess: Sequence[Span]) -> tuple[Mark, ...]:
    """Mark the spans of a text that were found, missed and wrongly guessed."""
    found = compare(gold, guess)
    marks = [Mark(span.start, span.end, span.label, "right") for span in found.right]
    marks += [Mark(span.start, span.end, span.label, "missed") for span in found.missed]
    marks += [Mark(span.start, span.end, span.label, "wrong") for span in found.wrong]
    return tuple(sorted(marks, key=lambda mark: (mark.start, mark.end)))


def answer_marks(gold: Sequence[tuple[int, int]], guess: tuple[int, int] | None) -> tuple[Mark, ...]:
    """Mark the first accepted answer and the guess in a context.

    Args:
        gold: Start and end of each accepted answer.
        guess: Start and end of the model's answer; None if it gave none.
    """
    if guess is not None and guess in gold:
        return (Mark(*guess, "", "right"),)
    marks = [Mark(*place, "", "missed") for place in gold[:1]]
    return (*marks, Mark(*guess, "", "wrong")) if guess is not None else tuple(marks)
