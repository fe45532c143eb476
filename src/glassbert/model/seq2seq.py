"""The Transformer: an encoder reads the source, a decoder writes the target, both made of the one block.

The same weights run in two ways. Teacher forcing feeds a whole target at once, and the look-ahead mask keeps
each token from seeing what follows it; decoding feeds one token at a time and keeps keys and values in a
cache. Both give the same hidden states for the same prefix.

Legend: B sequences, T target tokens, S source tokens, D hidden size, W hypotheses of a sequence.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from glassbert.config import LstmConfig, TransformerConfig
from glassbert.errors import UserError
from glassbert.model.block import Block
from glassbert.model.cache import Cache, Shelf
from glassbert.model.embeddings import Embeddings
from glassbert.model.kernels import in_whole_vectors
from glassbert.model.layout import Batch, Layout
from glassbert.model.linear import Linear
from glassbert.model.stack import Stack
from glassbert.model.tap import Tap, within

SHELF_SIZE = 64
"""Fewest sequences on a shelf before the next one starts: each shelf costs calls in every step."""
SHELF_SPREAD = 1.25
"""A full shelf still takes sequences up to this many times as long as its first."""


class SequenceToSequence(Protocol):
    """The network that training and decoding work with: a `Transformer` or an `Lstm`."""

    @property
    def config(self) -> TransformerConfig | LstmConfig:
        """Vocabulary size, start and end ids, longest length."""

    @property
    def output(self) -> Linear:
        """The last layer: `hidden @ output.weight.T + output.bias` are the vocabulary logits."""

    def __call__(self, source: Batch, target: Batch, *, tap: Tap | None = None) -> Tensor:
        """Return the hidden states behind each token of the target, (T, D), by teacher forcing."""

    def layers(self) -> Sequence[nn.Module]:
        """Return the embeddings, then the blocks in the order of computation."""

    def start(self, source: Batch) -> Any:
        """Read the source; return the state before the first step."""

    def step(self, state: Any, ids: Tensor, parents: Tensor | None = None) -> Tensor:
        """Feed the next token of each hypothesis, (B, W); return the hidden states behind them, (B * W, D).

        Args:
            parents: Which hypothesis of the last step each one continues, (B, W); its own number when None.
        """

    def alignments(self, source: Batch, target: Batch) -> Sequence[Tensor]:
        """Return how much each target token looked at each source token, (T_i, S_i) for each pair."""

    def dependent_steps(self, source_length: int, target_length: int) -> int:
        """Return the number of computations that must wait for each other when a pair is learned."""


class Transformer(nn.Module):
    """Encoder and decoder over one embedding, which is also the matrix of the output."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        shape = config.encoder
        self.config = config
        self.embeddings = Embeddings(shape, is_scaled=True)
        self.encoder = Stack(shape, shape.num_hidden_layers)
        self.decoder = Stack(shape, config.num_decoder_layers, is_decoder=True)
        self.output = Linear(shape.hidden_size, shape.vocab_size)
        self.tie_weights()

    def tie_weights(self) -> None:
        """Share the token embedding's matrix with the output, where the config says so."""
        if self.config.encoder.tie_word_embeddings:
            self.output.weight = self.embeddings.token.weight

    def layers(self) -> list[nn.Module]:
        """Return the embeddings, then the encoder's blocks, then the decoder's."""
        return [self.embeddings, *self.encoder.blocks, *self.decoder.blocks]

    def forward(self, source: Batch, target: Batch, *, tap: Tap | None = None) -> Tensor:
        """Return the decoder's last hidden states, (T, D), by teacher forcing.

        Args:
            target: Each sequence begins with the start token; the state behind token i predicts token i + 1.
                Sort pairs by both lengths to make attention meet few shapes.
            tap: Receives every intermediate; its presence selects the glass path.
        """
        memory, tap = self.encode(source, tap), within(tap, "dec")
        if tap:
            tap.show_layout(target.layout)
        return self.decoder.run(
            self.embeddings(target, within(tap, "emb")),
            target.layout,
            memory=memory,
            memory_layout=source.layout,
            tap=tap,
        )

    def encode(self, source: Batch, tap: Tap | None = None) -> Tensor:
        """Return the encoder's last hidden states, (S, D)."""
        if tap:
            tap.show_layout(source.layout)
        embed = self.embeddings
        return self.encoder.run(embed(source, within(tap, "emb")), source.layout, tap=within(tap, "enc"))

    def start(self, source: Batch) -> Cache:
        """Encode the source and compute the keys and values that every step reads."""
        memory, positions = self.encode(source), source.layout.positions.to(source.ids.device)
        sides: list[Tensor] = []
        for block in self.decoder.blocks:
            assert isinstance(block, Block)
            assert block.cross_attention is not None
            sides += block.cross_attention.keys_and_values(memory, positions)
        shelves, first = [], 0
        for layout in shelf_layouts(source.layout):
            last = first + layout.num_tokens
            kept = torch.stack([rectangle(side[first:last], layout) for side in sides])  # (2 L, B, K, D)
            heads = kept.unflatten(3, (self.config.encoder.num_attention_heads, -1)).transpose(2, 3)
            shelves.append(Shelf(heads.unflatten(0, (-1, 2)), filling_mask(layout, memory)))
            first = last
        return Cache(shelves)

    def step(self, state: Cache, ids: Tensor, parents: Tensor | None = None) -> Tensor:
        """Feed the next token of each hypothesis, (B, W); return the hidden states behind them, (B * W, D).

        Args:
            parents: Which hypothesis of the last step each one continues, (B, W); its own number when None.
        """
        if state.num_steps == self.config.max_length:
            raise UserError(f"step {state.num_steps + 1} exceeds the position table of {state.num_steps}")
        state.begin_step(ids.size(1), parents)
        return self.decoder.step(self.embeddings.at(ids.flatten(), state.positions), state)

    def alignments(self, source: Batch, target: Batch) -> list[Tensor]:
        """Return how much each target token looked at each source token, (T_i, S_i) for each pair.

        This is the attention of the decoder's last block to the source, averaged over its heads.
        """
        scope = f"dec.{len(self.decoder.blocks) - 1}.cross."
        return probabilities(lambda tap: self(source, target, tap=tap), scope)

    def dependent_steps(self, source_length: int, target_length: int) -> int:
        """Return the number of computations that must wait for each other; lengths do not matter."""
        return len(self.encoder.blocks) + len(self.decoder.blocks)


