from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbert.errors import DataError
from glassbert.tasks.answer.spans import (
    ScoredSpan,
    best_spans,
    context_windows,
    log_probabilities,
    merge_spans,
    window_target,
)
from glassbert.text.windows import Window


def test_windows_leave_room_for_the_whole_question() -> None:
    found = context_windows(10, 100, max_length=50, stride=None, where="x")
    assert found[:2] == [Window(0, 36), Window(16, 52)]
    assert found[-1].stop == 100
    # A stride that is longer than the room would leave pieces out: the question decides how long it can be.
    assert context_windows(10, 100, max_length=50, stride=99, where="x")[:2] == [
        Window(0, 34),
        Window(33, 67),
    ]


def test_a_context_that_fits_has_one_window() -> None:
    assert context_windows(5, 3, max_length=11, stride=None, where="x") == [Window(0, 3)]
    assert context_windows(5, 0, max_length=8, stride=None, where="x") == [Window(0, 0)]


@pytest.mark.parametrize(("num_question", "num_context"), [(35, 100), (46, 2), (100, 1)])
def test_a_question_that_is_too_long_is_refused(num_question: int, num_context: int) -> None:
    message = f"dev.json:q7: the question has {num_question} pieces, which leaves room for "
    with pytest.raises(DataError, match=message):
        context_windows(num_question, num_context, max_length=50, stride=None, where="dev.json:q7")


@pytest.mark.parametrize(
    ("answer", "window", "expected"),
    [
        ((3, 5), Window(0, 10), (4, 5)),
        ((3, 5), Window(3, 5), (1, 2)),
        ((3, 4), Window(3, 5), (1, 1)),
        ((3, 5), Window(4, 10), (0, 0)),  # its first piece is cut off
        ((3, 5), Window(0, 4), (0, 0)),  # its last
        ((3, 5), Window(5, 10), (0, 0)),
        (None, Window(0, 10), (0, 0)),
    ],
)
def test_targets_of_windows(
    answer: tuple[int, int] | None, window: Window, expected: tuple[int, int]
) -> None:
    assert window_target(answer, window) == expected


@given(st.integers(1, 9), st.integers(1, 10), st.integers(1, 12), st.integers(0, 10_000))
def test_best_spans_are_the_best_of_all(num_pieces: int, max_pieces: int, num_best: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    starts, ends = generator.normal(size=(2, num_pieces))
    is_inside = generator.random(num_pieces + 1) < 0.3
    is_inside[[0, -1]] = False
    expected = sorted(
        (
            (starts[first] + ends[last], first, last + 1)
            for first, last in product(range(num_pieces), repeat=2)
            if 0 <= last - first < max_pieces and not is_inside[first] and not is_inside[last + 1]
        ),
        reverse=True,
    )[:num_best]
    found = best_spans(starts, ends, is_inside, max_pieces=max_pieces, num_best=num_best)
    assert [(span.start, span.stop) for span in found] == [(start, stop) for _, start, stop in expected]
    np.testing.assert_allclose([span.score for span in found], [score for score, _, _ in expected])


def test_nothing_has_no_span() -> None:
    empty = np.zeros(0)
    assert best_spans(empty, empty, np.zeros(1, dtype=bool), max_pieces=3, num_best=2) == []


def test_a_span_that_two_windows_show_counts_once_with_its_best_score() -> None:
    windows = [
        (Window(0, 10), [ScoredSpan(4, 6, -1.0), ScoredSpan(1, 2, -3.0)]),
        (Window(3, 13), [ScoredSpan(1, 3, -0.5), ScoredSpan(8, 9, -3.0), ScoredSpan(0, 1, -9.0)]),
    ]
    expected = [ScoredSpan(4, 6, -0.5), ScoredSpan(1, 2, -3.0), ScoredSpan(11, 12, -3.0)]
    assert merge_spans(windows, num_best=3) == expected
    assert merge_spans(windows[::-1], num_best=3) == expected


def test_log_probabilities_of_each_column_make_one() -> None:
    logits = np.array([[1e4, 0.0], [0.0, 1.0], [3.0, 2.0]], dtype=np.float32)
    np.testing.assert_allclose(np.exp(log_probabilities(logits)).sum(axis=0), 1.0)
    np.testing.assert_allclose(log_probabilities(logits, 2.0), log_probabilities(logits / 2), atol=1e-12)
    assert log_probabilities(logits)[1, 0] == pytest.approx(-1e4)
