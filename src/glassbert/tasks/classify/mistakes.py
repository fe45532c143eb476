"""Texts that were given the wrong label, the wrong labels or a number that is off."""

from glassbert.data.examples import TextExample
from glassbert.metrics.mistakes import Mistake, Passage
from glassbert.tasks.classify.predictions import ClassPrediction


def mistake(row: TextExample, prediction: ClassPrediction) -> Mistake | None:
    """Return how a prediction is wrong; None if it is right."""
    if row.score is not None:
        gold, guess = f"{row.score:g}", f"{prediction.score:.4g}"
        error = abs(row.score - prediction.score)
    elif prediction.labels is not None:
        right, given = set(row.labels), set(prediction.labels)
        gold, guess = ", ".join(sorted(right)) or "none", ", ".join(sorted(given)) or "none"
        # The confidence in the label that it is most wrong about.
        missed = [1 - prediction.scores[label] for label in right - given]
        error = max([*missed, *(prediction.scores[label] for label in given - right)], default=0.0)
    else:
        gold, guess = row.labels[0], prediction.label or "none"
        error = prediction.score if gold != guess else 0.0
    if not error:
        return None
    passages: tuple[Passage, ...] = (Passage("", row.text),)
    if row.pair is not None:
        passages = (Passage("first", row.text), Passage("second", row.pair))
    return Mistake(row.where, passages, gold, guess, error, "score" if row.score is None else "error")
