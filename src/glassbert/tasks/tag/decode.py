"""From the scores of tags to the best legal sequence of tags, and to the score of each of its spans.

If every piece is tagged on its own, the score of a span is the smallest probability among its tags and its
end. Its pieces are mostly right or wrong together, so their product would be far too low and their mean too
high. A CRF scores whole sequences: there the score of a span is the probability of exactly this span.

Legend: N pieces, C tags. Index C is the borders, before the first piece and after the last.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassbert.tasks.tag.scheme import PieceSpan, TagSet

Scores = NDArray[np.float64]
# The lowest score that still counts: its exp stays above zero after many products.
_LOWEST = -200.0


@dataclass(frozen=True)
class Decoder:
    """Find the best of all legal sequences of tags."""

    tag_set: TagSet
    steps: Scores
    """The score of each tag after another, -inf if it cannot follow, (2, C + 1, C + 1): where spans may begin
    or end, and where they may not."""

    @classmethod
    def of(cls, tag_set: TagSet, transitions: NDArray[np.floating] | None = None) -> "Decoder":
        """Return a decoder; ``transitions``, (C + 1, C + 1), are the scores of a CRF."""
        scores = np.zeros_like(tag_set.legal, dtype=np.float64) if transitions is None else transitions
        rules = np.stack([tag_set.legal, tag_set.legal_inside])
        return cls(tag_set, np.where(rules, scores.astype(np.float64), -np.inf))

    def best_path(self, scores: Scores, is_inside: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the tags with the highest sum of scores and steps, (N,); Viterbi's algorithm.

        Args:
            scores: Of each tag at each piece, (N, C).
            is_inside: Before which pieces no span may begin or end, (N,); never before the first.
        """
        num_pieces, num_tags = scores.shape
        if num_pieces == 0:
            return np.zeros(0, dtype=np.int64)
        greedy = scores.argmax(axis=1)
        if self._is_best_path(greedy, is_inside):
            return greedy
        # One row per next tag: the search for the best one before it then runs along memory.
        steps = np.ascontiguousarray(self.steps[:, :num_tags, :num_tags].transpose(0, 2, 1))
        rows = np.arange(num_tags)
        best_before = np.zeros((num_pieces, num_tags), dtype=np.int32)
        totals = self.steps[0, num_tags, :num_tags] + scores[0]
        for piece in range(1, num_pieces):
            candidates = steps[int(is_inside[piece])] + totals  # (next tag, tag before)
            before = candidates.argmax(axis=1)
            best_before[piece] = before
            totals = candidates[rows, before] + scores[piece]
        path = np.empty(num_pieces, dtype=np.int64)
        path[-1] = (totals + self.steps[0, :num_tags, num_tags]).argmax()
        for piece in range(num_pieces - 1, 0, -1):
            path[piece - 1] = best_before[piece, path[piece]]
        return path

    def span_scores(
        self,
        scores: Scores,
        is_inside: NDArray[np.bool_],
        path: NDArray[np.int64],
        spans: Sequence[PieceSpan],
    ) -> Scores:
        """Return the probability of each span of ``path`` among all legal sequences: that of a CRF."""
        if not spans:
            return np.zeros(0)
        num_tags = len(self.tag_set)
        factors = np.exp(self.steps - self.steps.max())
        inner = factors[:, :num_tags, :num_tags]
        emissions = np.exp(np.maximum(scores - scores.max(axis=1, keepdims=True), _LOWEST))
        forward, backward, sums = self._forward_backward(factors, emissions, is_inside)
        moves = inner[is_inside[1:].astype(np.int64), path[:-1], path[1:]]
        # What each piece of the path multiplies the probability of the path up to it by.
        shares = np.log(moves * emissions[np.arange(1, len(path)), path[1:]] / sums[1:-1])
        totals = np.concatenate(([0.0, 0.0], np.cumsum(shares)))
        goes_on = self.tag_set.continues[:num_tags, :num_tags]
        found = []
        for start, stop, _ in spans:
            last = path[stop - 1]
            if stop < len(path):
                after = inner[int(is_inside[stop]), last] * emissions[stop] * backward[stop] / sums[stop]
                end = after[~goes_on[last]].sum()
            else:
                end = backward[-1, last]
            found.append(forward[start, path[start]] * np.exp(totals[stop] - totals[start + 1]) * end)
        return np.array(found)

    def _forward_backward(
        self, factors: Scores, emissions: Scores, is_inside: NDArray[np.bool_]
    ) -> tuple[Scores, Scores, Scores]:
        """Return both factors of the marginals, (N, C), and the divisor of each step, (N + 1,)."""
        num_pieces, num_tags = emissions.shape
        inner = factors[:, :num_tags, :num_tags]
        forward, backward = np.empty_like(emissions), np.empty_like(emissions)
        sums = np.empty(num_pieces + 1)
        row = factors[0, num_tags, :num_tags] * emissions[0]
        for piece in range(num_pieces):
            if piece:
                row = (row @ inner[int(is_inside[piece])]) * emissions[piece]
            sums[piece] = row.sum()
            row = forward[piece] = row / sums[piece]
        column = factors[0, :num_tags, num_tags]
        sums[-1] = row @ column
        column = backward[-1] = column / sums[-1]
        for piece in range(num_pieces - 1, 0, -1):
            column = inner[int(is_inside[piece])] @ (emissions[piece] * column) / sums[piece]
            backward[piece - 1] = column
        return forward, backward, sums

    def _is_best_path(self, greedy: NDArray[np.int64], is_inside: NDArray[np.bool_]) -> bool:
        """Return whether the best tag of each piece makes the best path: every step has the best score.

        That holds for nearly every text once a model has learned, and saves the search.
        """
        border = len(self.tag_set)
        path = np.concatenate(([border], greedy, [border]))
        where = np.append(is_inside, False).astype(np.int64)
        return bool((self.steps[where, path[:-1], path[1:]] == self.steps.max()).all())


def weakest_scores(
    tag_set: TagSet, probs: Scores, path: NDArray[np.int64], spans: Sequence[PieceSpan]
) -> Scores:
    """Return the score of each span of ``path``, if every piece is tagged on its own.

    It is the smallest of the probabilities of its tags and of the probability that it ends.

    Args:
        probs: Of each tag at each piece, (N, C).
    """
    if not spans:
        return np.zeros(0)
    borders = np.array([(span.start, span.stop) for span in spans])
    chosen = np.append(probs[np.arange(len(path)), path], 1.0)
    weakest = np.minimum.reduceat(chosen, borders.ravel())[::2]
    can_go_on = borders[:, 1] < len(path)
    after = borders[can_go_on, 1]
    goes_on = tag_set.continues[: len(tag_set), : len(tag_set)][path[after - 1]]  # (spans, C)
    weakest[can_go_on] = np.minimum(weakest[can_go_on], 1.0 - (probs[after] * goes_on).sum(axis=1))
    return weakest
