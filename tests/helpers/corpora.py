"""Corpora in memory for tests of what is made from them, and their batches."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from glassbert.config import preset
from glassbert.data.corpus.reader import Corpus
from glassbert.data.pretraining.corpus_batches import CorpusBatches
from glassbert.model.init import new_bert
from glassbert.tasks.objectives.objective import Objective
from glassbert.tasks.objectives.registry import make_objective, objective_type
from glassbert.text.vocabulary import SPECIALS, Vocabulary

NUM_WORDS = 400
VOCABULARY = Vocabulary(
    (*SPECIALS, *(f"[unused{i}]" for i in range(20)), *(f"w{i}" for i in range(NUM_WORDS)), *"abcdefgh")
)
FIRST_WORD = VOCABULARY.id("w0")


@dataclass(frozen=True)
class MemoryCorpus:
    """What batches are made from, without files."""

    ids: NDArray[np.int64]
    is_word_start: NDArray[np.bool_]
    sentence_ends: NDArray[np.int64]
    document_ends: NDArray[np.int64]
    vocabulary: Vocabulary = VOCABULARY
    source_ends: NDArray[np.int64] | None = None
    source_names: tuple[str, ...] = ("en", "zh")

    @property
    def manifest(self) -> Any:
        return SimpleNamespace(shards=(SimpleNamespace(num_tokens=len(self.ids)),))

    @property
    def vocab_sha256(self) -> str:
        return self.vocabulary.sha256

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    def tokens(self, start: int, stop: int) -> NDArray[np.int64]:
        return self.ids[start:stop]

    def word_starts(self, start: int, stop: int) -> NDArray[np.bool_]:
        return self.is_word_start[start:stop]

    def document_of(self, token: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the document that each token belongs to."""
        ends = np.concatenate(([0], self.sentence_ends))[self.document_ends]
        return np.searchsorted(ends, token, side="right")


def memory_corpus(documents: list[list[int]]) -> MemoryCorpus:
    """Return a corpus of documents given by the lengths of their sentences.

    Words are one to three tokens long. Ids tell neighbours apart but repeat, so that frequent ones exist.
    """
    lengths = np.array([length for document in documents for length in document], dtype=np.int64)
    tokens = np.arange(int(lengths.sum()))
    return MemoryCorpus(
        ids=FIRST_WORD + tokens * tokens % 397 % NUM_WORDS,
        is_word_start=(tokens % 5 == 0) | (tokens % 3 == 0),
        sentence_ends=np.cumsum(lengths),
        document_ends=np.cumsum([len(document) for document in documents]),
    )


def wiki_corpus(num_documents: int) -> MemoryCorpus:
    """Return documents with about as many sentences, and those with as many tokens, as in Wikipedia."""
    rng = np.random.default_rng(0)
    sizes = rng.geometric(1 / 25, size=num_documents)
    return memory_corpus([(4 + rng.geometric(1 / 22, size=size)).tolist() for size in sizes])


def objective_of(name: str = "mlm+nsp", **options: Any) -> Objective:
    """Return an objective over `VOCABULARY`."""
    return make_objective(objective_type(name).settings_type(name=name, **options), VOCABULARY)


def network_of(objective: Objective, **shape: Any) -> nn.Module:
    """Return a small network for an objective, without dropout."""
    config = preset(
        "tiny",
        vocab_size=len(VOCABULARY),
        max_position_embeddings=32,
        hidden_size=16,
        intermediate_size=32,
        num_attention_heads=2,
        initializer_range=0.2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        **shape,
    )
    return objective.network(new_bert(type(objective).model_config(config), seed=0), seed=0)


def batches_of(
    corpus: MemoryCorpus | Corpus,
    name: str = "mlm+nsp",
    *,
    max_length: int = 32,
    batch_tokens: int = 256,
    seed: int = 1,
    **options: Any,
) -> CorpusBatches:
    """Return the batches of a corpus over `VOCABULARY` for the objective ``name``."""
    objective = objective_of(name, max_length=max_length, **options)
    return CorpusBatches(corpus, objective, batch_tokens=batch_tokens, seed=seed)  # type: ignore[arg-type]
