from glassbert.data.examples import Span
from glassbert.metrics.mistakes import Mark, Mistake, answer_marks, span_marks, worst_first


def test_spans_are_marked_as_found_missed_and_wrong() -> None:
    gold, guess = [Span(0, 2, "A"), Span(5, 7, "B")], [Span(0, 2, "A"), Span(4, 7, "B")]
    assert span_marks(gold, guess) == (
        Mark(0, 2, "A", "right"),
        Mark(4, 7, "B", "wrong"),
        Mark(5, 7, "B", "missed"),
    )


def test_an_accepted_answer_is_right_whichever_it_is() -> None:
    assert answer_marks([(0, 3), (5, 9)], (5, 9)) == (Mark(5, 9, "", "right"),)
    assert answer_marks([(0, 3), (5, 9)], (1, 2)) == (Mark(0, 3, "", "missed"), Mark(1, 2, "", "wrong"))
    assert answer_marks([], (1, 2)) == (Mark(1, 2, "", "wrong"),)
    assert answer_marks([(0, 3)], None) == (Mark(0, 3, "", "missed"),)


def test_the_worst_mistakes_come_first() -> None:
    found = [Mistake(str(score), (), "a", "b", score) for score in (0.3, 0.9, 0.5)]
    assert [one.score for one in worst_first(found, 2)] == [0.9, 0.5]
