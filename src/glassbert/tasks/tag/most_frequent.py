"""The most frequent tags of each word: a baseline that a tagger should beat.

Legend: C tags, N pieces of a text.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassbert.tasks.task import Input

Word = tuple[int, ...]
Tags = tuple[int, ...]

OUTSIDE = 0
"""The tag of words that were never seen."""


class FrequentTags:
    """Learns the tags that each word has most often in the training rows."""

    def __init__(self, starts_word: NDArray[np.bool_], num_tags: int) -> None:
        """Prepare to learn.

        Args:
            starts_word: For each id of the vocabulary whether a word begins there.
            num_tags: C.
        """
        self._starts_word, self._num_tags = starts_word, num_tags
        self._best: dict[Word, Tags] = {}

    def learn(self, inputs: Sequence[Sequence[Input]]) -> None:
        """Count the tags of each word; words that a window cuts, or shares with another, do not count."""
        counts: defaultdict[Word, Counter[Tags]] = defaultdict(Counter)
        for one in (one for windows in inputs for one in windows):
            assert one.target is not None
            for place, word in self._words(one):
                tags = tuple(one.target[place : place + len(word)].tolist())
                if all(0 <= tag < self._num_tags for tag in tags):
                    counts[word][tags] += 1
        # Of tags that are equally frequent the first ones by number, whatever the order of the rows.
        self._best = {
            word: min(tags, key=lambda found: (-tags[found], found)) for word, tags in counts.items()
        }

    def logits(self, one: Input) -> NDArray[Any]:
        """Return 1 for the most frequent tag of each piece and 0 for the others, (N, C)."""
        found = np.zeros((len(one) - 2, self._num_tags), dtype=np.float32)
        found[:, OUTSIDE] = 0.5
        for place, word in self._words(one):
            for offset, tag in enumerate(self._best.get(word, ())):
                found[place - 1 + offset] = np.arange(self._num_tags) == tag
        return found * 10  # far apart, so that no rule of decoding makes up for it

    def _words(self, one: Input) -> Iterator[tuple[int, Word]]:
        """Yield the words of an input and where they begin, without [CLS] and [SEP]."""
        ids = one.ids[1:-1]
        starts = np.flatnonzero(self._starts_word[ids])
        starts = starts if len(starts) and starts[0] == 0 else np.concatenate(([0], starts)).astype(np.int64)
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(ids)], strict=True):
            if stop > start:
                yield start + 1, tuple(ids[start:stop].tolist())
