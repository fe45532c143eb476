"""Texts in which spans were missed, invented, or given wrong bounds or labels."""

from collections.abc import Sequence

from glassbert.data.examples import Span, TagExample
from glassbert.metrics.mistakes import Mistake, Passage, span_marks
from glassbert.tasks.tag.predictions import TagPrediction


def mistake(row: TagExample, prediction: TagPrediction) -> Mistake | None:
    """Return how a prediction is wrong; None if it is right."""
    scores = {Span(span.start, span.end, span.label): span.score for span in prediction.spans}
    gold, guess = list(row.spans or ()), list(scores)
    missed = [span for span in gold if span not in scores]
    wrong = [span for span in guess if span not in gold]
    if not missed and not wrong:
        return None
    return Mistake(
        row.where,
        (Passage("", row.text, span_marks(gold, guess)),),
        _listed(row.text, missed),
        _listed(row.text, wrong),
        len(missed) + sum(scores[span] for span in wrong),
    )


def _listed(text: str, spans: Sequence[Span]) -> str:
    return ", ".join(f"{text[span.start : span.end]} ({span.label})" for span in spans) or "nothing"
