from typing import Any

import pytest

from glassbert.data.examples import Answer, AnswerExample, Span, TagExample, TextExample
from glassbert.evaluation.mistakes import mistakes
from glassbert.metrics.answers import SQUAD_1


def wrong(example: Any, content: dict[str, Any]) -> Any:
    found = list(mistakes([example], [content], SQUAD_1))
    return found[0] if found else None


def test_a_wrong_label_is_as_bad_as_the_model_was_sure() -> None:
    example = TextExample("t", "u", ("yes",), None, "f:1")
    assert wrong(example, {"label": "yes", "score": 0.9}) is None
    found = wrong(example, {"label": "no", "score": 0.9})
    assert (found.gold, found.guess, found.score, found.where) == ("yes", "no", 0.9, "f:1")
    assert [passage.text for passage in found.passages] == ["t", "u"]


def test_a_set_of_labels_is_as_bad_as_its_worst() -> None:
    content = {"labels": ["b"], "scores": {"a": 0.2, "b": 0.7, "c": 0.1}}
    found = wrong(TextExample("t", None, ("a",), None, "f:1"), content)
    assert (found.gold, found.guess) == ("a", "b")
    assert found.score == pytest.approx(0.8)
    assert wrong(TextExample("t", None, ("b",), None, "f:1"), content) is None


def test_a_number_is_as_bad_as_it_is_far() -> None:
    found = wrong(TextExample("t", None, (), 3.0, "f:1"), {"label": None, "score": 1.0})
    assert (found.gold, found.guess, found.score) == ("3", "1", 2.0)


def test_spans_are_marked_as_found_missed_or_wrong() -> None:
    example = TagExample("Ann met Bob", (Span(0, 3, "PER"), Span(8, 11, "PER")), "f:1")
    spans = [
        {"start": 0, "end": 3, "label": "PER", "score": 0.9},
        {"start": 4, "end": 7, "label": "ORG", "score": 0.6},
    ]
    found = wrong(example, {"spans": spans})
    assert (found.gold, found.guess) == ("Bob (PER)", "met (ORG)")
    assert [mark.kind for mark in found.passages[0].marks] == ["right", "wrong", "missed"]
    assert found.score == pytest.approx(1.6)
    assert wrong(TagExample("x", (), "f:1"), {"spans": []}) is None


def test_answers_are_right_when_they_are_one_of_those_accepted() -> None:
    answers = (Answer("1999", 3), Answer("in 1999", 0))
    example = AnswerExample("1", "when?", "in 1999 or so", answers, "f:1")
    assert wrong(example, {"answer": "in 1999", "start": 0, "end": 7, "score": 0.5}) is None
    assert wrong(example, {"answer": "The 1999.", "start": 3, "end": 7, "score": 0.5}) is None, (
        "as SQuAD says"
    )
    found = wrong(example, {"answer": "", "start": None, "end": None, "score": 0.5})
    assert (found.gold, found.guess) == ("1999", "no answer")
    impossible = AnswerExample("1", "when?", "now", (), "f:1")
    assert wrong(impossible, {"answer": "", "start": None, "end": None, "score": 0.5}) is None
