"""The packed engine: many sequences in, batches of a token budget through the network, answers in order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from glassbert.data.batching import batches_by_length
from glassbert.inference.fused import fused
from glassbert.model.bert import Bert, Output
from glassbert.model.layout import Batch
from glassbert.text.tokenizer import Encoding

Answer = TypeVar("Answer")

# About where activations still fit the cache and the matrix products are long enough to be efficient.
BATCH_TOKENS = 2048


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
