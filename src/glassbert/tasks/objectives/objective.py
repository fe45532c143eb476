"""What every objective is made of: how examples are arranged, the parts that are learned, the network."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from glassbert.config import BertConfig, ModelConfig
from glassbert.data.corpus.reader import Corpus
from glassbert.data.pretraining.batches import Labels, PretrainBatch
from glassbert.data.pretraining.corpus_batches import CorpusBatches
from glassbert.data.pretraining.examples import Arrangement, RandomPairs
from glassbert.data.pretraining.packing import Moment, Packing
from glassbert.errors import UserError
from glassbert.heads import HEADS, head_of_parts
from glassbert.model.bert import Bert
from glassbert.model.depth import FLOPS_PER_WEIGHT, flops_in_blocks, num_weights
from glassbert.model.torch_state import own_generator
from glassbert.tasks.objectives.parts import ObjectiveSettings, Part, PretrainNetwork
from glassbert.text.vocabulary import Vocabulary

EVALUATION_SEED = 20_180_404
"""Held-out text is masked alike in every run, or their losses could not be compared."""


class Objective:
    """What is learned from a corpus. A subclass names the pieces and overrides what it does differently."""

    arrangement: Arrangement
    """How texts become examples."""
    part_types: ClassVar[tuple[type[Part], ...]]
    """What is learned; the first loss of the first part chooses the best checkpoint."""
    settings_type: ClassVar[type[ObjectiveSettings]] = ObjectiveSettings
    """What its `[objective]` table may say."""
    network_type: ClassVar[type[PretrainNetwork]] = PretrainNetwork
    """What computes the losses."""

    def __init__(self, settings: ObjectiveSettings, vocabulary: Vocabulary) -> None:
        if settings.partner != "any" and not isinstance(self.arrangement, RandomPairs):
            raise UserError(
                f"objective.partner={settings.partner} with objective.name={settings.name}, which takes no "
                "random partner; leave it out, or set objective.name to mlm+nsp"
            )
        self.settings, self.vocabulary = settings, vocabulary
        self.parts = tuple(part(settings, vocabulary) for part in self.part_types)
        self.loss_weights = {
            name: weight for part in self.parts for name, weight in part.loss_weights.items()
        }
        self.best_by = (next(iter(self.loss_weights)), False)

    @classmethod
    def model_config(cls, encoder: BertConfig) -> ModelConfig:
        """Return the model to train, with the heads that the parts need."""
        head = head_of_parts([head for part in cls.part_types for head in part.heads])
        return ModelConfig(encoder=encoder, head=head, has_pooler=HEADS[head].needs_pooler)

    @property
    def max_length(self) -> int:
        """Tokens of the longest example, [CLS] and [SEP] included."""
        return self.settings.max_length

    @property
    def short_prob(self) -> float:
        """Share of examples that aim at a random shorter length."""
        return self.settings.short_prob

    def labelled(
        self, ids: NDArray[np.int64], packing: Packing, moment: Moment
    ) -> tuple[NDArray[np.int64], Mapping[str, Labels]]:
        """Let each part in turn corrupt and label a batch."""
        labels: dict[str, Labels] = {}
        for part in self.parts:
            ids, found = part.label(ids, packing, moment)
            if found is not None:
                labels[part.name] = found
        return ids, labels

    def counts(self, batch: PretrainBatch) -> dict[str, int]:
        """Return what each sum of the network is divided by."""
        return {name: count for part in self.parts for name, count in part.counts(batch).items()}

    def num_teaching(self, batch: PretrainBatch) -> int:
        """Return how many tokens teach: those that some part has a label for and learns from."""
        learned = [part for part in self.parts if part.loss_weights and part.name in batch.labels]
        places = [batch.labels[part.name].places for part in learned]
        found = [one for one in places if one is not None]
        return len(np.unique(np.concatenate(found))) if found else 0

    def network(self, bert: Bert, *, seed: int) -> PretrainNetwork:
        """Return the network to train; the same seed gives what it adds to ``bert`` the same weights."""
        with own_generator():
            torch.manual_seed(seed)
            return self.network_type(bert, self.parts)

    def held_out_batches(
        self, corpus: Corpus, num_tokens: int, *, batch_tokens: int
    ) -> Iterator[PretrainBatch]:
        """Yield about ``num_tokens`` tokens to measure a model with, whatever the run's seed and masks."""
        fixed = type(self)(self.settings.for_evaluation(), self.vocabulary)
        batches = CorpusBatches(corpus, fixed, batch_tokens=batch_tokens, seed=EVALUATION_SEED)
        return batches.sample(num_tokens)

    def measure(self, network: PretrainNetwork, batches: Iterable[PretrainBatch]) -> dict[str, float]:
        """Return the mean of each sum of the network over ``batches``.

        Where the batches say which file their examples are from, also over each file, as `NAME/FILE`.
        """
        totals: dict[str, float] = {}
        counts: dict[str, int] = {}
        for batch in batches:
            for source, part in batch.by_source():
                found = self.counts(part)
                for name, value in network(part).items():
                    for key in (name, f"{name}/{source}") if source else (name,):
                        totals[key] = totals.get(key, 0.0) + value.item()
                        counts[key] = counts.get(key, 0) + found[name]
        means = {key: total / max(1, counts[key]) for key, total in totals.items()}
        return dict(sorted(means.items(), key=lambda mean: "/" in mean[0]))  # the whole first

    def guessing_loss(self, corpus: Corpus, batches: Sequence[PretrainBatch]) -> float | None:
        """Return what the first part's loss would be on ``batches`` if it were guessed by frequency."""
        part = self.parts[0]
        labels = (batch.labels[part.name] for batch in batches if part.name in batch.labels)
        return part.guessing_loss(corpus, self.vocabulary, labels)

    def verdict(self, metrics: Mapping[str, float], guessing_loss: float | None) -> str:
        """Return one line on what the metrics of an evaluation mean."""
        values = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items() if "/" not in name)
        by_source = "  ".join(f"{name} {value:.3f}" for name, value in metrics.items() if "accuracy/" in name)
        values += f"  [{by_source}]" if by_source else ""
        if guessing_loss is None:
            return f"held out: {values}"
        gain = guessing_loss - metrics[self.best_by[0]]
        meaning = (
            "better than guessing by frequency: learning" if gain > 0.05 else "no better than guessing yet"
        )
        return f"held out: {values}  (frequency alone gives {guessing_loss:.4f}; {meaning})"

    def flops_per_token(self, network: PretrainNetwork) -> float:
        """Return the operations of training on one token."""
        in_heads = sum(
            part.share_read * num_weights(head) for part in self.parts for head in part.heads_in(network)
        )
        return self.flops_in_blocks(network) + FLOPS_PER_WEIGHT * in_heads

    def flops_in_blocks(self, network: Any) -> float:
        """Return the operations of training blocks on one token; a network with more of them adds these.

        Args:
            network: Of the type that the objective names.
        """
        share_read = min(1.0, sum(part.share_read for part in self.parts))
        return flops_in_blocks(network.bert.encoder.blocks, self.max_length, share_read)
