"""Many sequences through a network: batches of about a token budget, answers in the order of the sequences.

Legend: T tokens of a batch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassbert.model.layout import Batch, Layout

BATCH_TOKENS = 2048
"""About where activations still fit a CPU's cache and matrix products are long enough to be efficient."""

Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""`map`, or a function like it that works on several items at once."""
Answer = TypeVar("Answer")
NetworkOutput = TypeVar("NetworkOutput")


class Tokens(Protocol):
    """A sequence that can be packed."""

    @property
    def ids(self) -> Sequence[int] | NDArray[Any]:
        """Token ids."""

    @property
    def segments(self) -> Sequence[int] | NDArray[Any]:
        """0 for tokens of the first text, 1 for those of the second."""


T = TypeVar("T", bound=Tokens)


def run(
    network: Callable[[Batch], NetworkOutput],
    sequences: Sequence[T],
    read: Callable[[NetworkOutput, Batch, list[T]], Sequence[Answer] | Tensor],
    *,
    batch_tokens: int = BATCH_TOKENS,
    device: torch.device | None = None,
    each: Each = map,
) -> list[Answer]:
    """Run all ``sequences`` through ``network``, without gradients, and return one answer each, in order.

    Args:
        read: Turns the network's output, its batch and the batch's sequences into one answer per sequence.
            The rows of a tensor come back as numpy arrays.
        device: Where the batches go.
        each: Applies a function to every batch: one after the other, or several at once.
    """

    @torch.no_grad()
    def answers(indices: list[int]) -> Sequence[Answer]:
        chosen = [sequences[index] for index in indices]
        batch = pack(chosen, device)
        found = read(network(batch), batch, chosen)
        return list(found.cpu().numpy()) if isinstance(found, Tensor) else found

    lengths = [len(sequence.ids) for sequence in sequences]
    num_workers = torch.get_num_threads()
    return in_batches(answers, lengths, batch_tokens=batch_tokens, num_workers=num_workers, each=each)


def in_batches(
    work: Callable[[list[int]], Sequence[Answer]],
    lengths: Sequence[int],
    *,
    batch_tokens: int,
    num_workers: int = 1,
    each: Each = map,
) -> list[Answer]:
    """Return one answer for each of the ``lengths``, in order.

    Args:
        work: Returns the answers for the sequences of one batch, given by their indices.
    """
    batches = list(batches_by_length(lengths, batch_tokens, num_workers=num_workers))
    answers: dict[int, Answer] = {}
    for indices, found in zip(batches, each(work, batches), strict=True):
        answers |= zip(indices, found, strict=True)
    return [answers[index] for index in range(len(lengths))]


def batches_by_length(
    lengths: Sequence[int], batch_tokens: int, *, num_workers: int = 1
) -> Iterator[list[int]]:
    """Yield the indices of each batch, shortest sequences first.

    Neighbours have nearly equal lengths, so attention meets few shapes. The batches share the tokens evenly:
    a small last one would use the processor badly.

    Args:
        num_workers: Give every worker the same number of batches, where there is at least one for each.
    """
    num_batches = max(1, round(sum(lengths) / batch_tokens))
    if num_batches >= num_workers:
        num_batches = num_workers * round(num_batches / num_workers)
    budget = sum(lengths) / num_batches
    chosen: list[int] = []
    done = tokens = 0
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        chosen.append(index)
        tokens += lengths[index]
        if tokens >= budget * (done + 1):
            yield chosen
            chosen, done = [], done + 1
    if chosen:
        yield chosen


def pack(sequences: Sequence[Tokens], device: torch.device | None = None) -> Batch:
    """Return ``sequences`` concatenated as one batch, (T,)."""
    layout = Layout(tuple(len(sequence.ids) for sequence in sequences))
    ids, segments = (
        torch.from_numpy(np.concatenate(parts)).to(device, torch.int64)
        for parts in ([one.ids for one in sequences], [one.segments for one in sequences])
    )
    return Batch(ids, segments, layout)
