"""Batches: packed examples with their labels, filling a budget of tokens.

Legend: T tokens of a packed batch, B its examples, M tokens to predict.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IGNORED = -100
"""A label that does not count, as PyTorch's losses have it."""


@dataclass(frozen=True)
class Labels:
    """The right answers of a batch: at some of its tokens, or one for each example."""

    values: NDArray[np.int64]
    """(M,) or, without places, (B,)."""
    places: NDArray[np.int64] | None = None
    """Which of the T tokens they belong to, ascending, (M,); None for one value per example."""

    @property
    def num_counted(self) -> int:
        """How many answers a loss is divided by."""
        return int(np.count_nonzero(self.values != IGNORED))

    def of_examples(self, is_taken: NDArray[np.bool_], of_tokens: NDArray[np.bool_]) -> "Labels":
        """Return the labels of some examples, given as a choice, (B,), and as their tokens, (T,)."""
        if self.places is None:
            return Labels(self.values[is_taken])
        is_kept = of_tokens[self.places]
        new_places = np.cumsum(of_tokens) - 1
        return Labels(self.values[is_kept], new_places[self.places[is_kept]])


@dataclass(frozen=True)
class PretrainBatch:
    """What the model reads and what it must predict. No padding: the examples are concatenated."""

    ids: NDArray[np.int64]
    """Token ids, as the objective corrupted them, (T,)."""
    segments: NDArray[np.int64]
    """0 for text A, 1 for text B, (T,)."""
    lengths: tuple[int, ...]
    """Tokens of each example, ascending, (B,)."""
    labels: Mapping[str, Labels]
    """By part of the objective; a part without an entry learns nothing from this batch."""
    sources: tuple[str, ...] | None = None
    """The file that each example is from, (B,), if files are measured separately."""

    @property
    def num_tokens(self) -> int:
        """T."""
        return len(self.ids)

    @property
    def num_examples(self) -> int:
        """B."""
        return len(self.lengths)

    def num_labels(self, part: str) -> int:
        """Return how many labels a part of the objective has here: what its loss is divided by."""
        return self.labels[part].num_counted if part in self.labels else 0

    def split(self, num_parts: int) -> "list[PretrainBatch]":
        """Divide the examples among micro-batches or processes.

        They are dealt like cards: sorted by length as they are, the parts differ by at most one example, and
        by fewer tokens than the longest has. There are fewer parts when there are fewer examples.
        """
        num_parts = min(num_parts, self.num_examples)
        ranks = np.arange(self.num_examples) % num_parts
        return [self._of_examples(ranks == part) for part in range(num_parts)]

    def by_source(self) -> "Iterator[tuple[str | None, PretrainBatch]]":
        """Yield the examples of each file with its name; all at once if files are not separate."""
        if self.sources is None:
            yield None, self
            return
        for name in dict.fromkeys(self.sources):
            yield name, self._of_examples(np.array(self.sources) == name)

    def _of_examples(self, is_taken: NDArray[np.bool_]) -> "PretrainBatch":
        lengths = np.array(self.lengths)
        of_tokens = np.repeat(is_taken, lengths)
        return PretrainBatch(
            ids=self.ids[of_tokens],
            segments=self.segments[of_tokens],
            lengths=tuple(lengths[is_taken].tolist()),
            labels={name: labels.of_examples(is_taken, of_tokens) for name, labels in self.labels.items()},
            sources=None if self.sources is None else tuple(np.array(self.sources)[is_taken].tolist()),
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
