"""A few documents in memory as a corpus: what a user types into a page, without files."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from glassbert.data.corpus.encode import DocumentEncoder
from glassbert.data.corpus.shards import Tokens
from glassbert.text.documents import Part
from glassbert.text.segment import Segmenter
from glassbert.text.vocabulary import Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

_BLANK_LINES = re.compile(r"\n\s*\n")
_NAME = "pasted"


@dataclass(frozen=True)
class PastedCorpus:
    """A text whose documents have blank lines between them; it makes the same examples as one on disk."""

    content: Tokens
    vocabulary: Vocabulary
    source_names = (_NAME,)

    @classmethod
    def of(cls, text: str, tokenizer: Tokenizer, words: Segmenter | None = None) -> Self:
        """Cut a text into documents, sentences and tokens, as `corpus build` does.

        Args:
            words: Finds Chinese words, for whole words.
        """
        documents = [tuple(one.splitlines()) for one in _BLANK_LINES.split(text) if one.strip()]
        parts = [
            Part(number, Path(_NAME), 0, 1, lines, "paragraphs", is_last=True, num_characters=len(text))
            for number, lines in enumerate(documents)
        ]
        return cls(DocumentEncoder(tokenizer, words).encode(parts).tokens, tokenizer.vocabulary)

    @property
    def vocab_sha256(self) -> str:
        return self.vocabulary.sha256

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    @property
    def sentence_ends(self) -> NDArray[np.int64]:
        """Where each sentence ends, in tokens."""
        return np.cumsum(self.content.sentence_lengths)

    @property
    def document_ends(self) -> NDArray[np.int64]:
        """Where each document ends, in sentences."""
        return np.cumsum(self.content.document_sizes)

    @property
    def source_ends(self) -> NDArray[np.int64]:
        """All documents are from one source."""
        return np.array([len(self.content.document_sizes)])

    def tokens(self, start: int, stop: int) -> NDArray[Any]:
        """Return the ids from ``start`` to ``stop``."""
        return self.content.ids[start:stop]

    def word_starts(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return for each of the ids of `tokens` whether a word begins there."""
        return self.content.word_starts[start:stop]
