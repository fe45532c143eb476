"""The order of examples in fine-tuning: shuffled anew in every epoch.

Batches are packed, so texts of like length need not meet in one, which would make batches alike within and
unlike each other. Everything is a pure function of seed and epoch, so that a run can stop and go on at any
step.
"""

import numpy as np
from numpy.typing import NDArray

from glassbert.data.random import Draw, permutation


def shuffled_batches(
    lengths: NDArray[np.int64], *, batch_size: int, batch_tokens: int, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    """Return the examples of each batch of an epoch, shortest first within a batch.

    Args:
        lengths: Tokens of each example.
        batch_size: Examples of a batch; those of an epoch differ by at most one, so that none is tiny.
        batch_tokens: A batch with more tokens is divided, unless it is a single example.
    """
    order = permutation(len(lengths), seed, Draw.ORDER, epoch)
    batches = np.array_split(order, -(-len(lengths) // batch_size))
    return [part for batch in batches for part in _divided(batch, lengths, batch_tokens)]


def _divided(
    batch: NDArray[np.int64], lengths: NDArray[np.int64], batch_tokens: int
) -> list[NDArray[np.int64]]:
    batch = batch[np.argsort(lengths[batch], kind="stable")]
    num_parts = min(len(batch), -(-int(lengths[batch].sum()) // batch_tokens))
    # Dealt like cards: sorted by length, the parts then have nearly the same number of tokens.
    return [batch[part::num_parts] for part in range(num_parts)]
