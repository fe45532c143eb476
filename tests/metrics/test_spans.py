import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbert.data.examples import Span
from glassbert.metrics.spans import compare, span_f1
from helpers.naive_scores import bio_tags, conlleval

LENGTH = 12


@st.composite
def spans(draw: st.DrawFn) -> list[Span]:
    """Spans of a text of LENGTH characters that do not overlap; neighbours of one type are likely."""
    edges = sorted(draw(st.lists(st.integers(0, LENGTH), max_size=8, unique=True)))
    labels = st.sampled_from([None, "LOC", "PER"])
    chosen = [draw(labels) for _ in edges[1:]]
    return [
        Span(start, end, label)
        for start, end, label in zip(edges, edges[1:], chosen, strict=False)
        if label is not None
    ]


texts = st.lists(st.tuples(spans(), spans()), max_size=4)


@given(texts)
def test_every_count_is_that_of_conlleval(both: list[tuple[list[Span], list[Span]]]) -> None:
    gold, guess = [pair[0] for pair in both], [pair[1] for pair in both]
    expected = conlleval(*([bio_tags(one, LENGTH) for one in side] for side in (gold, guess)))
    report = span_f1(gold, guess)
    assert [score.label for score in report.per_type] == sorted(expected)
    for score in report.per_type:
        right, num_gold, num_guess = expected[score.label]
        assert (score.support, score.guessed) == (num_gold, num_guess)
        assert score.precision == pytest.approx(right / num_guess if num_guess else 0)
        assert score.recall == pytest.approx(right / num_gold if num_gold else 0)
    right, num_gold, num_guess = (sum(counts) for counts in zip((0, 0, 0), *expected.values(), strict=True))
    assert (report.right, report.support, report.guessed) == (right, num_gold, num_guess)
    assert report.f1 == pytest.approx(2 * right / (num_gold + num_guess) if num_gold + num_guess else 0)


@given(texts)
def test_every_gold_span_is_right_or_a_mistake(both: list[tuple[list[Span], list[Span]]]) -> None:
    report = span_f1([pair[0] for pair in both], [pair[1] for pair in both])
    lost = report.mistakes.wrong_label + report.mistakes.wrong_bounds + report.mistakes.missed
    assert report.right + lost == report.support
    assert report.mistakes.invented <= report.guessed - report.right


def test_scores_are_those_by_hand() -> None:
    gold = [[Span(0, 2, "PER"), Span(5, 9, "LOC")], [Span(1, 3, "PER")], [Span(0, 1, "ORG")]]
    guess = [[Span(0, 2, "PER"), Span(5, 8, "LOC")], [Span(1, 3, "LOC"), Span(6, 7, "PER")], []]
    report = span_f1(gold, guess)
    assert (report.precision, report.recall) == (1 / 4, 1 / 4)
    assert {score.label: score.f1 for score in report.per_type} == {"LOC": 0, "ORG": 0, "PER": 0.5}
    assert report.macro_f1 == pytest.approx(0.5 / 3)
    assert report.to_json()["mistakes"] == {
        "wrong_label": 1,
        "wrong_bounds": 1,
        "missed": 1,
        "invented": 1,
    }
    assert json.loads(json.dumps(report.to_json()))["f1"] == report.f1 == 1 / 4


def test_neighbours_do_not_touch() -> None:
    mistakes = span_f1([[Span(2, 4, "PER")]], [[Span(0, 2, "PER"), Span(4, 5, "PER")]]).mistakes
    assert (mistakes.missed, mistakes.invented, mistakes.wrong_bounds) == (1, 2, 0)


def test_a_span_of_another_text_is_not_found() -> None:
    assert span_f1([[Span(0, 2, "PER")], []], [[], [Span(0, 2, "PER")]]).f1 == 0


def test_a_span_guessed_twice_is_right_once() -> None:
    found = compare([Span(0, 2, "PER")], [Span(0, 2, "PER"), Span(0, 2, "PER")])
    assert found.right == found.wrong == (Span(0, 2, "PER"),)


def test_no_spans_score_zero_and_never_nan() -> None:
    for nothing in ([], [[]]):
        assert set(span_f1(nothing, nothing).metrics().values()) == {0.0}
