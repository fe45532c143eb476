"""What compute threads do with a batch: one group for each thing that a model can be asked."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glassbert.inference.decode import DecodeSettings
from glassbert.inference.model import Model
from glassbert.inference.threads import compute_alone
from glassbert.inference.translator import Translation, Translator
from glassbert.model.bert import Output
from glassbert.model.layout import Batch
from glassbert.model.packed import pack, run
from glassbert.tasks.task import Input, Task


@dataclass(frozen=True, slots=True)
class Tokens:
    """A sequence for the encoder."""

    ids: Sequence[int] | NDArray[Any]
    segments: Sequence[int] | NDArray[Any]


@dataclass(frozen=True, slots=True)
class Masked:
    """A sequence with masks, and what is asked about them."""

    ids: Sequence[int]
    segments: Sequence[int]
    places: tuple[int, ...]
    top: int
    targets: tuple[int, ...] = ()
    """Only these pieces are candidates; all of them when empty."""


@dataclass(frozen=True, eq=False)
class Encode:
    """Any question that one pass of the encoder answers sequence by sequence."""

    model: Model
    read: Callable[[Output, Batch, list[Any]], Any]
    heads_only: bool = False
    is_exact: bool = False

    def run(self, payloads: Sequence[Any]) -> Sequence[Any]:
        engine = self.model.engine
        network = partial(engine, heads_only=self.heads_only)
        groups = [[one] for one in payloads] if self.is_exact else [payloads]
        # One batch: the queue has chosen its size.
        run_whole = partial(run, batch_tokens=sys.maxsize, device=engine.device)
        return [row for group in groups for row in run_whole(network, group, self.read)]


def embed(model: Model, *, is_exact: bool = False) -> Encode:
    """Return the group of texts that become one vector each."""
    return Encode(
        model, lambda output, batch, _: model.pooling(output.hidden, batch.layout), is_exact=is_exact
    )


def embed_tokens(model: Model, *, is_exact: bool = False) -> Encode:
    """Return the group of texts that become one vector for each token."""

    def read(output: Output, batch: Batch, _: list[Tokens]) -> list[NDArray[Any]]:
        return [part.cpu().numpy() for part in batch.layout.split(output.hidden)]

    return Encode(model, read, is_exact=is_exact)


def predict(model: Model, task: Task[Any, Any], *, is_exact: bool = False) -> Encode:
    """Return the group of inputs to the model's own task."""

    def read(output: Output, _: Batch, inputs: list[Input]) -> list[NDArray[Any]]:
        return task.raw(output, inputs)

    return Encode(model, read, heads_only=True, is_exact=is_exact)


@dataclass(frozen=True, eq=False)
class Fill:
    """Texts with masks: each becomes the ids and probabilities of the candidates for each of its masks."""

    model: Model
    is_exact: bool = False

    def run(self, payloads: Sequence[Masked]) -> Sequence[Any]:
        if self.is_exact and len(payloads) > 1:
            return [answer for one in payloads for answer in self.run([one])]
        batch = pack(payloads)
        starts = batch.layout.starts.tolist()
        places = [start + place for start, one in zip(starts, payloads, strict=True) for place in one.places]
        with torch.inference_mode():
            logits = self.model.engine(batch, predict_at=torch.tensor(places), heads_only=True).mlm
            assert logits is not None
            # A model may have more rows than its vocabulary has pieces.
            probs = logits.softmax(dim=-1)[:, : len(self.model.tokenizer.vocabulary.pieces)].cpu()
        by_text = probs.split([len(one.places) for one in payloads])
        return [_best(rows, one) for rows, one in zip(by_text, payloads, strict=True)]


def _best(probs: torch.Tensor, asked: Masked) -> tuple[list[list[int]], list[list[float]]]:
    """Return the likeliest ids for each mask, and their probabilities."""
    if asked.targets:
        targets = torch.tensor(asked.targets)
        best = probs[:, targets].topk(min(asked.top, len(targets)))
        return targets[best.indices].tolist(), best.values.tolist()
    best = probs.topk(min(asked.top, probs.size(1)))
    return best.indices.tolist(), best.values.tolist()


@dataclass(frozen=True)
class Translate:
    """Texts to translate in the same way. A payload is a text and its index in its request."""

    model: Translator
    settings: DecodeSettings
    is_exact: bool = False

    def run(self, payloads: Sequence[tuple[str, int]]) -> Sequence[Translation]:
        if self.is_exact or self.settings.method == "sample":
            # What is drawn at random for a text depends on its index, so that the answer can be repeated.
            return [
                translation
                for text, index in payloads
                for translation in self.model.stream([text], self.settings, first_index=index)
            ]
        return self.model.translate([text for text, _ in payloads], self.settings)


def prepare_thread() -> None:
    """Make the calling thread a compute thread: its batches run on one core."""
    compute_alone()


def use_cores(number: int) -> None:
    """Let the batches of the calling thread run on this many cores."""
    torch.set_num_threads(number)


def check_finite(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return ``values``; raise if a vector has NaN or infinity."""
    if not np.isfinite(values).all():
        raise FloatingPointError("the model's output is not finite")
    return values
