"""The order of examples in fine-tuning: shuffled, with neighbours of like length in one batch.

Everything is a pure function of seed and epoch, so that a run can stop and go on at any step.
"""

import numpy as np
from numpy.typing import NDArray

from glassbert.data.random import Draw, permutation

POOL = 16
"""Batches whose examples are sorted by length among themselves: like meets like, yet epochs differ."""


def grouped_batches(
    lengths: NDArray[np.int64], *, batch_size: int, batch_tokens: int, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    """Return the examples of each batch of an epoch, shortest first within a batch.

    Args:
        lengths: Tokens of each example.
        batch_size: Examples of a batch; those of an epoch differ by at most one, so that none is tiny.
        batch_tokens: A batch with more tokens is divided, unless it is a single example.
    """
    order = permutation(len(lengths), seed, Draw.ORDER, epoch)
    num_batches = -(-len(lengths) // batch_size)
    borders = np.linspace(0, len(lengths), num_batches + 1).round().astype(np.int64)
    batches: list[NDArray[np.int64]] = []
    for first in range(0, num_batches, POOL):
        last = min(first + POOL, num_batches)
        pool = order[borders[first] : borders[last]]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        parts = np.split(pool, borders[first + 1 : last] - borders[first])
        # Shuffled again, or every pool would go from its shortest texts to its longest.
        batches += [parts[index] for index in permutation(len(parts), seed, Draw.BATCH_ORDER, epoch, first)]
    return [part for batch in batches for part in _divided(batch, lengths, batch_tokens)]


def _divided(
    batch: NDArray[np.int64], lengths: NDArray[np.int64], batch_tokens: int
) -> list[NDArray[np.int64]]:
    num_parts = min(len(batch), -(-int(lengths[batch].sum()) // batch_tokens))
    # Dealt like cards: sorted by length, the parts then have nearly the same number of tokens.
    return [batch[part::num_parts] for part in range(num_parts)]
