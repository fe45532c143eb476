"""Where answers start and end: windows of a context, their targets, and the best spans by score.

Legend: N pieces of a context, W pieces of one window of it, K spans that are kept.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from glassbert.errors import DataError
from glassbert.text.windows import Window, windows

Scores = NDArray[np.float64]

NUM_SPECIALS = 3
MIN_ROOM = 16
"""Pieces of the context that must fit beside the question, unless the context is shorter."""


class ScoredSpan(NamedTuple):
    """A run of a context's pieces, and the logarithm of its probability in its window."""

    start: int
    stop: int
    score: float


def context_windows(
    num_question: int, num_context: int, *, max_length: int, stride: int | None, where: str
) -> list[Window]:
    """Return the windows of a context beside its question, which is never cut.

    Args:
        stride: Pieces from one window to the next; half a window when None.
        where: The example, for the message when its question is too long.
    """
    room = max_length - NUM_SPECIALS - num_question
    if room < min(num_context, MIN_ROOM):
        raise DataError(
            f"{where}: the question has {num_question} pieces, which leaves room for {max(0, room)} of the "
            f"context's {num_context} within {max_length} tokens; shorten it, or raise task.max_length"
        )
    return windows(num_context, room, min(stride or max(1, room // 2), max(1, room)))


def window_target(answer: tuple[int, int] | None, window: Window) -> tuple[int, int]:
    """Return the first and last piece of an answer, counted from 1 in a window; 0, 0 if it is not all there.

    Args:
        answer: First piece of the answer in the context and the piece after its last; None for no answer.
    """
    if answer is None or not (window.start <= answer[0] and answer[1] <= window.stop):
        return 0, 0
    return answer[0] - window.start + 1, answer[1] - window.start


def best_spans(
    start_scores: Scores,
    end_scores: Scores,
    is_inside: NDArray[np.bool_],
    *,
    max_pieces: int,
    num_best: int,
) -> list[ScoredSpan]:
    """Return the spans of a window with the highest sums of both scores, best first.

    Args:
        start_scores: Of each piece as the first, (W,).
        end_scores: Of each piece as the last, (W,).
        is_inside: Before which pieces no span may begin or end, (W + 1,), the end of the window included.
        max_pieces: Of the longest span.
    """
    num_pieces = len(start_scores)
    if num_pieces == 0:
        return []
    max_pieces = min(max_pieces, num_pieces)
    starts = np.where(is_inside[:-1], -np.inf, start_scores)
    ends = np.where(is_inside[1:], -np.inf, end_scores)
    padded = np.concatenate([ends, np.full(max_pieces - 1, -np.inf)])
    totals = (starts[:, None] + sliding_window_view(padded, max_pieces)).ravel()  # (W * max_pieces,)
    num_best = min(num_best, len(totals))
    chosen = np.argpartition(-totals, num_best - 1)[:num_best]
    chosen = chosen[np.argsort(-totals[chosen], kind="stable")]
    return [
        ScoredSpan(index // max_pieces, index // max_pieces + index % max_pieces + 1, float(totals[index]))
        for index in chosen.tolist()
        if totals[index] > -np.inf
    ]


def merge_spans(of_windows: Iterable[tuple[Window, Sequence[ScoredSpan]]], num_best: int) -> list[ScoredSpan]:
    """Return the best spans of all windows, in pieces of the context; one found twice has its best score."""
    best: dict[tuple[int, int], float] = {}
    for window, spans in of_windows:
        for start, stop, score in spans:
            place = window.start + start, window.start + stop
            best[place] = max(score, best.get(place, -np.inf))
    # Equal scores are ordered by place, so that the order of the windows does not matter.
    ordered = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:num_best]
    return [ScoredSpan(start, stop, score) for (start, stop), score in ordered]


def log_probabilities(logits: NDArray[np.floating], temperature: float = 1.0) -> Scores:
    """Return the log-softmax of the start column and of the end column, (W + 1, 2)."""
    scaled = logits.astype(np.float64) / temperature
    scaled -= scaled.max(axis=0)
    return scaled - np.log(np.exp(scaled).sum(axis=0))
