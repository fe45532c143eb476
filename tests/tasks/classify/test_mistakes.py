from typing import Any

import pytest

from glassbert.data.examples import TextExample
from glassbert.tasks.classify.mistakes import mistake
from glassbert.tasks.classify.predictions import ClassPrediction


def predicted(label: str | None, score: float, **changes: Any) -> ClassPrediction:
    return ClassPrediction(
        **{"scores": {}, "tokens": 3, "truncated": False, **changes}, label=label, score=score
    )


def test_a_wrong_label_is_as_bad_as_the_model_was_sure() -> None:
    row = TextExample("t", "u", ("yes",), None, "f:1")
    assert mistake(row, predicted("yes", 0.9)) is None
    found = mistake(row, predicted("no", 0.9))
    assert found is not None
    assert (found.gold, found.guess, found.score, found.where) == ("yes", "no", 0.9, "f:1")
    assert [(passage.name, passage.text) for passage in found.passages] == [("first", "t"), ("second", "u")]


def test_a_set_of_labels_is_as_bad_as_its_worst() -> None:
    prediction = predicted("b", 0.7, labels=("b",), scores={"a": 0.2, "b": 0.7, "c": 0.1})
    found = mistake(TextExample("t", None, ("a",), None, "f:1"), prediction)
    assert found is not None
    assert (found.gold, found.guess) == ("a", "b")
    assert found.score == pytest.approx(0.8)
    assert mistake(TextExample("t", None, ("b",), None, "f:1"), prediction) is None


def test_a_number_is_as_bad_as_its_error() -> None:
    found = mistake(TextExample("t", None, (), 3.0, "f:1"), predicted(None, 1.0))
    assert found is not None
    assert (found.gold, found.guess, found.score, found.score_name) == ("3", "1", 2.0, "error")
