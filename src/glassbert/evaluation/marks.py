"""From gold and guess to the marks that a text is shown with."""

from collections.abc import Sequence

from glassbert.evaluation.result import Mark
from glassbert.metrics.spans import Span, compare


def span_marks(gold: Sequence[Span], guess: Sequence[Span]) -> tuple[Mark, ...]:
    """Mark the spans of a text that were found, missed and wrongly guessed."""
    found = compare(gold, guess)
    marks = [Mark(span.start, span.end, span.label, "right") for span in found.right]
    marks += [Mark(span.start, span.end, span.label, "missed") for span in found.missed]
    marks += [Mark(span.start, span.end, span.label, "wrong") for span in found.wrong]
    return tuple(sorted(marks, key=lambda mark: (mark.start, mark.end)))


def answer_marks(gold: Sequence[tuple[int, int]], guess: tuple[int, int] | None) -> tuple[Mark, ...]:
    """Mark the first accepted answer and the guess in a context, each from start to end; None: no guess."""
    if guess is not None and guess in gold:
        return (Mark(*guess, "", "right"),)
    marks = [Mark(*place, "", "missed") for place in gold[:1]]
    return (*marks, Mark(*guess, "", "wrong")) if guess is not None else tuple(marks)
