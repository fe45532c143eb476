"""A loaded model: what `glassbert.load` returns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassbert.config import ModelConfig
from glassbert.data.examples import Example
from glassbert.errors import ModelError, UserError
from glassbert.inference.engine import Engine
from glassbert.inference.predict import Item, as_example, is_pair, with_abstention
from glassbert.interop.folder import check_vocabulary, read_run
from glassbert.interop.huggingface import LoadReport, build
from glassbert.interop.sentence_transformers import read_sentence_settings
from glassbert.interop.stored import read_stored
from glassbert.model.bert import Bert
from glassbert.model.layout import Batch
from glassbert.model.pooling import Pooling
from glassbert.model_names import model_folder
from glassbert.tasks.fine_tuning import load_task
from glassbert.tasks.forward import predictions
from glassbert.tasks.task import Prediction, Task
from glassbert.text.truncate import Keep
from glassbert.text.wordpiece.tokenizer import Encoding, Tokenizer


@dataclass(frozen=True)
class Candidate:
    """A piece that could stand where [MASK] stands."""

    token: str
    score: float
    """Its probability."""


@dataclass(frozen=True)
class Embeddings:
    """Vectors of texts, in order; numpy takes it as an array of (texts, features)."""

    vectors: np.ndarray[Any, np.dtype[np.float32]]
    tokens: tuple[int, ...]
    """Tokens that each text gave to the model, specials included."""
    truncated: tuple[bool, ...]
    """Whether a text was longer than the model takes."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.vectors, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, index: Any) -> np.ndarray[Any, Any]:
        return self.vectors[index]

    def __iter__(self) -> Iterator[np.ndarray[Any, Any]]:
        return iter(self.vectors)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of texts, number of features."""
        return self.vectors.shape


class Model:
    """A network with its tokenizer. Methods keep no state, so that threads can share one model."""

    def __init__(
        self,
        network: Bert,
        tokenizer: Tokenizer,
        report: LoadReport,
        *,
        pooling: Pooling | None,
        max_length: int,
        folder: Path,
        run: Mapping[str, Any],
    ) -> None:
        self.network = network
        self.tokenizer = tokenizer
        self.report = report
        self.max_length = max_length
        self.pooling = pooling or Pooling()
        self.has_stated_pooling = pooling is not None
        """False when the folder does not say how to pool and `embed` takes the mean."""
        self.folder = folder
        self.run = run
        """What run.json says of how the model came to be; empty for a folder that is not of ours."""

    @property
    def config(self) -> ModelConfig:
        """The shape of the network and its head."""
        return self.network.config

    @cached_property
    def engine(self) -> Engine:
        """The fast path; it is made when first needed."""
        return Engine.of(self.network)

    @cached_property
    def task(self) -> Task[Any, Any]:
        """The task that the model was fine-tuned for."""
        return load_task(self.folder, self.run.get("task", {}), self.tokenizer, self.config)

    def encode(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, *, keep: Keep = "head"
    ) -> list[Encoding]:
        """Return model inputs no longer than the model takes."""
        return self.tokenizer.encode_batch(texts, pairs, max_length=self.max_length, keep=keep)

    def fill(self, text: str, *, top: int = 5) -> list[list[Candidate]]:
        """Return the likeliest pieces for each [MASK] of ``text``, best first."""
        if self.network.mlm is None:
            raise ModelError(
                f"a model with a {self.config.head!r} head has no MLM head; fill needs one that has"
            )
        if top < 1:
            raise UserError(f"top={top}; expected at least 1 candidate")
        encoding = self.encode([text])[0]
        mask_id = self.tokenizer.vocabulary.mask_id
        places = [index for index, token in enumerate(encoding.ids) if token == mask_id]
        num_masks = self.tokenizer.pieces_of(text, parse_specials=True).ids.count(mask_id)
        if not num_masks:
            raise UserError("the text has no [MASK]; write [MASK] where a word is to be filled in")
        if len(places) < num_masks:
            raise UserError(
                f"{num_masks - len(places)} of {num_masks} [MASK] lie beyond the {self.max_length} tokens "
                "that the model takes; shorten the text"
            )
        pieces = self.tokenizer.vocabulary.pieces
        with torch.inference_mode():
            batch = Batch.from_lists([encoding.ids], [encoding.segments])
            logits = self.engine(batch, predict_at=torch.tensor(places), heads_only=True).mlm
            assert logits is not None
            # A model may have rows that no piece stands for.
            best = logits.softmax(dim=-1)[:, : len(pieces)].topk(min(top, len(pieces)))
        return [
            [Candidate(pieces[token], score) for token, score in zip(tokens, scores, strict=True)]
            for tokens, scores in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def embed(self, texts: Sequence[str], *, keep: Keep = "head") -> Embeddings:
        """Return one vector per text, pooled as the folder says, or by the mean when it does not."""
        encodings = self.encode(texts, keep=keep)
        vectors = self.engine.map(
            encodings, lambda output, batch, _: self.pooling(output.hidden, batch.layout)
        )
        width = self.config.encoder.hidden_size * len(self.pooling.modes)
        return Embeddings(
            vectors=np.stack(vectors) if vectors else np.zeros((0, width), dtype=np.float32),
            tokens=tuple(len(encoding.ids) for encoding in encodings),
            truncated=tuple(encoding.truncated for encoding in encodings),
        )

    def predict(self, items: Sequence[Item], *, abstain_below: float = 0.0) -> list[Any]:
        """Return what the model says of each item, in order.

        Args:
            items: Texts, pairs of texts, or mappings such as {"question": ..., "context": ...}.
            abstain_below: Give no label whose score is lower.
        """
        if isinstance(items, str | Mapping):
            raise UserError(f"one {type(items).__name__} came where a list is expected; put it into a list")
        name = self.task.name
        if "task" not in self.run and name == "classify" and items and is_pair(items[0]):
            name = "pair"  # the folder of others does not say what its classes are of
        examples = [as_example(name, item, f"item {number}") for number, item in enumerate(items)]
        return self.predict_examples(examples, abstain_below=abstain_below)

    def predict_examples(
        self, examples: Sequence[Example], *, abstain_below: float = 0.0
    ) -> list[Prediction]:
        """Return what the model says of each example, in order."""
        network = partial(self.engine, heads_only=True)
        found = predictions(self.task, network, examples, self.engine.each) if examples else []
        return with_abstention(found, abstain_below)


def load(folder: str | Path) -> Model:
    """Load a model folder, the best model of a run folder, or `demo`; it knows its task."""
    folder = model_folder(folder)
    network, report = build(read_stored(folder))
    tokenizer = Tokenizer.load(folder)
    check_vocabulary(folder, tokenizer, network.config)
    settings = read_sentence_settings(folder, tokenizer.settings.lowercase)
    limits = [network.config.encoder.max_position_embeddings, tokenizer.max_length]
    if settings and settings.max_length:
        limits.append(settings.max_length)
    return Model(
        network,
        tokenizer,
        report,
        pooling=settings.pooling if settings else None,
        max_length=min(limits),
        folder=folder,
        run=read_run(folder),
    )
