"""An objective of pre-training as another package would add it: it imports from the package's door alone.

It detects replaced tokens, which asks for most of what an objective can have: a second model that is saved
too, a head that is thrown away, a loss over all tokens, a mask rate that falls, a setting of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import glassbert as gb
from glassbert.extension import (
    Ids,
    Labels,
    MaskedTokens,
    Masking,
    Moment,
    Objective,
    ObjectiveSettings,
    Packing,
    Part,
    PretrainBatch,
    PretrainNetwork,
    Singles,
    states_at,
)


@dataclass(frozen=True, kw_only=True)
class DetectionSettings(ObjectiveSettings):
    """The `[objective]` table."""

    last_select_prob: float = 0.1
    """The mask rate at the end of the run."""


class Detected(Part):
    """Tell for each token whether it was replaced."""

    name = "rtd"
    weight = 50.0
    share_read = 1.0

    def label(self, ids: Ids, packing: Packing, moment: Moment) -> tuple[Ids, Labels | None]:
        return ids, Labels(ids, np.arange(len(ids)))  # what stood there, before the next part hides some

    def sums(self, network: "DetectionNetwork", hidden: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = network.detector(hidden).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(logits, labels.float(), reduction="sum")
        return {"rtd_loss": loss, "rtd_accuracy": ((logits > 0) == labels).sum()}


class Generated(MaskedTokens):
    """Fill the hidden places; the mask rate falls in the course of the run."""

    heads = ()

    def masking(self, moment: Moment) -> Masking:
        first, last = self.settings.mask.select_prob, self.settings.last_select_prob
        return replace(self.settings.mask, select_prob=first + (last - first) * moment.share_done)


class DetectionNetwork(PretrainNetwork):
    """A small generator, the model, and a head on it."""

    def __init__(self, bert: gb.Bert, parts: Sequence[Part]) -> None:
        super().__init__(bert, parts)
        shape = bert.config.encoder
        small = replace(shape, num_hidden_layers=1, intermediate_size=shape.hidden_size)
        self.generator = gb.Bert(gb.ModelConfig(encoder=small, head="mlm", has_pooler=False))
        self.detector = nn.Linear(shape.hidden_size, 1)

    def forward(self, batch: PretrainBatch) -> dict[str, Tensor]:
        detected, generated = self.parts
        original, hidden_tokens = batch.labels["rtd"].values, batch.labels["mlm"]
        [states] = states_at(self.generator.encoder, batch, [hidden_tokens.places])
        sums = generated.sums(PretrainNetwork(self.generator, ()), states, torch.tensor(hidden_tokens.values))
        ids = original.copy()
        ids[hidden_tokens.places] = self.generator.mlm(states).argmax(dim=1).numpy()
        [states] = states_at(self.bert.encoder, replace(batch, ids=ids), [batch.labels["rtd"].places])
        return {**detected.sums(self, states, torch.tensor(ids != original)), **sums}


class Detection(Objective):
    """Detect replaced tokens."""

    arrangement = Singles()
    part_types = (Detected, Generated)
    settings_type = DetectionSettings
    network_type = DetectionNetwork
