"""The borders of a corpus's sentences and documents: all that is needed to plan an epoch."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

# Documents are walked side by side; without sections, a long one would end up being walked alone.
_SECTION_SENTENCES = 512


@dataclass(frozen=True)
class Outline:
    """Where sentences and documents begin. Sentence s holds the tokens borders[s] to borders[s + 1]."""

    borders: NDArray[np.int64]
    """Of sentences, in tokens: (sentences + 1,)."""
    document_borders: NDArray[np.int64]
    """Of documents, in sentences: (documents + 1,)."""
    source_borders: NDArray[np.int64] | None = None
    """Of the files that the documents are from, in documents: (files + 1,); None if it is not known."""

    @classmethod
    def from_ends(
        cls,
        sentence_ends: NDArray[np.int64],
        document_ends: NDArray[np.int64],
        *,
        room: int,
        source_ends: NDArray[np.int64] | None = None,
    ) -> Self:
        """Read a corpus whose sentences must fit into ``room`` tokens.

        A longer one, such as a line without a full stop, counts as several of at most half the room: two of
        them make a pair, and none of its tokens is lost.
        """
        borders = np.concatenate(([0], sentence_ends)).astype(np.int64)
        lengths = np.diff(borders)
        num_parts = np.where(lengths > room, -(-lengths // max(1, room // 2)), np.minimum(lengths, 1))
        before = np.concatenate(([0], np.cumsum(num_parts)))
        all_documents = before[np.concatenate(([0], document_ends)).astype(np.int64)]
        documents = np.unique(all_documents)  # none is empty any more
        sources = None
        if source_ends is not None:
            sources = np.searchsorted(documents, all_documents[np.concatenate(([0], source_ends))])
        return cls(_divided(borders, num_parts)[0], documents, sources)

    @property
    def num_sentences(self) -> int:
        return len(self.borders) - 1

    @property
    def num_documents(self) -> int:
        return len(self.document_borders) - 1

    def sources_of(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the file that each token of the corpus is from."""
        assert self.source_borders is not None
        borders = self.borders[self.document_borders[self.source_borders]]
        return np.searchsorted(borders, tokens, side="right") - 1

    def sections(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the borders of the sections in sentences, and which document each section belongs to."""
        num_parts = -(-np.diff(self.document_borders) // _SECTION_SENTENCES)
        return _divided(self.document_borders, num_parts)

    def reaching(self, first: NDArray[np.int64], num_tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where to end so that the sentences from ``first`` on hold at least ``num_tokens``."""
        return np.searchsorted(self.borders, self.borders[first] + num_tokens, side="left")

    def fitting(self, first: NDArray[np.int64], num_tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where to end so that the sentences from ``first`` on hold at most ``num_tokens``."""
        return np.searchsorted(self.borders, self.borders[first] + num_tokens, side="right") - 1

    def reaching_back(self, end: NDArray[np.int64], num_tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where to begin so that the sentences up to ``end`` hold at least ``num_tokens``."""
        return np.searchsorted(self.borders, self.borders[end] - num_tokens, side="right") - 1


def _divided(
    borders: NDArray[np.int64], num_parts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cut each range between two borders into parts of equal size, give or take one.

    Returns the borders of the parts, and which range each part belongs to.
    """
    owners = np.repeat(np.arange(len(num_parts)), num_parts)
    ranks = np.arange(len(owners)) - np.repeat(np.cumsum(num_parts) - num_parts, num_parts)
    starts = borders[owners] + np.diff(borders)[owners] * ranks // num_parts[owners]
    return np.concatenate((starts, borders[-1:])), owners
