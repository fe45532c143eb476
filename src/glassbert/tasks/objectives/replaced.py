"""Replaced tokens (RTD): a small generator fills hidden places, the model tells which tokens were replaced.

Every token teaches, and the model never sees [MASK] (Clark et al., 2020). The token table is shared as in
DeBERTa V3: the model adds a difference of its own to the generator's table, which gets no gradient from it.
So the two tasks do not pull one table in two directions.

Legend: T tokens, M hidden places, D hidden size, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassbert.config import ModelConfig
from glassbert.data.pretraining.batches import Labels, PretrainBatch
from glassbert.data.pretraining.examples import Singles
from glassbert.data.pretraining.masking import Masking, maskable
from glassbert.data.pretraining.packing import Moment, Packing
from glassbert.data.random import Draw, uniform
from glassbert.errors import UserError
from glassbert.model.bert import Bert
from glassbert.model.depth import flops_in_blocks
from glassbert.model.heads import MaskedLanguageHead
from glassbert.model.init import new_bert
from glassbert.model.tap import Tap
from glassbert.ranges import Count, ShareBelowOne
from glassbert.tasks.objectives.masked import MaskedTokens
from glassbert.tasks.objectives.objective import Objective
from glassbert.tasks.objectives.parts import (
    Ids,
    ObjectiveSettings,
    Part,
    PretrainNetwork,
    states_at,
    zero_with_gradients,
)
from glassbert.tasks.vocabulary_loss import BLOCK_NUMBERS
from glassbert.text.vocabulary import Vocabulary
from glassbert.typed import check_fields

TABLE = "bert.encoder.embeddings.token.weight"
DIFFERENCE = "difference"
_ROLL_BITS = 53


@dataclass(frozen=True, kw_only=True)
class ReplacedSettings(ObjectiveSettings):
    """The `[objective]` table of rtd."""

    mask: Masking = field(default_factory=lambda: Masking(mask_prob=1.0, random_prob=0.0))
    """Which tokens the generator fills: all of them are hidden from it."""
    generator_layers: Count | None = None
    """Blocks of the generator, at most as many as the model has; half of them if not set."""
    generator_first: ShareBelowOne = 0.1
    """Share of the run in which only the generator learns: its first guesses are too easy to detect."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, "objective")


class Detected(Part):
    """Tell for each token whether it was replaced."""

    name = "rtd"
    weight = 50.0
    share_read = 1.0

    def __init__(self, settings: Any, vocabulary: Vocabulary) -> None:
        super().__init__(settings, vocabulary)
        self.is_drawn = maskable(vocabulary)

    def heads_in(self, network: "ReplacedNetwork") -> list[nn.Module]:
        """Return the judgement of each token."""
        return [network.detector]

    def label(self, ids: Ids, packing: Packing, moment: Moment) -> tuple[Ids, Labels | None]:
        """Keep what was there, before the next part hides some of it; nothing while only that one learns."""
        if self.settings.generator_first and moment.share_done < self.settings.generator_first:
            return ids, None
        return ids, Labels(ids, np.arange(len(ids)))

    def sums(
        self, network: "ReplacedNetwork", hidden: Tensor, labels: Tensor, tap: Tap | None = None
    ) -> dict[str, Tensor]:
        """Return the loss over all tokens and how many are judged right."""
        logits = network.detector(hidden).squeeze(1)  # (T,)
        loss = F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="sum")
        return {"rtd_loss": loss, "rtd_accuracy": ((logits > 0) == labels).sum()}


class Generated(MaskedTokens):
    """Fill the hidden places, with the generator's head."""

    heads = ()

    def heads_in(self, network: "ReplacedNetwork") -> list[nn.Module]:
        """Return the head that is the generator's."""
        return [network.mlm_head]


class Rolls(Part):
    """A number for each hidden place that draws the generator's guess; it depends on its keys alone."""

    name = "roll"

    @property
    def loss_weights(self) -> dict[str, float]:
        """None: nothing is learned from it."""
        return {}

    def label(self, ids: Ids, packing: Packing, moment: Moment) -> tuple[Ids, Labels | None]:
        """Return the roll of each token as whole numbers; those at hidden places are used."""
        examples, positions = packing.examples[packing.owners], packing.positions()
        rolls = uniform(moment.seed, Draw.SAMPLED_TOKEN, moment.epoch, examples, positions)
        return ids, Labels((rolls * 2.0**_ROLL_BITS).astype(np.int64), np.arange(len(ids)))

    def sums(self, network: Any, hidden: Tensor, labels: Tensor, tap: Tap | None = None) -> dict[str, Tensor]:
        """Return nothing."""
        return {}

    def counts(self, batch: PretrainBatch) -> dict[str, int]:
        """Return nothing."""
        return {}


class SharedEmbedding(nn.Module):
    """Look ids up in another's table, which gets no gradient, plus a difference that is learned."""

    def __init__(self, base: nn.Embedding) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = base.num_embeddings, base.embedding_dim
        self.weight = nn.Parameter(torch.zeros_like(base.weight))  # (V, D)
        self._base = (base,)  # in a tuple, or torch would register it as a submodule

    def forward(self, ids: Tensor) -> Tensor:
        """Return the rows of ``ids``, (T, D)."""
        return F.embedding(ids, self.weight) + F.embedding(ids, self._base[0].weight.detach())


