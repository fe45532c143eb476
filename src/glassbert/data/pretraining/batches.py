"""Batches: a packed run of examples that fills a budget of tokens.

Legend: T tokens of a packed batch, B its examples, M tokens to predict.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassbert.data.pretraining.examples import NO_PAIR


@dataclass(frozen=True)
class PretrainBatch:
    """What the model sees, and what it has to say. No padding: the examples lie one behind the other."""

    ids: NDArray[np.int64]
    """Token ids, some of them hidden, (T,)."""
    segments: NDArray[np.int64]
    """0 for text A, 1 for text B, (T,)."""
    lengths: tuple[int, ...]
    """Tokens of each example, ascending, (B,)."""
    predict_at: NDArray[np.int64]
    """Which of the T tokens are to be predicted, ascending, (M,)."""
    mlm_labels: NDArray[np.int64]
    """What they were, (M,)."""
    pair_labels: NDArray[np.int64] | None
    """0 IsNext or in order, 1 NotNext or swapped, -100 for an example without a B, (B,); None for `mlm`."""

    @property
    def num_real_tokens(self) -> int:
        """T: every token is real."""
        return len(self.ids)

    @property
    def num_examples(self) -> int:
        return len(self.lengths)

    @property
    def num_predictions(self) -> int:
        return len(self.predict_at)

    @property
    def num_pairs(self) -> int:
        """Examples whose pair is to be judged: what a loss over pairs is to be divided by."""
        return 0 if self.pair_labels is None else int(np.count_nonzero(self.pair_labels != NO_PAIR))

    def split(self, num_parts: int) -> "list[PretrainBatch]":
        """Divide the examples among micro-batches or processes.

        They are dealt like cards: sorted by length as they are, the parts differ by at most one example, and
        by fewer tokens than the longest has. There are fewer parts when there are fewer examples.
        """
        num_parts = min(num_parts, self.num_examples)
        return [self._taken(np.arange(part, self.num_examples, num_parts)) for part in range(num_parts)]

    def _taken(self, examples: NDArray[np.int64]) -> "PretrainBatch":
        """Return the batch of some of the examples, which must be given in ascending order."""
        lengths = np.array(self.lengths)
        is_taken = np.zeros(self.num_examples, dtype=np.bool_)
        is_taken[examples] = True
        of_tokens = np.repeat(is_taken, lengths)
        of_predictions = of_tokens[self.predict_at]
        new_places = np.cumsum(of_tokens) - 1
        return PretrainBatch(
            ids=self.ids[of_tokens],
            segments=self.segments[of_tokens],
            lengths=tuple(lengths[examples].tolist()),
            predict_at=new_places[self.predict_at[of_predictions]],
            mlm_labels=self.mlm_labels[of_predictions],
            pair_labels=None if self.pair_labels is None else self.pair_labels[examples],
        )


def fill_batches(lengths: NDArray[np.int32], batch_tokens: int) -> NDArray[np.int64]:
    """Return the borders of batches that take examples in their order while the budget lasts.

    The last two batches share what is left of an epoch, or the last could be a step on a single example.
    """
    ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    borders = [0]
    while borders[-1] < len(lengths):
        borders.append(int(np.searchsorted(ends, ends[borders[-1]] + batch_tokens, side="right")) - 1)
        assert borders[-1] > borders[-2], "an example is longer than the budget"
    if len(borders) > 2:
        middle = int(np.searchsorted(ends, (ends[borders[-3]] + ends[-1]) // 2, side="left"))
        if ends[middle] - ends[borders[-3]] <= batch_tokens:
            borders[-2] = middle
    return np.array(borders)
