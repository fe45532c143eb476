"""A loaded model: what `glassbert.load` returns for a BERT."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import torch

from glassbert.arguments import checked_methods
from glassbert.config import ModelConfig
from glassbert.data.examples import Example
from glassbert.data.rows.schema import Item
from glassbert.errors import ModelError, UserError
from glassbert.inference.arguments import check_characters, check_finite
from glassbert.inference.devices import Device, PrecisionName
from glassbert.inference.embeddings import Embeddings
from glassbert.inference.engine import Engine
from glassbert.inference.loaded import InFile, Loaded
from glassbert.inference.predict import as_examples, with_abstention
from glassbert.inference.questions import Baseline, Method, Unit
from glassbert.interop.build import LoadReport
from glassbert.interop.companions import TASK_WEIGHTS, Companions, write_companions
from glassbert.interop.folder import write_model
from glassbert.interop.sentence_transformers import (
    SentenceSettings,
    write_sentence_settings,
)
from glassbert.interop.weights import save_tensors
from glassbert.model.bert import Bert
from glassbert.model.layout import Batch
from glassbert.model.pooling import Pooling
from glassbert.model.torch_state import with_own_torch_state
from glassbert.ranges import Count
from glassbert.storage import new_folder
from glassbert.tasks.fine_tuning import extra_of, load_task
from glassbert.tasks.forward import decoded, raw_outputs
from glassbert.tasks.registry import task_of_head
from glassbert.tasks.task import Input, Prediction, Task
from glassbert.text.truncate import Keep
from glassbert.text.wordpiece.tokenizer import Encoding, Tokenizer
from glassbert.typed import typed

if TYPE_CHECKING:
    from glassbert import Explanation
    from glassbert.inference.words import Word

P = TypeVar("P", bound=Prediction)


@dataclass(frozen=True)
class Candidate:
    """A piece that could replace [MASK]."""

    token: str
    score: float
    """Its probability."""


class Filled(list[list[Candidate]]):
    """For each [MASK] of a text, in order, its candidates, best first."""

    def __init__(self, candidates: Iterable[list[Candidate]], *, tokens: int, truncated: bool) -> None:
        super().__init__(candidates)
        self.tokens = tokens
        """Tokens that the text gave to the model, specials included."""
        self.truncated = truncated
        """Whether the text was longer than the model takes."""


@checked_methods
class Model(Loaded[Bert]):
    """A BERT with its tokenizer. Methods keep no state, so threads can share one model.

    `glassbert.load` reads one from a folder. `Model(network, tokenizer).save(folder)` writes a new one.
    """

    def __init__(
        self,
        network: Bert | InFile[Bert],
        tokenizer: Tokenizer,
        report: LoadReport | None = None,
        *,
        sentences: SentenceSettings | None = None,
        folder: str | Path | None = None,
        companions: Companions = MappingProxyType({}),
        run: Mapping[str, Any] = MappingProxyType({}),
        device: Device = "auto",
        precision: PrecisionName = "float32",
    ) -> None:
        """Put a network and its tokenizer together.

        Args:
            report: How the tensors of a file were read.
            sentences: How `embed` pools the tokens of a text, and how long it may be; the mean of all the
                tokens that network and tokenizer allow when not given.
            folder: Where the model was read from; it is no longer needed.
            companions: The files of that folder that belong to the model beside its network.
            run: The content of run.json: how the model was made, and its task.
            device: Where the model runs; `auto` takes a GPU if there is one.
            precision: Of the weights at work, and of what flows between layers.
        """
        super().__init__(network, device, precision)
        self.tokenizer = tokenizer
        self.report = report or LoadReport(kept=())
        self.sentences = sentences
        self.folder = None if folder is None else Path(folder)
        self.companions = companions
        self.run = run

    def _facts(self) -> Mapping[str, object]:
        shape = self.config.encoder
        return {
            "num_hidden_layers": shape.num_hidden_layers,
            "hidden_size": shape.hidden_size,
            "num_parameters": self.num_parameters,
            "head": self.config.head,
            "task": self._task_name,
            "labels": self.config.labels or None,
            "vocab_size": len(self.tokenizer.vocabulary),
            "max_length": self.max_length,
            **super()._facts(),
        }

    @property
    def config(self) -> ModelConfig:
        """The shape of the network and its head."""
        return self._in_memory.config

    @property
    def fills_masks(self) -> bool:
        """Whether the model has an MLM head."""
        return self._in_memory.mlm is not None

    @property
    def max_length(self) -> int:
        """Tokens of the longest text, specials included; longer ones are cut."""
        limits = [self.config.encoder.max_position_embeddings, self.tokenizer.max_length]
        if self.sentences and self.sentences.max_length:
            limits.append(self.sentences.max_length)
        return min(limits)

    @property
    def pooling(self) -> Pooling:
        """How `embed` makes one vector of the vectors of a text's tokens."""
        return self.sentences.pooling if self.sentences else Pooling()

    def prompt(self, name: str | None = None) -> str:
        """Return what `embed` puts before a text: the prompt of this name, or the folder's default."""
        return (self.sentences or SentenceSettings(self.pooling)).prompt(name)

    @property
    def embedding_size(self) -> int:
        """Numbers of the vector that `embed` gives to a text."""
        return self.config.encoder.hidden_size * len(self.pooling.modes)

    @cached_property
    @with_own_torch_state
    def engine(self) -> Engine:
        """The fast path, built when first needed."""
        return Engine.of(self._in_memory, **self._place)

    @cached_property
    @with_own_torch_state
    def task(self) -> Task[Any, Any]:
        """The task that the model was fine-tuned for."""
        folder = self.folder or Path("this model")
        return load_task(folder, self.run.get("task", {}), self.tokenizer, self.config, self.companions)

    def tokenize(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, *, keep: Keep = "head"
    ) -> list[Encoding]:
        """Return the input that the model gets for each text, no longer than it takes.

        Args:
            pairs: A second text for each, which goes into the same input.
            keep: Which part of a text that is too long is kept.
        """
        check_characters(texts)
        check_characters(pairs or ())
        return self.tokenizer.encode_batch(texts, pairs, max_length=self.max_length, keep=keep)

    @with_own_torch_state
    def fill(self, text: str, *, top: int = 5) -> Filled:
        """Return the likeliest pieces for each [MASK] of one text, best first.

        Args:
            top: How many candidates to return for each [MASK].
        """
        if not self.fills_masks:
            raise ModelError(
                f"a model with a {self.config.head!r} head has no MLM head; fill needs one that has"
            )
        typed(top, Count, "top")
        encoding = self.tokenize([text])[0]
        places = self.mask_places(text, encoding)
        pieces = self.tokenizer.vocabulary.pieces
        with torch.inference_mode():
            batch = Batch.from_lists([encoding.ids], [encoding.segments])
            logits = self.engine(batch, predict_at=torch.tensor(places), heads_only=True).mlm
            assert logits is not None
            # A model may have more rows than its vocabulary has pieces.
            best = logits.softmax(dim=-1)[:, : len(pieces)].topk(min(top, len(pieces)))
        check_finite(best.values.cpu().numpy(), "the scores are")
        found = [
            [Candidate(pieces[token], score) for token, score in zip(tokens, scores, strict=True)]
            for tokens, scores in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
        return Filled(found, tokens=len(encoding.ids), truncated=encoding.truncated)

    @with_own_torch_state
    def embed(
        self, texts: str | Sequence[str], *, keep: Keep = "head", prompt_name: str | None = None
    ) -> Embeddings:
        """Return the vector of each text, (texts, features); of a single str, its one vector, (features,).

        Vectors are pooled as the folder says, or by the mean over the tokens when it does not.

        Args:
            keep: Which part of a text that is too long is kept.
            prompt_name: Which prompt of the folder to put before each text, such as "query"; its default
                one when not given, if it has one.
        """
        if isinstance(texts, str):
            return self.embed([texts], keep=keep, prompt_name=prompt_name)[0]
        prompt = self.prompt(prompt_name)
        encodings = self.tokenize([prompt + text for text in texts], keep=keep)
        vectors = self.engine.map(
            encodings, lambda output, batch, _: self.pooling(output.hidden, batch.layout)
        )
        stacked = np.stack(vectors) if vectors else np.zeros((0, self.embedding_size), np.float32)
        check_finite(stacked, "the vectors are")
        return Embeddings(
            stacked,
            tokens=[len(encoding.ids) for encoding in encodings],
            truncated=[encoding.truncated for encoding in encodings],
        )

    @overload
    def predict(self, items: Sequence[Item], *, abstain_below: float = 0.0) -> list[Any]: ...

    @overload
    def predict(self, items: Sequence[Item], kind: type[P], *, abstain_below: float = 0.0) -> list[P]: ...

    def predict(
        self, items: Sequence[Item], kind: type[Any] | None = None, *, abstain_below: float = 0.0
    ) -> list[Any]:
        """Return the prediction for each item, in order.

        Args:
            items: Texts, pairs of texts, or mappings such as {"question": ..., "context": ...}. An empty text
                is a text, of which the model sees [CLS] and [SEP] alone; in a file it is a bad row, since a
                cell was probably left out.
            kind: The class of the predictions, such as `ClassPrediction`, for code that is checked by types;
                a model whose task gives another is refused.
            abstain_below: Give no label whose score is lower.
        """
        found = self.predict_examples(as_examples(self.task, items), abstain_below=abstain_below)
        if kind is not None and found and not isinstance(found[0], kind):
            raise ModelError(
                f"expected a model that gives {kind.__name__}, got one for {self.task.name!r}, which gives "
                f"{type(found[0]).__name__}; load another model"
            )
        return found

    @with_own_torch_state
    def predict_examples(
        self, examples: Sequence[Example], *, abstain_below: float = 0.0
    ) -> list[Prediction]:
        """Return the prediction for each example, in order."""
        found = self.predict_inputs(examples, self.task.inputs(examples, with_targets=False))
        return with_abstention(found, abstain_below)

    def predict_inputs(
        self, examples: Sequence[Example], inputs: Sequence[Sequence[Input]]
    ) -> list[Prediction]:
        """Return the prediction for each example, in order; `task.inputs` gave their ``inputs``."""
        if not examples:
            return []
        raw = raw_outputs(self.task, partial(self.engine, heads_only=True), inputs, each=self.engine.each)
        check_finite(np.array([logits.sum() for windows in raw for logits in windows]), "the logits are")
        return decoded(self.task, examples, inputs, raw)

    def why(
        self,
        item: Item,
        *,
        method: Method = "gradients",
        target: str | None = None,
        unit: Unit = "token",
        baseline: Baseline = "mask",
        steps: int | None = None,
        segmenter: str | Path | None = None,
        data: str | Path | None = None,
        top: int = 10,
    ) -> "Explanation":
        """Return why the model gives its answer to an item: an item as `predict` takes it, or a text to fill.

        Args:
            method: gradients (integrated gradients), occlusion, heads or layers (switched off one by one),
                rollout (of attention), lens (the answer after each layer), tokens (nearest ones), or rows
                (nearest ones of ``data``).
            target: The answer to explain; the model's own when not given. A label; for tag a part of the
                text, a label or TEXT=LABEL; for answer a part of the context; for [MASK] a piece or N=PIECE.
            unit: Judge each token, or whole words.
            baseline: The text without information: the vector of [MASK] or [PAD], or zeros.
            steps: Gradients to take; as many as it needs when not given.
            segmenter: Of Chinese words, as `glassbert.segmenter` takes it.
            data: The file whose rows are compared.
            top: How many neighbours to find.
        """
        return self._extension("why")(
            item,
            method=method,
            target=target,
            unit=unit,
            baseline=baseline,
            steps=steps,
            segmenter=segmenter,
            data=data,
            top=top,
        )

    def words(self, text: str, *, segmenter: str | Path | Sequence[str] | None = None) -> "list[Word]":
        """Return the words of a text with their vectors; those beyond the longest input are left out.

        Args:
            segmenter: Finds Chinese words, as `glassbert.segmenter` takes it; rjieba when not given.
        """
        return self._extension("words")(text, segmenter=segmenter)

    def save(self, folder: str | Path, *, dtype: str = "float32", overwrite: bool = False) -> None:
        """Write a model folder that `glassbert.load` and transformers read, complete or not at all.

        Args:
            dtype: How to store the numbers: float32, float16 or bfloat16.
            overwrite: Replace a folder that is not empty.
        """
        with new_folder(Path(folder), overwrite=overwrite) as new:
            write_model(self.network, self.tokenizer, new, dtype=dtype, run=self.run)
            write_companions(self.companions, new)
            if self.sentences is not None and not (new / "modules.json").exists():
                width = self.config.encoder.hidden_size
                write_sentence_settings(new, self.sentences, hidden_size=width)
            if "task" in self.run and (extra := extra_of(self.task)):
                save_tensors(extra, new / TASK_WEIGHTS)

    @property
    def _task_name(self) -> str | None:
        return self.run.get("task", {}).get("name") or task_of_head(self.config.head)

    def mask_places(self, text: str, encoding: Encoding) -> list[int]:
        """Return where the masks of ``text`` are in its encoding; none of them may have been cut."""
        mask_id = self.tokenizer.vocabulary.mask_id
        places = [index for index, token in enumerate(encoding.ids) if token == mask_id]
        num_masks = len(places)
        if encoding.truncated:
            num_masks = self.tokenizer.pieces_of(text, parse_specials=True).ids.count(mask_id)
        if not num_masks:
            raise UserError("the text has no [MASK]; write [MASK] where a word is to be filled in")
        if len(places) < num_masks:
            raise UserError(
                f"{num_masks - len(places)} of {num_masks} [MASK] lie beyond the {self.max_length} tokens "
                "that the model takes; shorten the text"
            )
        return places
