"""Hidden tokens that are left out (MAE): the encoder reads only what is visible, one more block predicts.

[MASK] never enters the encoder, so training and use look the same to it, and it reads fewer tokens (Meng et
al., 2024). The block and the head on top of it predict the hidden tokens; both are discarded after the run.

Legend: T tokens, M hidden tokens, N visible tokens, D hidden size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.data.pretraining.examples import Singles
from glassbert.data.pretraining.masking import Masking
from glassbert.errors import UserError
from glassbert.model.bert import Bert
from glassbert.model.block import Block
from glassbert.model.depth import flops_in_blocks
from glassbert.model.heads import MaskedLanguageHead
from glassbert.model.init import initialise
from glassbert.model.layout import Layout
from glassbert.model.tap import Tap
from glassbert.tasks.objectives.masked import MaskedTokens
from glassbert.tasks.objectives.objective import Objective
from glassbert.tasks.objectives.parts import Ids, ObjectiveSettings, Part, PretrainNetwork, spare_head


@dataclass(frozen=True, kw_only=True)
class LeftOutSettings(ObjectiveSettings):
    """The `[objective]` table of mae."""

    mask: Masking = field(default_factory=lambda: Masking(select_prob=0.3, mask_prob=1.0, random_prob=0.0))
    """Which tokens are left out; its other fields have no effect."""


class Predicted(MaskedTokens):
    """Predict the tokens that are left out, with a head that is discarded."""

    heads = ()

    def heads_in(self, network: "LeftOutNetwork") -> list[nn.Module]:
        """Return the head that is discarded."""
        return [network.mlm_head]


class LeftOutNetwork(PretrainNetwork):
    """The model, and a block over visible and hidden places with a head."""

    def __init__(self, bert: Bert, parts: Sequence[Part]) -> None:
        super().__init__(bert, parts)
        shape = bert.config.encoder
        if shape.positions != "learned":
            raise UserError(
                f"objective.name=mae with model.positions={shape.positions}: visible tokens keep their place "
                "by a table; set model.positions to learned"
            )
        self.block = Block(shape)
        self.hidden_vector = nn.Parameter(torch.zeros(shape.hidden_size, dtype=torch.float32))
        generator = torch.Generator().manual_seed(torch.initial_seed() % 2**63)
        initialise(self.block, shape.initializer_range, generator)
        self.predictor = spare_head(bert, generator)

    @property
    def mlm_head(self) -> MaskedLanguageHead:
        """The head that predicts the hidden tokens."""
        return self.predictor

    def forward(self, batch: PretrainBatch, tap: Tap | None = None) -> dict[str, Tensor]:
        """Return the loss at the hidden places and how many predictions are right."""
        [part] = self.parts
        found = batch.labels[part.name]
        assert found.places is not None
        whole = Layout(batch.lengths)
        device = self.hidden_vector.device
        visible, layout = visible_tokens(batch, found.places)
        ids, segments = (
            torch.from_numpy(values[visible]).to(device) for values in (batch.ids, batch.segments)
        )
        embeddings, index = self.bert.encoder.embeddings, torch.from_numpy(visible).to(device)
        positions = whole.positions.to(device)
        seen = self.bert.encoder.run(embeddings.at(ids, positions[index], segments), layout)  # (N, D)
        assert embeddings.position is not None
        states = self.hidden_vector.expand(whole.num_tokens, -1).to(seen.dtype).index_copy(0, index, seen)
        places = torch.from_numpy(found.places).to(device)
        states = self.block(
            states + embeddings.position(positions), whole, only=whole.select(places)
        )  # (M, D)
        return part.sums(self, states, torch.from_numpy(found.values).to(device), tap)


def visible_tokens(batch: PretrainBatch, hidden: Ids) -> tuple[Ids, Layout]:
    """Return the tokens that are not hidden, (N,), and their layout, the shortest sequence first."""
    is_visible = np.ones(batch.num_tokens, dtype=np.bool_)
    is_visible[hidden] = False
    owners = np.repeat(np.arange(batch.num_examples), batch.lengths)[is_visible]
    lengths = np.bincount(owners, minlength=batch.num_examples)
    order = np.argsort(lengths, kind="stable")  # attention is fast on equal lengths in a row
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    visible = np.flatnonzero(is_visible)[np.argsort(ranks[owners], kind="stable")]
    return visible, Layout(tuple(lengths[order].tolist()))


class LeftOutTokens(Objective):
    """Predict tokens of single texts that the encoder does not read."""

    arrangement = Singles()
    part_types = (Predicted,)
    settings_type = LeftOutSettings
    network_type = LeftOutNetwork

    def flops_in_blocks(self, network: LeftOutNetwork) -> float:
        """Return the operations of the encoder on visible tokens, and of the block that predicts on all."""
        share_hidden = self.settings.mask.mean_select_prob
        visible = 1 - share_hidden
        in_encoder = visible * flops_in_blocks(network.bert.encoder.blocks, visible * self.max_length)
        return in_encoder + flops_in_blocks(nn.ModuleList([network.block]), self.max_length, share_hidden)
