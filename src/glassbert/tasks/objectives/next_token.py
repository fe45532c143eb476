"""Masked tokens, and in some batches the next token: there every token teaches.

In one batch of sixteen nothing is hidden. Each token sees itself and those before it, and a head of its own
predicts what follows, as in GPT-BERT (Charpentier and Samuel, 2024). GPT-BERT also predicts masked tokens one
place early, with one head for both. Here they are predicted where they are, so the model stays a plain BERT
that fills masks; the other head is discarded after the run.

Legend: T tokens, M tokens with a next one, D hidden size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from glassbert.data.pretraining.batches import Labels, PretrainBatch
from glassbert.data.pretraining.examples import Singles
from glassbert.data.pretraining.packing import Moment, Packing
from glassbert.model.bert import Bert
from glassbert.model.layout import Batch, Layout
from glassbert.model.tap import Tap, shown_losses, within
from glassbert.ranges import CountOrNone
from glassbert.tasks.objectives.masked import MaskedTokens
from glassbert.tasks.objectives.objective import Objective
from glassbert.tasks.objectives.parts import (
    Ids,
    ObjectiveSettings,
    Part,
    PretrainNetwork,
    spare_head,
    zero_with_gradients,
)
from glassbert.tasks.vocabulary_loss import vocabulary_loss
from glassbert.typed import check_fields


@dataclass(frozen=True, kw_only=True)
class NextTokenSettings(ObjectiveSettings):
    """The `[objective]` table of mlm+causal."""

    causal_every: CountOrNone = 16
    """One batch in this many predicts the next token; 0: none does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, "objective")

    def for_evaluation(self) -> Self:
        """Measure masked tokens only, as for every other objective."""
        return replace(super().for_evaluation(), causal_every=0)

    def is_causal(self, moment: Moment) -> bool:
        """Return whether the batch of this moment predicts the next token: the last one of each turn."""
        return self.causal_every > 0 and moment.step % self.causal_every == self.causal_every - 1


class MaskedInTurn(MaskedTokens):
    """Hide tokens, except in the batches that predict the next one."""

    def label(self, ids: Ids, packing: Packing, moment: Moment) -> tuple[Ids, Labels | None]:
        """Hide some tokens, or none."""
        return (ids, None) if self.settings.is_causal(moment) else super().label(ids, packing, moment)


class NextToken(Part):
    """Predict the next token of each token."""

    name = "causal"

    @property
    def share_read(self) -> float:
        """Share of the tokens that predict the next one, over the whole run."""
        return 1.0 / self.settings.causal_every if self.settings.causal_every else 0.0

    def heads_in(self, network: "NextTokenNetwork") -> list[nn.Module]:
        """Return the head for the next token."""
        return [network.next_head]

    def label(self, ids: Ids, packing: Packing, moment: Moment) -> tuple[Ids, Labels | None]:
        """Return what follows each token of a text, its last [SEP] included."""
        if not self.settings.is_causal(moment):
            return ids, None
        places = np.flatnonzero(packing.owners[:-1] == packing.owners[1:])
        return ids, Labels(ids[places + 1], places)

    def sums(
        self, network: PretrainNetwork, hidden: Tensor, labels: Tensor, tap: Tap | None = None
    ) -> dict[str, Tensor]:
        """Return the loss of the next tokens and how many are predicted right."""
        assert isinstance(network, NextTokenNetwork)
        head, tap = network.next_head, within(tap, "head.next")
        features = head.features(hidden, tap)  # (M, D)
        loss, num_correct = vocabulary_loss(features, head.decoder.weight, head.decoder.bias, labels, tap)
        return {"causal_loss": loss, "causal_accuracy": num_correct}


class NextTokenNetwork(PretrainNetwork):
    """The model, and a head for the next token."""

    def __init__(self, bert: Bert, parts: Sequence[Part]) -> None:
        super().__init__(bert, parts)
        self.next_head = spare_head(bert, torch.Generator().manual_seed(torch.initial_seed() % 2**63))

    def forward(self, batch: PretrainBatch, tap: Tap | None = None) -> dict[str, Tensor]:
        """Return the sums of masked tokens or of next tokens, whichever the batch has labels for."""
        masked, following = self.parts
        found = batch.labels.get(following.name)
        if found is None:
            sums = super().forward(batch, tap)
            return sums | {"causal_loss": zero_with_gradients([self.next_head], sums["mlm_loss"])}
        assert found.places is not None
        device = self.next_head.decoder.weight.device
        ids, segments, places, labels = (
            torch.from_numpy(values).to(device)
            for values in (batch.ids, batch.segments, found.places, found.values)
        )
        packed = Batch(ids, segments, Layout(batch.lengths))
        hidden = self.bert.encoder(packed, tap, is_causal=True)[places]  # (M, D)
        sums = shown_losses(following.sums(self, hidden, labels, tap), following.loss_weights, tap)
        unused = zero_with_gradients([self.mlm_head], hidden)
        return {"mlm_loss": unused, "mlm_accuracy": hidden.new_zeros(()), **sums}


class MaskedOrNextTokens(Objective):
    """Masked tokens of single texts; in some batches the next token of each."""

    arrangement = Singles()
    part_types = (MaskedInTurn, NextToken)
    settings_type = NextTokenSettings
    network_type = NextTokenNetwork
