"""A loaded translator: text in, text out, in order, in bounded memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassbert.arguments import checked_methods
from glassbert.config import LstmConfig, TransformerConfig
from glassbert.errors import ModelError
from glassbert.inference.arguments import check_characters, check_finite
from glassbert.inference.decode import Decoder, DecodeSettings, Hypothesis
from glassbert.inference.devices import Device, PrecisionName
from glassbert.inference.loaded import InFile, Loaded
from glassbert.interop.ctranslate2 import export_ctranslate2
from glassbert.interop.folder import TranslatorNetwork, write_model
from glassbert.model.layout import Batch
from glassbert.model.packed import in_batches
from glassbert.model.seq2seq import Transformer
from glassbert.model.torch_state import with_own_torch_state
from glassbert.storage import new_folder
from glassbert.text.bpe.pieces import UNKNOWN
from glassbert.text.bpe.tokenizer import SubwordTokenizer
from glassbert.text.portions import grouped

CHUNK_SIZE = 1024
"""Texts of a stream that are read, sorted by length and answered together."""
CHUNK_CHARACTERS = 1 << 24
"""Fewer texts, if they are very long."""

_ALIGNED_TOKENS = 4096
_SCORED_TOKENS = 1024


@dataclass(frozen=True)
class Alternative:
    """One translation of a text."""

    text: str
    score: float
    """The log-probability normalised by length, by which translations are ranked."""
    log_prob: float
    finished: bool
    """False when the longest length was reached before the end."""


@dataclass(frozen=True)
class Alignment:
    """Where the decoder looked when it wrote each piece."""

    source: tuple[str, ...]
    """Pieces of the source with its end; spaces are visible."""
    target: tuple[str, ...]
    """Pieces of the translation, with its end if it has one."""
    weights: tuple[tuple[float, ...], ...]
    """For each piece of the target, its attention to each piece of the source; a row adds up to 1."""


@dataclass(frozen=True)
class Translation:
    """The translation of one text; that of a blank text is blank."""

    text: str
    score: float
    finished: bool
    truncated: bool
    """Whether the text was longer than the model takes, so that its end was not translated."""
    tokens: int
    """Tokens that the text gave to the model, its end included."""
    n_best: tuple[Alternative, ...]
    """All translations that were asked for, best first."""
    alignment: Alignment | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; `n_best` and `alignment` only if they were asked for."""
        data: dict[str, Any] = {
            "text": self.text,
            "score": self.score,
            "finished": self.finished,
            "truncated": self.truncated,
            "tokens": self.tokens,
        }
        if len(self.n_best) > 1:
            data["n_best"] = [vars(alternative) for alternative in self.n_best]
        if self.alignment is not None:
            data["alignment"] = vars(self.alignment)
        return data


@dataclass(frozen=True)
class SourceEncoding:
    """A text as the encoder of a translator reads it."""

    ids: list[int]
    """Ids of the pieces and of the end; none for a blank text."""
    pieces: list[str]
    """The same as text; spaces are visible."""
    truncated: bool
    """Whether the text was longer than the model takes."""


