"""The packed engine: many sequences in, batches of a token budget through the network, answers in order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from glassbert.data.pretraining.batches import batches_by_length
from glassbert.inference.fused import fused
from glassbert.inference.threads import map_batches
from glassbert.model.bert import Bert, Output
from glassbert.model.layout import Batch
from glassbert.tasks.forward import BATCH_TOKENS
from glassbert.text.wordpiece.tokenizer import Encoding

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Engine:
    """A network ready for inference. It holds no state between calls, so threads can share it."""

    network: Bert
    batch_tokens: int = BATCH_TOKENS

    @classmethod
    def of(cls, network: Bert, *, batch_tokens: int = BATCH_TOKENS) -> "Engine":
        """Return an engine over a copy of ``network``, whose weights must not change from now on."""
        return cls(fused(network, has_long_batches=True), batch_tokens)

    def map(
        self, encodings: Sequence[Encoding], answers: Callable[[Output, Batch, list[int]], Sequence[Answer]]
    ) -> list[Answer]:
        """Run all ``encodings`` and return one answer each, in order.

        Args:
            answers: Turns the output of a batch into one answer per sequence; the list holds the indices of
                the batch's sequences in ``encodings``.
        """

        @torch.inference_mode()
        def answer(indices: list[int]) -> Sequence[Answer]:
            chosen = [encodings[index] for index in indices]
            batch = Batch.from_lists([e.ids for e in chosen], [e.segments for e in chosen])
            return answers(self.network(batch), batch, indices)

        results: dict[int, Answer] = {}
        lengths = [len(encoding.ids) for encoding in encodings]
        batches = list(batches_by_length(lengths, self.batch_tokens, multiple_of=torch.get_num_threads()))
        for indices, found in zip(batches, map_batches(answer, batches), strict=True):
            results |= zip(indices, found, strict=True)
        return [results[index] for index in range(len(encodings))]
