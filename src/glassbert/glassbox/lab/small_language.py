"""A language of a few words, made by rule, and small BERTs that the product's objectives pre-train on it.

A sentence is: article, adjective, noun, verb, preposition, place, adverb. A topic decides which nouns, verbs
and places can occur; article, noun and verb agree in number; the adverb at the end follows from the noun.

Legend: B sentences or pairs, T tokens, D hidden size.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassbert.config import BertConfig
from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.data.pretraining.masking import Masking
from glassbert.data.pretraining.packing import Moment, Packing
from glassbert.glassbox.lab.reader import Variant, VariantAttention
from glassbert.glassbox.lab.training import TEST_SEED, TrainingSettings, train
from glassbert.model.block import Block
from glassbert.model.init import initialise, new_bert
from glassbert.model.layout import Batch, Layout
from glassbert.tasks.objectives.objective import Objective
from glassbert.tasks.objectives.parts import ObjectiveSettings, PretrainNetwork
from glassbert.tasks.objectives.registry import make_objective
from glassbert.text.vocabulary import SPECIALS, Vocabulary

NUM_TOPICS, NUM_NOUNS, NUM_VERBS, NUM_PLACES, NUM_ADJECTIVES = 4, 4, 3, 2, 3
LENGTH = 7
ALL_MASKED = Masking(mask_prob=1.0, random_prob=0.0)
"""How a network is measured: every chosen token is [MASK], whatever it was trained with."""


def _vocabulary() -> Vocabulary:
    topics = range(NUM_TOPICS)
    words = [
        *(f"article{number}" for number in range(2)),
        *(f"adjective{index}" for index in range(NUM_ADJECTIVES)),
        *(
            f"noun{topic}.{index}.{number}"
            for topic in topics
            for index in range(NUM_NOUNS)
            for number in range(2)
        ),
        *(
            f"verb{topic}.{index}.{number}"
            for topic in topics
            for index in range(NUM_VERBS)
            for number in range(2)
        ),
        *(f"preposition{index}" for index in range(2)),
        *(f"place{topic}.{index}" for topic in topics for index in range(NUM_PLACES)),
        *(f"adverb{index}" for index in range(NUM_NOUNS)),
    ]
    return Vocabulary((*SPECIALS, *words))


VOCABULARY = _vocabulary()
_IDS = {piece: index for index, piece in enumerate(VOCABULARY.pieces)}


@dataclass(frozen=True)
class Sentences:
    """Sentences and what they are about."""

    ids: NDArray[np.int64]
    """(B, LENGTH)."""
    topics: NDArray[np.int64]
    nouns: NDArray[np.int64]
    """Which noun of its topic each has, (B,)."""


def sentences(
    random: np.random.Generator, count: int, *, topics: NDArray[np.int64] | None = None
) -> Sentences:
    """Return ``count`` sentences, of given topics or of any."""
    topics = random.integers(NUM_TOPICS, size=count) if topics is None else topics
    limits = (NUM_ADJECTIVES, NUM_NOUNS, NUM_VERBS, 2, NUM_PLACES, 2)
    drawn = np.stack([random.integers(limit, size=count) for limit in limits], axis=1)
    rows = [
        [
            _IDS[word]
            for word in (
                f"article{number}",
                f"adjective{adjective}",
                f"noun{topic}.{noun}.{number}",
                f"verb{topic}.{verb}.{number}",
                f"preposition{preposition}",
                f"place{topic}.{place}",
                f"adverb{noun}",
            )
        ]
        for topic, (adjective, noun, verb, preposition, place, number) in zip(
            topics.tolist(), drawn.tolist(), strict=True
        )
    ]
    return Sentences(np.array(rows, dtype=np.int64), topics, drawn[:, 1])


@dataclass(frozen=True)
class Texts:
    """Sequences with [CLS] and [SEP], all of one length."""

    ids: NDArray[np.int64]
    """(B, length)."""
    segments: NDArray[np.int64]
    is_random: NDArray[np.int64]
    """Of pairs: 1 if B does not belong to A, (B,)."""
    nouns: NDArray[np.int64]


def texts(random: np.random.Generator, count: int, *, are_pairs: bool) -> Texts:
    """Return single sentences, or pairs: half of the time B has the topic of A."""
    first = sentences(random, count)
    vocabulary = VOCABULARY
    start, end = (np.full((count, 1), one, dtype=np.int64) for one in (vocabulary.cls_id, vocabulary.sep_id))
    if not are_pairs:
        ids = np.concatenate([start, first.ids, end], axis=1)
        return Texts(ids, np.zeros_like(ids), np.zeros(count, dtype=np.int64), first.nouns)
    is_random = random.integers(2, size=count)
    shift = random.integers(1, NUM_TOPICS, size=count) * is_random
    second = sentences(random, count, topics=(first.topics + shift) % NUM_TOPICS)
    ids = np.concatenate([start, first.ids, end, second.ids, end], axis=1)
    segments = np.zeros_like(ids)
    segments[:, LENGTH + 2 :] = 1
    return Texts(ids, segments, is_random, first.nouns)


@dataclass(frozen=True)
class Pretrained:
    """A small BERT after its training."""

    network: PretrainNetwork
    objective: Objective

    def states(self, ids: NDArray[np.int64], segments: NDArray[np.int64]) -> Tensor:
        """Return the last hidden states of texts, (B, length, D)."""
        layout = Layout((ids.shape[1],) * len(ids))
        batch = Batch(torch.from_numpy(ids.ravel()), torch.from_numpy(segments.ravel()), layout)
        with torch.no_grad():
            return self.network.bert.encoder(batch).view(*ids.shape, -1)

    def guesses(self, found: Texts) -> NDArray[np.int64]:
        """Return the token that the MLM head expects at every place, (B, length)."""
        states = self.states(found.ids, found.segments)
        head = self.network.bert.mlm
        assert head is not None
        with torch.no_grad():
            return head(states.flatten(0, 1)).argmax(dim=1).view(states.shape[:2]).numpy()

    def measure(self, found: Texts) -> dict[str, float]:
        """Return losses and accuracies with every chosen token masked."""
        with torch.no_grad():
            fixed = make_objective(_settings(self.objective.settings.name, ALL_MASKED), VOCABULARY)
            return self.objective.measure(self.network, [batch_of(fixed, found, Moment(TEST_SEED, 0, 0, 1))])


def _settings(name: str, masking: Masking) -> ObjectiveSettings:
    return ObjectiveSettings(name=name, mask=masking)


def batch_of(objective: Objective, found: Texts, moment: Moment) -> PretrainBatch:
    """Let the objective hide tokens of the texts and label them.

    Texts of which as many tokens are hidden come together: attention computes them in one call.
    """
    count, length = found.ids.shape
    labels = _labelled(objective, found, np.arange(count), moment).labels.values()
    places = [one.places for one in labels if one.places is not None]
    num_hidden = np.bincount(np.concatenate(places) // length, minlength=count)
    return _labelled(objective, found, num_hidden.argsort(kind="stable"), moment)


def _labelled(objective: Objective, found: Texts, order: NDArray[np.int64], moment: Moment) -> PretrainBatch:
    """Return the batch of the texts in some order, which changes nothing of what is hidden in each."""
    count, length = found.ids.shape
    packing = Packing(
        np.arange(count) * length,
        np.repeat(np.arange(count), length),
        order,
        found.is_random[order],
        lambda: np.ones(count * length, dtype=np.bool_),
    )
    ids, labels = objective.labelled(found.ids[order].ravel(), packing, moment)
    return PretrainBatch(ids, found.segments[order].ravel(), (length,) * count, labels)


def pretrain(
    settings: TrainingSettings,
    seed: int,
    *,
    masking: Masking | None = None,
    objective_name: str = "mlm",
    are_pairs: bool = False,
    variant: Variant | None = None,
) -> Pretrained:
    """Pre-train a small BERT on fresh sentences in every step."""
    objective = make_objective(_settings(objective_name, masking or Masking()), VOCABULARY)
    shape = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=settings.hidden_size,
        intermediate_size=2 * settings.hidden_size,
        num_hidden_layers=settings.num_layers,
        num_attention_heads=4,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=2 * LENGTH + 3,
        initializer_range=0.1,
    )
    bert = new_bert(objective.model_config(shape), seed=seed)
    if variant is not None:
        _replace_attention(bert.encoder.blocks, shape, variant, seed)
    network = objective.network(bert, seed=seed)
    random = np.random.default_rng(seed)

    def draw(step: int) -> PretrainBatch:
        found = texts(random, settings.num_sequences, are_pairs=are_pairs)
        return batch_of(objective, found, Moment(seed, step, step, settings.num_steps))

    train(network, settings, draw, objective.counts, objective.loss_weights)
    return Pretrained(network.eval(), objective)


def _replace_attention(blocks: torch.nn.ModuleList, shape: BertConfig, variant: Variant, seed: int) -> None:
    """Put attention with other projections into every block, drawn as the rest was."""
    for index, block in enumerate(blocks):
        attention = VariantAttention(shape, variant, is_causal=False)
        initialise(attention, shape.initializer_range, torch.Generator().manual_seed(100 * seed + index))
        cast(Block, block).attention = attention


def probe(states: Tensor, answers: NDArray[np.int64], num_classes: int) -> float:
    """Return how well a linear map reads ``answers``, (B,), from ``states``, (B, D): fitted on one half.

    Ridge regression on one-hot answers: the same states always give the same map.
    """
    half = len(states) // 2
    x = torch.cat([states, torch.ones(len(states), 1)], dim=1).double()
    y = torch.nn.functional.one_hot(torch.from_numpy(answers), num_classes).double()
    gram = x[:half].T @ x[:half] + 1e-2 * torch.eye(x.size(1), dtype=torch.float64)
    guesses = (x[half:] @ torch.linalg.solve(gram, x[:half].T @ y[:half])).argmax(dim=1)
    return (guesses.numpy() == answers[half:]).mean().item()