@checked_methods
class Translator(Loaded[TranslatorNetwork]):
    """An encoder-decoder with its vocabulary. Methods keep no state, so threads can share one translator.

    `glassbert.load` reads one from a folder. `Translator(network, tokenizer).save(folder)` writes a new one.
    """

    def __init__(
        self,
        network: TranslatorNetwork | InFile[TranslatorNetwork],
        tokenizer: SubwordTokenizer,
        run: Mapping[str, Any] = MappingProxyType({}),
        *,
        folder: str | Path | None = None,
        device: Device = "auto",
        precision: PrecisionName = "float32",
    ) -> None:
        """Put a network and its vocabulary together.

        Args:
            run: The content of run.json: how the model was made.
            folder: Where it was read from.
            device: Where the model runs; `auto` takes a GPU if there is one.
            precision: Of the weights at work, and of what flows between layers.
        """
        super().__init__(network, device, precision)
        self.tokenizer = tokenizer
        self.folder = None if folder is None else Path(folder)
        self.run = run

    def _facts(self) -> Mapping[str, object]:
        shape = self.config.encoder if isinstance(self.config, TransformerConfig) else self.config
        return {
            "network": type(self._in_memory).__name__,
            "num_hidden_layers": shape.num_hidden_layers,
            "hidden_size": shape.hidden_size,
            "num_parameters": self.num_parameters,
            "vocab_size": len(self.tokenizer),
            "max_length": self.max_length,
            **super()._facts(),
        }

    @property
    def config(self) -> TransformerConfig | LstmConfig:
        """The shape of the network."""
        return self._in_memory.config

    @property
    def max_length(self) -> int:
        """Tokens of the longest source, its end included."""
        return self.config.max_length

    @cached_property
    def decoder(self) -> Decoder:
        """The fast path, built when first needed."""
        return Decoder.of(self._in_memory, **self._place)

    def tokenize(self, texts: Sequence[str]) -> list[SourceEncoding]:
        """Return the input that the encoder gets for each text, no longer than it takes."""
        shown = self.tokenizer.shown
        return [SourceEncoding(ids, shown(ids), is_cut) for ids, is_cut in self._sources(texts)]

    def translate(
        self, texts: Sequence[str], settings: DecodeSettings | None = None, *, with_alignment: bool = False
    ) -> list[Translation]:
        """Return the translation of each text, in order.

        Args:
            settings: How to search; `usual_settings(beam_size=8)` changes only what it names.
            with_alignment: Also return where the decoder looked, which costs a further pass.
        """
        return list(self.stream(texts, settings, with_alignment=with_alignment))

    def stream(
        self,
        texts: Iterable[str],
        settings: DecodeSettings | None = None,
        *,
        with_alignment: bool = False,
        chunk_size: int = CHUNK_SIZE,
        first_index: int = 0,
    ) -> Iterator[Translation]:
        """Yield the translation of each text, in order, with ``chunk_size`` texts in memory at a time.

        Args:
            first_index: Index of the first text in a longer stream, on which sampling depends.
        """
        settings, done = settings or self.usual_settings(), first_index
        for chunk in grouped(texts, max_items=chunk_size, max_characters=CHUNK_CHARACTERS):
            yield from self._translated(chunk, settings, done, with_alignment)
            done += len(chunk)

    def usual_settings(self, **changes: Any) -> DecodeSettings:
        """Return the settings of a search that fits the model, with these changes."""
        return DecodeSettings(**{"max_length": self.max_length, **changes})

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write a folder that `glassbert.load` reads; it appears complete or not at all.

        Args:
            overwrite: Replace a folder that is not empty.
        """
        with new_folder(Path(folder), overwrite=overwrite) as new:
            write_model(self.network, self.tokenizer, new, run=self.run)

    def export_ctranslate2(
        self, out: str | Path, *, quantization: str | None = None, overwrite: bool = False
    ) -> None:
        """Write a folder that `ctranslate2.Translator` loads; it takes and gives the tokenizer's pieces.

        Args:
            quantization: How to store the numbers, such as int8; as float32 when not given.
            overwrite: Replace a folder that is not empty.
        """
        if not isinstance(self.network, Transformer):
            raise ModelError("CTranslate2 runs Transformers only, and this is an LSTM; nothing was written")
        export_ctranslate2(
            self.network,
            self.tokenizer.pieces,
            Path(out),
            unknown_piece=UNKNOWN,
            quantization=quantization,
            overwrite=overwrite,
        )

    @with_own_torch_state
    def _translated(
        self, texts: Sequence[str], settings: DecodeSettings, first_index: int, with_alignment: bool
    ) -> list[Translation]:
        check_characters(texts)
        sources = self._sources(texts)
        # Blank texts are decoded too: what is drawn at random for a text depends on its place.
        placeholder = [self.tokenizer.end_id]
        found = self.decoder.decode(
            [ids or placeholder for ids, _ in sources], settings, first_index=first_index
        )
        alignments: Sequence[Alignment | None] = [None] * len(texts)
        if with_alignment:
            best = [hypotheses[0] for hypotheses in found]
            alignments = self._alignments(list(zip([ids for ids, _ in sources], best, strict=True)))
        return [
            self._translation(source, hypotheses, alignment)
            for source, hypotheses, alignment in zip(sources, found, alignments, strict=True)
        ]

    def _sources(self, texts: Sequence[str]) -> list[tuple[list[int], bool]]:
        """Return the ids of each text with its end, none for a blank text, and whether it was cut."""
        limit, end_id = self.max_length - 1, self.tokenizer.end_id
        return [
            ([*ids[:limit], end_id], len(ids) > limit) if text.strip() else ([], False)
            for text, ids in zip(texts, self.tokenizer.ids_of_batch(texts), strict=True)
        ]

    def _translation(
        self, source: tuple[list[int], bool], hypotheses: Sequence[Hypothesis], alignment: Alignment | None
    ) -> Translation:
        ids, is_cut = source
        if not ids:
            nothing = Alternative("", 0.0, 0.0, True)
            return Translation("", 0.0, True, is_cut, 0, (nothing,) * len(hypotheses))
        n_best = tuple(
            Alternative(self.tokenizer.decode(one.ids), one.score, one.log_prob, one.is_finished)
            for one in hypotheses
        )
        best = n_best[0]
        check_finite(np.array([one.score for one in n_best]), "the scores of a translation are")
        return Translation(
            text=best.text,
            score=best.score,
            finished=best.finished,
            truncated=is_cut,
            tokens=len(ids),
            n_best=n_best,
            alignment=alignment,
        )

    def _alignments(self, pairs: Sequence[tuple[list[int], Hypothesis]]) -> list[Alignment | None]:
        """Return where the decoder looked, for each source; None for a blank one."""
        both = [
            (ids, [*h.ids, self.tokenizer.end_id] if h.is_finished else list(h.ids))
            for ids, h in pairs
            if ids
        ]

        @torch.inference_mode()
        def aligned(places: list[int]) -> list[Alignment]:
            # Sorted, so that a batch holds few different shapes.
            order = sorted(places, key=lambda place: (len(both[place][0]), len(both[place][1])))
            source = Batch.from_lists([both[place][0] for place in order])
            target = Batch.from_lists([[self.tokenizer.pad_id, *both[place][1][:-1]] for place in order])
            weights = dict(zip(order, self.network.alignments(source, target), strict=True))
            return [self._alignment(*both[place], weights[place]) for place in places]

        found = iter(in_batches(aligned, [len(a) + len(b) for a, b in both], batch_tokens=_ALIGNED_TOKENS))
        return [next(found) if ids else None for ids, _ in pairs]

    def _alignment(self, source: list[int], target: list[int], weights: Tensor) -> Alignment:
        return Alignment(
            source=tuple(self.tokenizer.shown(source)),
            target=tuple(self.tokenizer.shown(target)),
            weights=tuple(tuple(round(share, 4) for share in row) for row in weights.tolist()),
        )


def length_warnings(
    num_texts: int, num_truncated: int, num_unfinished: int, translator: Translator, settings: DecodeSettings
) -> list[str]:
    """Return how many texts were too long, and how many translations did not end, in words."""
    limit, lines = translator.max_length, []
    if num_truncated:
        lines.append(f"{num_truncated} of {num_texts} texts were longer than {limit} tokens and were cut")
    if num_unfinished:
        limit = min(limit, settings.max_length)
        lines.append(f"{num_unfinished} of {num_texts} translations reached {limit} tokens without an end")
    return lines


def best_targets(
    network: TranslatorNetwork, sources: Sequence[Sequence[int]], *, beam: int
) -> list[Sequence[int]]:
    """Return the best target of each source, in order, to score a model during its training.

    A target may be a little more than twice as long as its source: early in training a model hardly ever ends
    a sentence by itself.
    """
    decoder = Decoder.of(network)

    def targets(indices: list[int]) -> list[Sequence[int]]:
        settings = DecodeSettings(
            method="greedy" if beam == 1 else "beam",
            beam_size=beam,
            max_length=2 * max(len(sources[index]) for index in indices) + 10,
        )
        return [found[0].ids for found in decoder.decode([sources[index] for index in indices], settings)]

    return in_batches(targets, [len(source) for source in sources], batch_tokens=_SCORED_TOKENS)
