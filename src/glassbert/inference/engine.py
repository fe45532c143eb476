"""The packed engine: a network on its device, and many sequences through it in batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from glassbert.inference.devices import Device, PrecisionName
from glassbert.inference.prepare import choose_device, prepared
from glassbert.inference.threads import map_batches
from glassbert.model.bert import Bert, Output
from glassbert.model.layout import Batch
from glassbert.model.packed import BATCH_TOKENS, Each, T, run

Answer = TypeVar("Answer")

INT8_BATCH_TOKENS = 1024
"""Tokens of a batch in int8: products are fast, so the passes between them must stay in the cache."""
GPU_BATCH_TOKENS = 16384
"""Tokens of a batch on a GPU, which has no cache to stay in but many cores to fill."""


@dataclass(frozen=True)
class Engine:
    """A network ready for inference. It keeps no state between calls, so threads can share it."""

    network: Bert
    device: torch.device
    batch_tokens: int

    @classmethod
    def of(
        cls,
        network: Bert,
        *,
        device: Device = "auto",
        precision: PrecisionName = "float32",
        batch_tokens: int | None = None,
    ) -> "Engine":
        """Return an engine over a copy of ``network``, whose weights must not change from now on.

        Args:
            device: `auto` is a GPU if there is one.
            precision: Of the weights and of what flows between layers; outputs are float32.
        """
        place = choose_device(device)
        twin = prepared(network, device=place, precision=precision, has_long_batches=True)
        usual = INT8_BATCH_TOKENS if precision == "int8" else BATCH_TOKENS
        return cls(twin, place, batch_tokens or (usual if place.type == "cpu" else GPU_BATCH_TOKENS))

    @property
    def each(self) -> Each:
        """How batches are worked on: side by side on a CPU, one after the other on a GPU."""
        return map_batches if self.device.type == "cpu" else map

    @torch.inference_mode()
    def __call__(self, batch: Batch, *, predict_at: Tensor | None = None, heads_only: bool = False) -> Output:
        """Return the network's output for ``batch`` in float32; see `Bert.forward`."""
        places = None if predict_at is None else predict_at.to(self.device)
        output = self.network(batch.to(self.device), predict_at=places, heads_only=heads_only)
        return output.as_float32()

    def map(
        self, sequences: Sequence[T], read: Callable[[Output, Batch, list[T]], Sequence[Answer] | Tensor]
    ) -> list[Any]:
        """Run all ``sequences`` and return one answer each, in order.

        Args:
            read: Turns the output of a batch, the batch and its sequences into one answer per sequence. The
                rows of a tensor come back as numpy arrays.
        """
        return run(self, sequences, read, batch_tokens=self.batch_tokens, device=self.device, each=self.each)
