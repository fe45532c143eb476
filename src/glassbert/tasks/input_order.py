"""The order of training inputs: a pure function of the step, so that a run can resume anywhere."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from glassbert.data.epochs import Epochs, shuffled_batches
from glassbert.data.teacher_outputs import TeacherOutputs
from glassbert.tasks.task import Input


class InputOrder:
    """Batches of examples, each with all of its inputs, and with a teacher's answers."""

    def __init__(
        self, inputs: Sequence[Sequence[Input]], *, batch_size: int, batch_tokens: int, seed: int
    ) -> None:
        """Count the tokens of each example."""
        self.inputs = inputs
        self.taught: TeacherOutputs | None = None
        lengths = np.array([sum(map(len, windows)) for windows in inputs], dtype=np.int64)
        order = {"batch_size": batch_size, "batch_tokens": batch_tokens, "seed": seed}
        self.epochs = Epochs(lambda epoch: shuffled_batches(lengths, epoch=epoch, **order))
        self._starts: NDArray[np.int64] = np.cumsum([0, *map(len, inputs)])

    def flat(self) -> Iterator[Input]:
        """Yield all inputs, in the order of the examples."""
        return (one for windows in self.inputs for one in windows)

    def batch(self, step: int) -> list[Input]:
        """Return the inputs of a step, shortest first."""
        chosen = [one for example in self.epochs.batch(step) for one in self._with_answers(int(example))]
        return sorted(chosen, key=len)

    @staticmethod
    def split(batch: Sequence[Input], num_parts: int) -> list[list[Input]]:
        """Return the batch in parts of nearly the same number of tokens."""
        # Dealt like cards: since inputs are sorted by length, all parts have about as many tokens.
        num_parts = min(num_parts, len(batch))
        return [list(batch[part::num_parts]) for part in range(num_parts)]

    def _with_answers(self, example: int) -> Sequence[Input]:
        windows, start = self.inputs[example], int(self._starts[example])
        if self.taught is None:
            return windows
        return [replace(one, taught=self.taught[start + place]) for place, one in enumerate(windows)]
