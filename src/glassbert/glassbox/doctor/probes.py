"""Texts that the doctor lets a model read when no data is given, and how networks of each kind read them.

Legend: B sequences, T tokens.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from glassbert.inference.model import Model
from glassbert.inference.translator import Translator
from glassbert.model.layout import Batch
from glassbert.model.tap import Tap

N = TypeVar("N", bound=nn.Module)

TEXTS = (
    "The river rises in the hills and flows slowly to the sea.",
    "She opened the letter, read it twice and put it away.",
    "Prices fell by 3% in March, the third month in a row!",
    "Why does the train to the city leave so late?",
    "A small company sold more bicycles than anyone had expected.",
    "They met again after twenty years, and nothing had changed.",
    "这条河从山里流出，慢慢流向大海。",
    "她打开信，读了两遍，又把它收好。",
    "三月的价格下降了百分之三。",
    "为什么去城里的火车这么晚才开？",
    "Good.",
    "他们二十年后又见面了，一切都没有变，只是大家都老了一点。",
)
MAX_TOKENS = 64
MAX_UNKNOWN = 0.2
"""If a larger share of the texts is unknown, random pieces are used instead."""


@dataclass(frozen=True)
class Probe:
    """Sequences for a network, sorted by length."""

    ids: tuple[tuple[int, ...], ...]
    start_id: int | None = None
    """The first token of a decoder's target; None for an encoder."""

    @property
    def longest(self) -> tuple[int, ...]:
        return self.ids[-1]

    def run(self, network: Any, batch: Batch, tap: Tap | None = None) -> list[Tensor]:
        """Return the network's outputs for each sequence of a batch, one flat tensor each."""
        if self.start_id is None:
            return _flat(network(batch, tap=tap) if tap else network(batch), batch)
        starts = batch.layout.starts
        target_ids = batch.ids.roll(1)
        target_ids[starts] = self.start_id
        target = Batch(target_ids, batch.segments, batch.layout)
        hidden = network(batch, target, tap=tap)
        return [part.flatten().float() for part in batch.layout.split(hidden)]

    def batch(self, sequences: Sequence[Sequence[int]] | None = None) -> Batch:
        """Return sequences, all of the probe's if none are given, as a batch."""
        return Batch.from_lists([list(one) for one in sequences or self.ids])


def _flat(output: Any, batch: Batch) -> list[Tensor]:
    """Return all outputs of an encoder and its heads for each sequence."""
    num_sequences, num_tokens = len(batch.layout.lengths), batch.layout.num_tokens
    parts: list[list[Tensor]] = [[] for _ in range(num_sequences)]
    for value in (output.hidden, output.nsp, output.labels, output.span):
        if value is None:
            continue
        rows = batch.layout.split(value) if len(value) == num_tokens else value.split(1)
        for own, row in zip(parts, rows, strict=True):
            own.append(row.flatten().float())
    return [torch.cat(own) for own in parts]


def probe_for(model: Model | Translator, texts: Sequence[str] = TEXTS) -> Probe:
    """Return sequences for a model: texts as its tokenizer cuts them, or random pieces if it knows few."""
    if isinstance(model, Translator):
        limit = min(MAX_TOKENS, model.network.config.max_length)
        end = model.network.config.eos_token_id
        ids = [tuple([*row[: limit - 1], end]) for row in model.tokenizer.ids_of_batch(list(texts))]
        return Probe(_sorted(ids), model.network.config.decoder_start_token_id)
    vocabulary = model.tokenizer.vocabulary
    limit = min(MAX_TOKENS, model.max_length)
    rows = [row[: limit - 2] for row in model.tokenizer.ids_of_batch(list(texts))]
    flat = [id_ for row in rows for id_ in row]
    if flat.count(vocabulary.unk_id) > MAX_UNKNOWN * len(flat):
        generator = np.random.default_rng(0)
        words = [id_ for id_ in range(len(vocabulary)) if id_ not in vocabulary.special_ids] or [0]
        rows = [generator.choice(words, size=len(row)).tolist() for row in rows]
    return Probe(_sorted([(vocabulary.cls_id, *row, vocabulary.sep_id) for row in rows]))


def _sorted(ids: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    return tuple(sorted(ids, key=len))


def still(network: N) -> N:
    """Return a network with the same weights and dropout off, whatever mode the given one is in."""
    return copy.deepcopy(network, memo={id(one): one for one in network.parameters()}).eval()