def shelf_layouts(layout: Layout) -> list[Layout]:
    """Divide a batch, ideally sorted by length, into parts of about equal lengths."""
    borders = [0]
    for place, length in enumerate(layout.lengths):
        first = borders[-1]
        if place - first >= SHELF_SIZE and length > SHELF_SPREAD * layout.lengths[first]:
            borders.append(place)
    return [
        Layout(layout.lengths[first:last])
        for first, last in zip(borders, [*borders[1:], len(layout.lengths)], strict=True)
    ]


def rectangle(x: Tensor, layout: Layout) -> Tensor:
    """Return packed vectors, (S, D), as (B, longest, D) with zeros behind short sequences.

    Every step of decoding reads the same source, so a rectangle is better than runs of equal lengths; in a
    batch sorted by length it has little padding. The longest is rounded up: the keys of a sequence are then
    added up in the same order, whatever else is in the batch.
    """
    filled = x.new_zeros(len(layout.lengths), in_whole_vectors(layout.max_length), x.size(1))
    filled[layout.owners.to(x.device), layout.positions.to(x.device)] = x
    return filled


def filling_mask(layout: Layout, like: Tensor) -> Tensor | None:
    """Return the mask that hides the padding of a `rectangle`, (B, 1, 1, longest); None if there is none."""
    is_filling = torch.arange(in_whole_vectors(layout.max_length)) >= torch.tensor(layout.lengths)[:, None]
    if not is_filling.any():
        return None
    return torch.zeros(is_filling.shape).masked_fill_(is_filling, -math.inf).to(like)[:, None, None]


def probabilities(run: Callable[[Tap], Tensor], scope: str) -> list[Tensor]:
    """Return the mean over heads of the attention in ``scope``, (T_i, S_i) for each pair of a pass."""
    pairs: list[Tensor] = []

    def collect(name: str, value: Tensor) -> Tensor:
        if name.startswith(scope) and name.endswith("probs"):
            pairs.extend(value.mean(dim=1).unbind(0))  # (B, N, Q, K), one run after the other
        return value

    run(Tap(collect))
    return pairs
