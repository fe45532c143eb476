"""Questions whose answer is none of those accepted."""

from glassbert.data.examples import AnswerExample
from glassbert.metrics.answers import Measure
from glassbert.metrics.mistakes import Mistake, Passage, answer_marks
from glassbert.tasks.answer.predictions import AnswerPrediction


def mistake(row: AnswerExample, prediction: AnswerPrediction, measure: Measure) -> Mistake | None:
    """Return how an answer is wrong; None if it is right.

    Args:
        measure: Decides which answers are the same.
    """
    answers = row.answers or ()
    right = [answer.text for answer in answers]
    is_exact, _ = measure.best(right, prediction.answer)
    if is_exact:
        return None
    places = [(answer.start, answer.start + len(answer.text)) for answer in answers]
    guess = None
    if prediction.start is not None and prediction.end is not None:
        guess = (prediction.start, prediction.end)
    return Mistake(
        row.where,
        (Passage("question", row.question), Passage("context", row.context, answer_marks(places, guess))),
        right[0] if right else "no answer",
        prediction.answer or "no answer",
        prediction.score,
    )
