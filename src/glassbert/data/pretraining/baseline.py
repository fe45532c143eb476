"""The loss of guessing by how often each token occurs: what training must beat."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from glassbert.data.corpus.reader import Corpus
from glassbert.data.pretraining.masking import maskable
from glassbert.text.vocabulary import Vocabulary

_BLOCK_TOKENS = 1 << 20


def guessing_loss(corpus: Corpus, vocabulary: Vocabulary, labels: Iterable[NDArray[np.int64]]) -> float:
    """Return the loss, in nats, of guessing ``labels`` of other text by the frequencies of this corpus."""
    is_maskable = maskable(vocabulary)
    # Add one to each count: a token that only the other text has must not cost infinitely much.
    counts = np.where(is_maskable, token_counts(corpus, len(vocabulary)) + 1, 0)
    guessed = np.concatenate(list(labels))
    return float(np.log(counts.sum()) - np.log(counts[guessed]).mean())


def token_counts(corpus: Corpus, vocab_size: int) -> NDArray[np.int64]:
    """Return how often each id occurs in the corpus, (vocab_size,)."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    start = 0
    for shard in corpus.manifest.shards:
        stop = start + shard.num_tokens
        for block in range(start, stop, _BLOCK_TOKENS):
            ids = corpus.tokens(block, min(block + _BLOCK_TOKENS, stop))
            counts += np.bincount(ids, minlength=vocab_size)
        start = stop
    return counts