class ReplacedNetwork(PretrainNetwork):
    """The generator, the model and its judgement of each token."""

    clipped_apart = ("generator.",)

    def __init__(self, bert: Bert, parts: Sequence[Part]) -> None:
        super().__init__(bert, parts)
        detected = parts[0]
        assert isinstance(detected, Detected)
        shape, settings = bert.config.encoder, detected.settings
        num_layers = settings.generator_layers or max(1, shape.num_hidden_layers // 2)
        if num_layers > shape.num_hidden_layers:
            raise UserError(
                f"objective.generator_layers={num_layers}, and the model has {shape.num_hidden_layers} "
                "blocks; expected at most as many"
            )
        small = replace(shape, num_hidden_layers=num_layers)
        self.generator = new_bert(
            ModelConfig(encoder=small, head="mlm", has_pooler=False), seed=torch.initial_seed() % 2**63
        )
        # The first blocks and the tables of the model, with whatever it starts from.
        found = bert.encoder.state_dict()
        own = self.generator.encoder.state_dict()
        self.generator.encoder.load_state_dict({name: found[name] for name in own})
        setattr(bert.encoder.embeddings, "token", SharedEmbedding(self.generator.encoder.embeddings.token))  # noqa: B010
        self.detector = nn.Sequential(
            nn.Linear(shape.hidden_size, shape.hidden_size), nn.GELU(), nn.Linear(shape.hidden_size, 1)
        )
        self.register_buffer("is_drawn", torch.from_numpy(detected.is_drawn), persistent=False)

    @property
    def mlm_head(self) -> MaskedLanguageHead:
        """The generator's head."""
        assert self.generator.mlm is not None
        return self.generator.mlm

    is_drawn: Tensor
    """Which tokens may replace others: no special ones, (V,)."""

    def forward(self, batch: PretrainBatch, tap: Tap | None = None) -> dict[str, Tensor]:
        """Return the sums of both networks; the model learns only where the batch has labels for it."""
        detected, generated, _ = self.parts
        hidden_tokens = batch.labels["mlm"]
        [states] = states_at(self.generator.encoder, batch, [hidden_tokens.places])
        labels = torch.from_numpy(hidden_tokens.values).to(states.device)
        sums: dict[str, Tensor] = generated.sums(self, states, labels)
        original = batch.labels.get("rtd")
        if original is None:
            waiting = zero_with_gradients((self.bert, self.detector), states)
            return {"rtd_loss": waiting, "rtd_accuracy": states.new_zeros(()), **sums}
        places = hidden_tokens.places
        assert places is not None
        filled = original.values.copy()
        filled[places] = self.draw(states.detach(), batch.labels["roll"].values[places]).cpu().numpy()
        [states] = states_at(self.bert.encoder, replace(batch, ids=filled), [original.places], tap)
        is_replaced = torch.from_numpy(filled != original.values).to(states.device)
        return {**detected.sums(self, states, is_replaced, tap), **sums}

    @torch.no_grad()
    def draw(self, states: Tensor, rolls: Ids) -> Tensor:
        """Return a token for each hidden place, drawn by the generator's probabilities, (M,)."""
        head = self.mlm_head
        features, chances = head.features(states), torch.from_numpy(rolls * 2.0**-_ROLL_BITS)
        weight, bias = head.decoder.weight, head.decoder.bias
        rows = max(1, BLOCK_NUMBERS // len(weight))
        drawn = []
        for start in range(0, len(features), rows):
            logits = F.linear(features[start : start + rows].float(), weight, bias)
            logits[:, ~self.is_drawn[: logits.shape[1]]] = -torch.inf
            sums = logits.softmax(dim=1).cumsum(dim=1, dtype=torch.float64)
            wanted = chances[start : start + rows, None].to(sums.device) * sums[:, -1:]
            drawn.append(torch.searchsorted(sums, wanted, right=True).squeeze(1).clamp_max(len(weight) - 1))
        return torch.cat(drawn)

    def saved(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights with the model's whole table, as any loader expects it, and the difference."""
        base = weights["generator.encoder.embeddings.token.weight"]
        return {**weights, TABLE: base + weights[TABLE], DIFFERENCE: weights[TABLE]}

    def loaded(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights with the difference in the model's table."""
        own = dict(weights)
        return {**own, TABLE: own.pop(DIFFERENCE)}


class ReplacedTokens(Objective):
    """Detect replaced tokens of single texts."""

    arrangement = Singles()
    part_types = (Detected, Generated, Rolls)
    settings_type = ReplacedSettings
    network_type = ReplacedNetwork

    def flops_in_blocks(self, network: ReplacedNetwork) -> float:
        """Return the operations of both networks, once both learn."""
        share_hidden = self.settings.mask.mean_select_prob
        in_generator = flops_in_blocks(network.generator.encoder.blocks, self.max_length, share_hidden)
        return super().flops_in_blocks(network) + in_generator
