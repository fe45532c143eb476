"""From examples to predictions, in evaluations during training and in a loaded model alike."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from numpy.typing import NDArray

from glassbert.data.examples import E
from glassbert.model.bert import Output
from glassbert.model.layout import Batch
from glassbert.model.packed import Each, run
from glassbert.tasks.task import Input, P, Task

Network = Callable[[Batch], Output]


def decoded(
    task: Task[E, P],
    examples: Sequence[E],
    inputs: Sequence[Sequence[Input]],
    raw: Sequence[Sequence[NDArray[Any]]],
) -> list[P]:
    """Return the prediction for each example from the logits of its inputs."""
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
        device: Where the batches go.
        note: Sees the output of every batch, to measure more than the logits.
        each: Applies a function to every batch: one after the other, or several at once.
    """

    def logits(output: Output, batch: Batch, chosen: list[Input]) -> list[NDArray[Any]]:
        if note:
            note(output, chosen)
        return task.raw(output, chosen)

    flat = [one for windows in inputs for one in windows]
    ordered = iter(run(network, flat, logits, device=device, each=each))
    return [[next(ordered) for _ in windows] for windows in inputs]
