"""The packed engine: many sequences in, batches of a token budget through the network, answers in order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from glassbert.inference.fused import fused
from glassbert.model.bert import Bert, Output
from glassbert.model.layout import Batch
from glassbert.text.tokenizer import Encoding

Answer = TypeVar("Answer")

# About where activations still fit the cache and the matrix products are long enough to be efficient.
BATCH_TOKENS = 2048


def batches_by_length(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Yield the indices of each batch, shortest sequences first.

    Neighbours have nearly equal lengths, so attention meets few shapes. The batches share the tokens evenly:
    a small last one would use the processor badly.
    """
    num_batches = max(1, round(sum(lengths) / batch_tokens))
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


@dataclass(frozen=True)
class Engine:
    """A network ready for inference. It holds no state between calls, so threads can share it."""

    network: Bert
    batch_tokens: int = BATCH_TOKENS

    @classmethod
    def of(cls, network: Bert, *, batch_tokens: int = BATCH_TOKENS) -> "Engine":
        """Return an engine over a fused copy of ``network``; later changes of its weights are not seen."""
        return cls(fused(network), batch_tokens)

    @torch.inference_mode()
    def map(
        self, encodings: Sequence[Encoding], answers: Callable[[Output, Batch, list[int]], Sequence[Answer]]
    ) -> list[Answer]:
        """Run all ``encodings`` and return one answer each, in order.

        Args:
            answers: Turns the output of a batch into one answer per sequence; the list holds the indices of
                the batch's sequences in ``encodings``.
        """
        results: dict[int, Answer] = {}
        for indices in batches_by_length([len(encoding.ids) for encoding in encodings], self.batch_tokens):
            chosen = [encodings[index] for index in indices]
            batch = Batch.from_lists([e.ids for e in chosen], [e.segments for e in chosen])
            results |= zip(indices, answers(self.network(batch), batch, indices), strict=True)
        return [results[index] for index in range(len(encodings))]
