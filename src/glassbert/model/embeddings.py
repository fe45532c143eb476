"""Embeddings: from ids to the vectors that the first block reads.

Legend: T tokens, D hidden size.
"""

import math

from torch import Tensor, nn

from glassbert.config import BertConfig
from glassbert.errors import UserError
from glassbert.model.block import layer_norm
from glassbert.model.dropout import dropout
from glassbert.model.layout import Batch
from glassbert.model.positions import sinusoids
from glassbert.model.tap import Tap


class Table(nn.Embedding):
    """A row for each id."""

    def reset_parameters(self) -> None:
        """Draw values, unless the table is built to have none.

        Drawing random numbers on the meta device makes torch load its compiler: a second at each start.
        """
        if not self.weight.is_meta:
            super().reset_parameters()


class Embeddings(nn.Module):
    """Token vectors plus positions, then dropout.

    BERT's have segments as well, and a LayerNorm before dropout. The Transformer's are scaled instead: token
    vectors times sqrt(D), so that they are as large as the positions. Rotary positions enter in attention.
    """

    def __init__(self, config: BertConfig, *, is_scaled: bool = False) -> None:
        super().__init__()
        width = config.hidden_size
        self.dropout = config.hidden_dropout_prob
        self.max_length = config.max_position_embeddings
        self.is_sinusoidal = config.positions == "sinusoidal"
        self.scale = math.sqrt(width) if is_scaled else None
        self.token = Table(config.vocab_size, width)
        self.segment = None if is_scaled else Table(config.type_vocab_size, width)
        self.position = Table(self.max_length, width) if config.positions == "learned" else None
        self.norm = None if is_scaled else layer_norm(config)

    def forward(self, batch: Batch, tap: Tap | None = None) -> Tensor:
        """Return the vectors of all tokens, (T, D)."""
        check_input(batch, self.max_length, self.token, self.segment)
        return self.at(batch.ids, batch.layout.positions.to(batch.ids.device), batch.segments, tap)

    def at(
        self, ids: Tensor, positions: Tensor, segments: Tensor | None = None, tap: Tap | None = None
    ) -> Tensor:
        """Return the vectors of tokens at their positions, both (T,), as (T, D)."""
        token = self.token(ids)
        vectors = {"token": token}
        if self.segment is not None:
            vectors["segment"] = self.segment(segments)
        position = self._positions(positions, like=token)
        if position is not None:
            vectors["position"] = position
        if tap:
            vectors = {name: tap(name, value) for name, value in vectors.items()}
        if self.scale is not None:
            scaled = vectors["token"] * self.scale
            vectors["token"] = tap("scaled", scaled) if tap else scaled
        return self._finish(_sum(list(vectors.values())), tap)

    def _positions(self, positions: Tensor, like: Tensor) -> Tensor | None:
        """Return the position vectors, (T, D), or None where positions enter in attention."""
        if self.position is not None:
            return self.position(positions)
        if self.is_sinusoidal:
            return sinusoids(self.max_length, like.size(1)).to(like)[positions]
        return None

    def _finish(self, hidden: Tensor, tap: Tap | None) -> Tensor:
        hidden = tap("sum", hidden) if tap else hidden
        if self.norm is not None:
            hidden = self.norm(hidden)
            hidden = tap("norm", hidden) if tap else hidden
        hidden = dropout(hidden, self.dropout, self.training)
        return tap("out", hidden) if tap else hidden


def _sum(vectors: list[Tensor]) -> Tensor:
    """Return the sum of tensors without changing them; only the first addition needs new memory."""
    if len(vectors) == 1:
        return vectors[0]
    total = vectors[0] + vectors[1]
    for vector in vectors[2:]:
        total.add_(vector)
    return total


def check_input(
    batch: Batch, max_length: int, tokens: nn.Embedding, segments: nn.Embedding | None = None
) -> None:
    """Refuse a batch that the tables have no rows for."""
    if batch.layout.max_length > max_length:
        raise UserError(
            f"a sequence of {batch.layout.max_length} tokens exceeds the position table of "
            f"{max_length}; truncate it, or split it into windows"
        )
    if batch.ids.is_cpu:  # on a GPU the comparison would force a wait, and the lookup has its own assert
        for name, values, table in (("id", batch.ids, tokens), ("segment", batch.segments, segments)):
            if table is None:
                continue
            low, high = values.aminmax()
            if low < 0 or high >= table.num_embeddings:
                culprit = int(low if low < 0 else high)
                raise UserError(f"{name} {culprit} lies outside the table of {table.num_embeddings} rows")
