"""Scores of labelled spans by conlleval's definition: a span is right if start, end and label are.

conlleval reads tag sequences; turning tags into spans is the work of the readers.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from glassbert.data.examples import Span as Span
from glassbert.metrics.classes import ClassScore, class_scores, mean, ratio


@dataclass(frozen=True, slots=True)
class SpanMistakes:
    """Why spans were not right; the first three sum to the gold spans that were not found."""

    wrong_label: int = 0
    """Gold spans guessed with the same bounds and another label."""
    wrong_bounds: int = 0
    """Gold spans that a wrong guess overlaps."""
    missed: int = 0
    """Gold spans that no guess touches, except the right guess for another span."""
    invented: int = 0
    """Wrong guesses that touch no gold span."""


@dataclass(frozen=True)
class SpanReport:
    """Scores of spans, all types counted together (micro)."""

    precision: float
    recall: float
    f1: float
    macro_f1: float
    """The mean F1 of the types."""
    support: int
    """Gold spans."""
    guessed: int
    right: int
    per_type: tuple[ClassScore, ...]
    mistakes: SpanMistakes

    def metrics(self) -> dict[str, float]:
        """Return the scores by the names that gates use."""
        return {name: getattr(self, name) for name in ("precision", "recall", "f1", "macro_f1")}

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return asdict(self) | {"per_type": [asdict(score) for score in self.per_type]}


@dataclass(frozen=True, slots=True)
class SpanComparison:
    """The spans of one text, sorted into right, missed and wrong."""

    right: tuple[Span, ...]
    missed: tuple[Span, ...]
    """Gold, but not guessed."""
    wrong: tuple[Span, ...]
    """Guessed, but not gold."""


def span_f1(gold: Sequence[Sequence[Span]], guess: Sequence[Sequence[Span]]) -> SpanReport:
    """Score the spans of each text; those of one side must not overlap each other."""
    right: Counter[str] = Counter()
    num_gold: Counter[str] = Counter()
    num_guessed: Counter[str] = Counter()
    mistakes: Counter[str] = Counter()
    for of_gold, of_guess in zip(gold, guess, strict=True):
        found = compare(of_gold, of_guess)
        right.update(span.label for span in found.right)
        num_gold.update(span.label for span in of_gold)
        num_guessed.update(span.label for span in of_guess)
        mistakes.update(_reasons(found))
    types = sorted(num_gold | num_guessed)
    counts = (np.array([counter[name] for name in types], int) for counter in (right, num_gold, num_guessed))
    per_type = class_scores(types, *counts)
    return SpanReport(
        precision=ratio(right.total(), num_guessed.total()),
        recall=ratio(right.total(), num_gold.total()),
        f1=ratio(2 * right.total(), num_gold.total() + num_guessed.total()),
        macro_f1=mean([score.f1 for score in per_type]),
        support=num_gold.total(),
        guessed=num_guessed.total(),
        right=right.total(),
        per_type=per_type,
        mistakes=SpanMistakes(**mistakes),
    )


def compare(gold: Sequence[Span], guess: Sequence[Span]) -> SpanComparison:
    """Compare the spans of one text; a span guessed twice is right once and wrong once."""
    counted_gold, counted_guess = Counter(gold), Counter(guess)
    return SpanComparison(
        right=_in_order(counted_gold & counted_guess),
        missed=_in_order(counted_gold - counted_guess),
        wrong=_in_order(counted_guess - counted_gold),
    )


def _in_order(spans: Counter[Span]) -> tuple[Span, ...]:
    return tuple(sorted(spans.elements(), key=attrgetter("start", "end", "label")))


def _reasons(found: SpanComparison) -> Counter[str]:
    """Count why the spans of a text are not right, by the names of SpanMistakes."""
    bounds = {(span.start, span.end) for span in found.wrong}
    reasons: Counter[str] = Counter()
    for span, is_touched in zip(found.missed, _touched(found.missed, found.wrong), strict=True):
        is_same_place = (span.start, span.end) in bounds
        reasons["wrong_label" if is_same_place else "wrong_bounds" if is_touched else "missed"] += 1
    # Gold spans that were found need no check: no other guess can overlap them.
    reasons["invented"] = _touched(found.wrong, found.missed).count(False)
    return reasons


def _touched(spans: Sequence[Span], others: Sequence[Span]) -> list[bool]:
    """Return for each span whether it overlaps one of the others, which are sorted and do not overlap."""
    ends = [other.end for other in others]
    first = [bisect_right(ends, span.start) for span in spans]
    return [
        index < len(others) and others[index].start < span.end
        for index, span in zip(first, spans, strict=True)
    ]
