from glassbert.data.examples import Answer, AnswerExample
from glassbert.metrics.answers import SQUAD_1
from glassbert.metrics.mistakes import Mistake
from glassbert.tasks.answer.mistakes import mistake
from glassbert.tasks.answer.predictions import AnswerPrediction

ROW = AnswerExample("1", "when?", "in 1999 or so", (Answer("1999", 3), Answer("in 1999", 0)), "f:1")


def wrong(
    row: AnswerExample, answer: str, start: int | None = None, end: int | None = None
) -> Mistake | None:
    return mistake(row, AnswerPrediction(answer, start, end, 0.5, (), 0.0, tokens=9), SQUAD_1)


def test_an_answer_is_right_if_it_is_one_of_those_accepted() -> None:
    assert wrong(ROW, "in 1999", 0, 7) is None
    assert wrong(ROW, "The 1999.", 3, 7) is None, "SQuAD ignores articles and punctuation"


def test_no_answer_is_wrong_where_there_is_one() -> None:
    found = wrong(ROW, "")
    assert found is not None
    assert (found.gold, found.guess, found.score) == ("1999", "no answer", 0.5)
    assert wrong(AnswerExample("1", "when?", "now", (), "f:1"), "") is None
