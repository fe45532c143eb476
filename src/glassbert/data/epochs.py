"""The epochs of a run: which batch belongs to a step, and how the rows of fine-tuning are shuffled.

Epochs are planned one by one and may differ in their number of batches. Everything is a pure function of seed
and epoch, so that a run can stop and resume at any step.
"""

import math
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassbert.data.random import Draw, permutation

Batch = TypeVar("Batch")

_KEPT_EPOCHS = 2  # at the border of two epochs, batches of both may be asked for in turn


class Epochs(Generic[Batch]):
    """The plans of a run's epochs, made when they are needed."""

    def __init__(self, plan: Callable[[int], Sequence[Batch]]) -> None:
        """Store how to plan; nothing is planned yet.

        Args:
            plan: Returns the batches of an epoch, at least one, the same whenever it is asked.
        """
        self._plan = plan
        self._plans: dict[int, Sequence[Batch]] = {}
        self.batch_counts: list[int] = []
        """How many batches each epoch has, for the epochs known so far. Counts from an earlier session may be
        put here, which saves planning past epochs again."""

    def batch(self, step: int) -> Batch:
        """Return the batch of a step."""
        epoch, index = self.place_of(step)
        return self._planned(epoch)[index]

    def place_of(self, step: int) -> tuple[int, int]:
        """Return the epoch of a step, and which of its batches the step is."""
        epoch = 0
        while step and step >= self.num_batches(epoch):  # the first batch is found without a plan
            step -= self.num_batches(epoch)
            epoch += 1
        return epoch, step

    def num_batches(self, epoch: int) -> int:
        """Return how many batches an epoch has."""
        while len(self.batch_counts) <= epoch:
            self.batch_counts.append(len(self._planned(len(self.batch_counts))))
        return self.batch_counts[epoch]

    def num_done(self, step: int) -> float:
        """Return how many epochs are done before a step."""
        epoch, index = self.place_of(step)
        return epoch + (index / self.num_batches(epoch) if index else 0.0)

    def steps_in(self, num_epochs: float) -> int:
        """Return the number of steps that ``num_epochs`` take, at least one."""
        whole = int(num_epochs)
        steps = sum(self.num_batches(epoch) for epoch in range(whole))
        rest = num_epochs - whole
        return max(1, steps + (math.ceil(rest * self.num_batches(whole)) if rest else 0))

    def _planned(self, epoch: int) -> Sequence[Batch]:
        if epoch not in self._plans:
            while len(self._plans) >= _KEPT_EPOCHS:
                del self._plans[next(iter(self._plans))]
            self._plans[epoch] = self._plan(epoch)
        return self._plans[epoch]


def shuffled_batches(
    lengths: NDArray[np.int64], *, batch_size: int, batch_tokens: int, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    """Return the examples of each batch of an epoch in random order, shortest first within a batch.

    Texts of like length need not be in one batch, since batches are packed; that would make batches alike
    within and unlike each other.

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
