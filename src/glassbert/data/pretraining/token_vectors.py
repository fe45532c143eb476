"""Vectors of tokens from their co-occurrence in a corpus, without a network.

How much more often two tokens co-occur than expected by chance, as positive pointwise mutual information
(PPMI), factored by a truncated singular value decomposition (Levy and Goldberg, 2014). One core finds in
minutes what a network needs its first hours for: which tokens are alike.

Legend: V tokens of the vocabulary, C contexts, D features.
"""

import numpy as np
from numpy.typing import NDArray

from glassbert.data.corpus.reader import Corpus
from glassbert.data.pretraining.baseline import token_counts
from glassbert.data.random import Draw, uniform

Floats = NDArray[np.float32]

WINDOW = 4
"""Tokens on either side that count as context."""
NUM_CONTEXTS = 4096
"""Tokens that can be contexts: only the most frequent ones, to bound the memory."""
_BLOCK_TOKENS = 1 << 20
# Contexts are smoothed by this power, which keeps rare ones from standing out (Levy et al., 2015).
_SMOOTHING = 0.75
# Directions beyond those asked for, and passes over the matrix: Halko et al., 2011.
_SPARE, _PASSES = 16, 3


def token_vectors(corpus: Corpus, vocab_size: int, width: int, *, seed: int = 0) -> Floats:
    """Return a vector for each token, (V, D), of mean square 1; zero for tokens without contexts."""
    contexts = frequent_tokens(corpus, vocab_size, NUM_CONTEXTS)
    matrix = positive_information(meetings(corpus, vocab_size, contexts))
    vectors = leading_factors(matrix, width, seed=seed)
    vectors[~matrix.any(axis=1)] = 0  # otherwise rounding errors would be scaled up to the size of the others
    sizes = np.sqrt(np.mean(vectors**2, axis=1, keepdims=True))
    return np.divide(vectors, sizes, out=np.zeros_like(vectors), where=sizes > 0)


def frequent_tokens(corpus: Corpus, vocab_size: int, count: int) -> NDArray[np.int64]:
    """Return the most frequent tokens of the corpus, (C,)."""
    counts = token_counts(corpus, vocab_size)
    order = np.argsort(-counts, kind="stable")[:count]
    return order[counts[order] > 0]


def meetings(corpus: Corpus, vocab_size: int, contexts: NDArray[np.int64]) -> Floats:
    """Return how often each token has each of ``contexts`` within the window, (V, C)."""
    column = np.full(vocab_size, -1, dtype=np.int64)
    column[contexts] = np.arange(len(contexts))
    counts = np.zeros(vocab_size * len(contexts), dtype=np.float32)
    start = 0
    for shard in corpus.manifest.shards:
        stop = start + shard.num_tokens
        for first in range(start, stop, _BLOCK_TOKENS):
            ids = corpus.tokens(first, min(first + _BLOCK_TOKENS, stop)).astype(np.int64)
            for distance in range(1, WINDOW + 1):
                for one, other in ((ids[:-distance], ids[distance:]), (ids[distance:], ids[:-distance])):
                    places = column[other]
                    keys = (one * len(contexts) + places)[places >= 0]
                    found, times = np.unique(keys, return_counts=True)
                    counts[found] += times
        start = stop
    return counts.reshape(vocab_size, len(contexts))


def positive_information(counts: Floats) -> Floats:
    """Return the PPMI of tokens and contexts, (V, C): the logarithm of how much more often they co-occur."""
    of_tokens = counts.sum(axis=1, dtype=np.float64)
    of_contexts = counts.sum(axis=0, dtype=np.float64) ** _SMOOTHING
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.log(counts)
        information -= np.log(of_tokens, dtype=np.float64)[:, None].astype(np.float32)
        information -= np.log(of_contexts / of_contexts.sum())[None, :].astype(np.float32)
    return np.where(counts > 0, np.maximum(information, 0), np.float32(0))


def leading_factors(matrix: Floats, width: int, *, seed: int) -> Floats:
    """Return the left factor of a truncated SVD, scaled by the roots of the singular values, (V, D)."""
    num_directions = min(width + _SPARE, *matrix.shape)
    keys = np.arange(matrix.shape[1] * num_directions)
    # Sums of uniform numbers do as well as normal ones, and are the same on every machine.
    draws = uniform(seed, Draw.DIRECTIONS, keys).reshape(-1, num_directions).astype(np.float32) - 0.5
    basis = np.linalg.qr(matrix @ draws)[0]
    for _ in range(_PASSES):
        basis = np.linalg.qr(matrix @ (matrix.T @ basis))[0]
    left, values, _ = np.linalg.svd(basis.T @ matrix, full_matrices=False)
    factors = (basis @ left[:, :width]) * np.sqrt(values[:width])
    spare = width - factors.shape[1]
    return np.pad(factors, ((0, 0), (0, max(0, spare)))).astype(np.float32)
