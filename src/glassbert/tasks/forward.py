"""From examples to predictions: the same way in training's evaluations and in a loaded model."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from numpy.typing import NDArray

from glassbert.data.pretraining.batches import batches_by_length
from glassbert.model.bert import Output
from glassbert.model.layout import Batch
from glassbert.tasks.task import E, Input, P, Task, packed

BATCH_TOKENS = 2048
"""About where activations still fit the cache and the matrix products are long enough to be efficient."""

Network = Callable[[Batch], Output]
Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""`map`, or a faster one."""


def predictions(task: Task[E, P], network: Network, examples: Sequence[E], each: Each = map) -> list[P]:
    """Return what the model says of each example, in order."""
    inputs = task.inputs(examples, with_targets=False)
    return decoded(task, examples, inputs, raw_outputs(task, network, inputs, each=each))


def decoded(
    task: Task[E, P],
    examples: Sequence[E],
    inputs: Sequence[Sequence[Input]],
    raw: Sequence[Sequence[NDArray[Any]]],
) -> list[P]:
    """Read the logits of each example's inputs."""
    return [task.predict(*one) for one in zip(examples, inputs, raw, strict=True)]


def raw_outputs(
    task: Task[E, P],
    network: Network,
    inputs: Sequence[Sequence[Input]],
    device: torch.device | None = None,
    note: Callable[[Output, Sequence[Input]], None] | None = None,
    each: Each = map,
) -> list[list[NDArray[Any]]]:
    """Return the logits of each example's inputs, which may be spread over many batches.

    Args:
        note: Sees the output of every batch, to measure more than the logits.
        each: Applies a function to every batch: one after the other, or side by side.
    """
    flat = [one for windows in inputs for one in windows]

    @torch.no_grad()
    def logits(indices: list[int]) -> list[NDArray[Any]]:
        chosen = [flat[index] for index in indices]
        output = network(packed(chosen, device))
        if note:
            note(output, chosen)
        return task.raw(output, chosen)

    lengths = [len(one) for one in flat]
    batches = list(batches_by_length(lengths, BATCH_TOKENS, multiple_of=torch.get_num_threads()))
    found: dict[int, NDArray[Any]] = {}
    for indices, raw in zip(batches, each(logits, batches), strict=True):
        found |= zip(indices, raw, strict=True)
    ordered = (found[index] for index in range(len(flat)))
    return [[next(ordered) for _ in windows] for windows in inputs]
