"""Vectors of the words of a text, in their context.

A word's vector is the mean over its pieces and over all layers: the last layer alone drifts towards the
meaning of the whole sentence, the first layer does not know the sentence.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassbert.inference.arguments import check_characters, check_finite
from glassbert.inference.inputs import inputs_of
from glassbert.inference.model import Model
from glassbert.model.layout import Batch
from glassbert.model.packed import run
from glassbert.tasks.task import Input
from glassbert.text.alignment import as_offsets, pieces_of_characters
from glassbert.text.characters import is_chinese
from glassbert.text.segment import Segmenter, segmenter

SegmenterSource = str | Path | Sequence[str] | None
Span = tuple[int, int]
Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Word:
    """A word of a text."""

    text: str
    start: int
    """Its first character in the text."""
    end: int
    """The character after its last."""
    vector: Vector = field(repr=False, compare=False)
    """(features,)."""

    def to_json(self, *, with_vector: bool = True) -> dict[str, Any]:
        """Return what `words --spans` prints, with the vector on request."""
        place = {"word": self.text, "start": self.start, "end": self.end}
        return place | ({"vector": self.vector.tolist()} if with_vector else {})


def words(model: Model, text: str, *, segmenter: SegmenterSource = None) -> list[Word]:
    """Return the words of a text with their vectors; those beyond the model's longest input are left out.

    Args:
        segmenter: Finds Chinese words, as `glassbert.segmenter` takes it; rjieba when not given.
    """
    return words_of_texts(model, [text], segmenter=segmenter)[0]


def words_of_texts(
    model: Model, texts: Sequence[str], *, segmenter: SegmenterSource = None
) -> list[list[Word]]:
    """Return the words of each text, as `words` does."""
    check_characters(texts)
    cut = segmenter_for(segmenter, texts)
    spans = [cut.words(text) for text in texts]
    return [
        [
            Word(text[start:end], start, end, vector)
            for (start, end), vector in zip(at, found, strict=True)
            if vector is not None
        ]
        for text, at, found in zip(texts, spans, vectors_at(model, texts, spans), strict=True)
    ]


def segmenter_for(source: SegmenterSource, texts: Iterable[str]) -> Segmenter:
    """Return what finds the words of texts: rjieba, unless another is named or there is nothing Chinese."""
    if source is None:
        source = "rjieba" if any(map(is_chinese, (mark for text in texts for mark in text))) else ()
    return segmenter(source)


def vectors_at(
    model: Model, texts: Sequence[str], spans_of_texts: Sequence[Sequence[Span]]
) -> list[list[Vector | None]]:
    """Return the vector of each span of each text; None for a span that has no piece, or that was cut off."""
    pieces = model.tokenizer.pieces_of_batch(texts)
    inputs = inputs_of(model.tokenizer, [one.ids for one in pieces], model.max_length)
    runs = []
    for one, spans in zip(pieces, spans_of_texts, strict=True):
        starts, ends = ([span[side] for span in spans] for side in (0, 1))
        found = pieces_of_characters(as_offsets(one.offsets), starts, ends)
        runs.append(list(zip(found.start.tolist(), found.stop.tolist(), strict=True)))
    vectors: list[list[Vector | None]] = run(
        _layers(model), inputs, partial(_read, runs), device=model.engine.device, each=model.engine.each
    )
    check_finite(
        np.array([one.sum() for found in vectors for one in found if one is not None]), "the vectors are"
    )
    return vectors


def _layers(model: Model) -> Callable[[Batch], Tensor]:
    encoder = model.engine.network.encoder

    @torch.inference_mode()
    def mean_of_layers(batch: Batch) -> Tensor:
        return encoder.mean_of_layers(batch).float()

    return mean_of_layers


def _read(
    runs: Sequence[Sequence[Span]], hidden: Tensor, batch: Batch, chosen: Sequence[Input]
) -> list[list[Vector | None]]:
    """Return the mean of each run of pieces; [CLS] is before the first."""
    found = []
    for states, one in zip(batch.layout.split(hidden), chosen, strict=True):
        rows = states.cpu().numpy()[1:-1]
        found.append(
            [
                rows[start:stop].mean(axis=0) if start < stop <= len(rows) else None
                for start, stop in runs[one.example]
            ]
        )
    return found
