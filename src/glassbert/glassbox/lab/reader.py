"""A small network that reads toys, made of the product's blocks with other attention, heads or positions.

Legend: B sequences, L length, T tokens, D hidden size.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassbert.config import BertConfig, Positions
from glassbert.glassbox.lab.toys import NO_LABEL, Toy
from glassbert.glassbox.lab.training import TEST_SEED, TrainingSettings, num_parameters, train
from glassbert.model.attention import Attention
from glassbert.model.block import Block
from glassbert.model.embeddings import Embeddings
from glassbert.model.init import initialise_evenly
from glassbert.model.layout import Batch, Layout
from glassbert.ranges import Range

Projections = Literal["qkv", "qv_shared", "qv_removed", "kv_removed", "v_shared", "v_removed"]
PositionKind = Literal["none", "learned", "sinusoidal", "rotary"]


@dataclass(frozen=True, kw_only=True)
class ReaderSettings(TrainingSettings):
    """Networks that read toys."""

    length: Annotated[int, Range(4, 256)] = 8
    """Tokens of a sequence, an even number."""


@dataclass(frozen=True)
class Variant:
    """What is changed in the blocks."""

    projections: Projections = "qkv"
    num_heads: int = 4
    positions: PositionKind = "sinusoidal"
    is_scaled: bool = True
    """Whether dot products are divided by sqrt(d_k)."""


class VariantAttention(Attention):
    """The product's attention with some of its three projections shared or removed.

    qkv: scores (x Wq)(x Wk)^T, values x Wv. qv_shared: Wk is Wq, so scores are symmetric; (K, V) with Wq
    set to Wk is the same thing. qv_removed: keys are x itself. kv_removed: queries are x itself. v_shared:
    one matrix for all three. v_removed: queries and keys are x itself, so only values have a matrix.
    """

    def __init__(self, config: BertConfig, variant: Variant, *, is_causal: bool) -> None:
        super().__init__(config, is_causal=is_causal)
        kind = variant.projections
        if kind in ("qv_shared", "v_shared"):
            self.key = self.query
        if kind == "v_shared":
            self.value = self.query
        for name in {"qv_removed": ["key"], "kv_removed": ["query"], "v_removed": ["query", "key"]}.get(
            kind, []
        ):
            setattr(self, name, Unprojected())
        if variant.positions == "none":
            self.is_rotary = False
        if not variant.is_scaled:
            # Kernels divide q.k by sqrt(d_k) themselves: queries that much larger undo it.
            self.add_module("query", Multiplied(self.query, sqrt(config.head_size)))


class Unprojected(nn.Identity):
    """Replaces a projection that is removed."""

    def prepare(self, x: Tensor) -> Tensor:
        """Return ``x``; see `Linear.prepare`."""
        return x


class Multiplied(nn.Module):
    """A projection whose output is multiplied by a constant."""

    def __init__(self, projection: nn.Module, factor: float) -> None:
        super().__init__()
        self.projection, self.factor = projection, factor

    def forward(self, x: Tensor) -> Tensor:
        """Return the larger projection of ``x``, (T, D)."""
        return self.factor * self.projection(x)


class Reader(nn.Module):
    """Embeddings, blocks, and an answer at every token."""

    def __init__(self, toy: Toy, variant: Variant, settings: ReaderSettings) -> None:
        super().__init__()
        # Rotary positions add nothing to the embeddings; without the rotation there are none at all.
        positions: Positions = "rotary" if variant.positions == "none" else variant.positions
        config = BertConfig(
            vocab_size=toy.num_ids,
            hidden_size=settings.hidden_size,
            intermediate_size=2 * settings.hidden_size,
            num_attention_heads=variant.num_heads,
            num_hidden_layers=settings.num_layers,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            max_position_embeddings=settings.length,
            positions=positions,
            norm_position="pre",  # learns in few steps
        )
        self.embeddings = Embeddings(config, is_scaled=True)
        self.blocks = nn.ModuleList(
            Block(config, is_causal=toy.is_causal) for _ in range(settings.num_layers)
        )
        for block in self.blocks:
            cast(Block, block).attention = VariantAttention(config, variant, is_causal=toy.is_causal)
        self.output = nn.Linear(settings.hidden_size, toy.num_labels)

    def forward(self, drawn: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """Return the summed loss, and how many answers are right, of ids and labels, (B, L) each."""
        ids, labels = drawn
        layout = Layout((ids.size(1),) * len(ids))
        hidden = self.embeddings(Batch(ids.flatten(), torch.zeros_like(ids.flatten()), layout))  # (T, D)
        for block in self.blocks:
            hidden = block(hidden, layout)
        logits, asked = self.output(hidden), labels.flatten()
        return {
            "loss": F.cross_entropy(logits, asked, ignore_index=NO_LABEL, reduction="sum"),
            "accuracy": (logits.argmax(dim=1) == asked).sum(),
        }


@dataclass(frozen=True)
class Learned:
    """A trained network."""

    accuracy: float
    num_parameters: int


def learn(toy: Toy, variant: Variant, settings: ReaderSettings, seed: int) -> Learned:
    """Train a network on fresh sequences; measure it on others."""
    network = Reader(toy, variant, settings)
    initialise_evenly(network, torch.Generator().manual_seed(seed))
    generator = torch.Generator().manual_seed(1_000_003 * (seed + 1))

    def draw(_: int) -> tuple[Tensor, Tensor]:
        return toy.draw(generator, settings.num_sequences, settings.length)

    def counts(drawn: tuple[Tensor, Tensor]) -> dict[str, int]:
        return dict.fromkeys(("loss", "accuracy"), int((drawn[1] != NO_LABEL).sum()))

    train(network, settings, draw, counts)
    test = toy.draw(torch.Generator().manual_seed(TEST_SEED), 256, settings.length)
    with torch.no_grad():
        right = network(test)["accuracy"].item()
    return Learned(right / counts(test)["accuracy"], num_parameters(network.blocks))
