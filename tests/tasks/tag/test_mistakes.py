import pytest

from glassbert.data.examples import Span, TagExample
from glassbert.tasks.tag.mistakes import mistake
from glassbert.tasks.tag.predictions import TaggedSpan, TagPrediction


def test_spans_are_marked_as_found_missed_or_wrong() -> None:
    row = TagExample("Ann met Bob", (Span(0, 3, "PER"), Span(8, 11, "PER")), "f:1")
    spans = (TaggedSpan(0, 3, "PER", "Ann", 0.9, 0.9), TaggedSpan(4, 7, "ORG", "met", 0.6, 0.6))
    found = mistake(row, TagPrediction(spans, tokens=5))
    assert found is not None
    assert (found.gold, found.guess) == ("Bob (PER)", "met (ORG)")
    assert [mark.kind for mark in found.passages[0].marks] == ["right", "wrong", "missed"]
    assert found.score == pytest.approx(1.6)


def test_a_text_without_spans_is_right_if_none_is_found() -> None:
    assert mistake(TagExample("x", (), "f:1"), TagPrediction((), tokens=3)) is None
