"""A packed batch before it is labelled: where its tokens lie, and at which moment of a run it is made.

Legend: T tokens of a packed batch, B its examples.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassbert.errors import UserError


@dataclass(frozen=True)
class Packing:
    """Where the tokens of a packed batch lie."""

    starts: NDArray[np.int64]
    """The first token of each example, (B,)."""
    owners: NDArray[np.int64]
    """Which example of the batch a token belongs to, (T,)."""
    examples: NDArray[np.int64]
    """The number of each example in its epoch, (B,)."""
    pair_labels: NDArray[np.int64]
    """The label that the arrangement of the texts gives each example, (B,); see `Drafts.pair_labels`."""
    word_starts: Callable[[], NDArray[np.bool_]]
    """Read where words begin, (T,); only whole words need it."""

    def positions(self) -> NDArray[np.int64]:
        """Return each token's place in its example, (T,)."""
        return np.arange(len(self.owners)) - self.starts[self.owners]

    def word_heads(self) -> NDArray[np.int64]:
        """Return the first token of each token's word, (T,)."""
        return np.maximum.accumulate(np.where(self.word_starts(), np.arange(len(self.owners)), 0))


@dataclass(frozen=True)
class Moment:
    """When a batch is made. All that its labels depend on beside its text, so any step can be made again."""

    seed: int
    epoch: int
    step: int
    num_steps: int | None
    """Steps of the whole run; None when the clock ends it."""

    @property
    def share_done(self) -> float:
        """How much of the run is done before this batch, from 0 to 1."""
        if self.num_steps is None:
            raise UserError(
                "the objective changes in the course of a run, so it must know how long the run is; "
                "set train.steps or train.epochs instead of train.minutes"
            )
        return self.step / self.num_steps
