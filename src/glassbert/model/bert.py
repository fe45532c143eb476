"""BERT: embeddings, a stack of blocks, and the heads that its tasks need.

Legend: B sequences, T tokens, M positions to predict, D hidden size, V vocabulary, C labels.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from glassbert.config import BertConfig, ModelConfig
from glassbert.errors import UserError
from glassbert.model.block import Block, layer_norm
from glassbert.model.dropout import dropout
from glassbert.model.heads import LabelHead, MaskedLanguageHead, Pooler
from glassbert.model.layout import Batch
from glassbert.model.linear import Linear
from glassbert.model.positions import sinusoids
from glassbert.model.tap import Tap, within


class Embeddings(nn.Module):
    """Token + segment + position, then LayerNorm and dropout."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dropout = config.hidden_dropout_prob
        self.max_length = config.max_position_embeddings
        self.token = nn.Embedding(config.vocab_size, config.hidden_size)
        self.segment = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.position = (
            nn.Embedding(config.max_position_embeddings, config.hidden_size)
            if config.positions == "learned"
            else None
        )
        self.is_sinusoidal = config.positions == "sinusoidal"
        self.norm = layer_norm(config)

    def forward(self, batch: Batch, tap: Tap | None = None) -> Tensor:
        """Return the sum of the embeddings, normalised, (T, D)."""
        check_input(batch, self.max_length, self.token, self.segment)
        token, segment, position = self.token(batch.ids), self.segment(batch.segments), self._positions(batch)
        if tap:
            token, segment, position = tap("token", token), tap("segment", segment), tap("position", position)
        hidden = dropout(self.norm((token + segment).add_(position)), self.dropout, self.training)
        return tap("out", hidden) if tap else hidden

    def _positions(self, batch: Batch) -> Tensor:
        """Return the position vectors, (T, D); zero where positions enter in attention instead."""
        positions = batch.layout.positions.to(batch.ids.device)
        if self.position is not None:
            return self.position(positions)
        if self.is_sinusoidal:
            return sinusoids(self.max_length, self.token.embedding_dim).to(positions.device)[positions]
        return torch.zeros(1, self.token.embedding_dim, device=positions.device)


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


class Encoder(nn.Module):
    """Embeddings and blocks: what every BERT has."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.num_hidden_layers)])
        self.final_norm = layer_norm(config) if config.norm_position == "pre" else None

    def forward(self, batch: Batch, tap: Tap | None = None, only: Tensor | None = None) -> Tensor:
        """Return the last hidden states, (T, D); of the tokens in ``only``, (M, D), if it is given.

        The last block then leaves out what nobody reads, unless a tap wants to see it.
        """
        chosen = None if only is None else batch.layout.only(only)
        hidden = self.embeddings(batch, within(tap, "emb"))
        for index, block in enumerate(self.blocks):
            is_last = index == len(self.blocks) - 1
            wanted = chosen if is_last and not tap else None
            hidden = block(hidden, batch.layout, only=wanted, tap=within(tap, f"enc.{index}"))
        if self.final_norm is not None:
            hidden = self.final_norm(hidden)
        if tap:
            hidden = tap("enc.out", hidden)
            return hidden if only is None else hidden[only]
        return hidden

    def at(self, batch: Batch, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return the last hidden states of each sequence's first token, (B, D), and at ``places``, (M, D)."""
        read, first, others = tokens_read(batch, places)
        hidden = self(batch, only=read)
        return hidden[first], hidden[others]


def tokens_read(batch: Batch, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the tokens that are first in their sequence or at ``places``; where in them each kind is."""
    starts = batch.layout.starts.to(batch.ids.device)
    read, where = torch.unique(torch.cat([starts, places]), return_inverse=True)
    return read, where[: len(starts)], where[len(starts) :]


@dataclass(frozen=True)
class Output:
    """What a pass computed; a head that the model lacks, or was not asked for, is None."""

    hidden: Tensor
    """Last hidden states, (T, D); with `heads_only`, of the tokens that the heads read."""
    pooled: Tensor | None = None
    """(B, D)."""
    mlm: Tensor | None = None
    """Vocabulary logits at the positions asked for, (M, V)."""
    nsp: Tensor | None = None
    """IsNext and NotNext, (B, 2)."""
    labels: Tensor | None = None
    """classify: (B, C); tag: (T, C)."""
    span: Tensor | None = None
    """Start and end logits of an answer, (T, 2)."""

    def as_float32(self) -> "Output":
        """Return this output in float32, whatever the network computes in."""
        found = {name: value for name, value in vars(self).items() if value is not None}
        return replace(self, **{name: value.float() for name, value in found.items()})

    def through(self, tap: Tap) -> "Output":
        """Return this output with what the heads computed passed through ``tap``."""
        heads = {name: value for name, value in vars(self).items() if name != "hidden" and value is not None}
        return replace(self, **{name: tap(name, value) for name, value in heads.items()})


class Bert(nn.Module):
    """An encoder with the heads its config names."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        shape, head = config.encoder, config.head
        self.config = config
        self.encoder = Encoder(shape)
        self.pooler = Pooler(shape) if config.has_pooler else None
        self.mlm = MaskedLanguageHead(shape) if head in ("pretraining", "mlm") else None
        self.nsp = Linear(shape.hidden_size, 2) if head in ("pretraining", "nsp") else None
        self.labels = LabelHead(shape, len(config.labels)) if head in ("classify", "tag") else None
        self.span = Linear(shape.hidden_size, 2) if head == "answer" else None
        self.tie_weights()

    def tie_weights(self) -> None:
        """Let the MLM decoder be the token embedding's matrix, where the config says so."""
        if self.mlm is not None and self.config.encoder.tie_word_embeddings:
            self.mlm.decoder.weight = self.encoder.embeddings.token.weight

    def forward(
        self,
        batch: Batch,
        *,
        predict_at: Tensor | None = None,
        heads_only: bool = False,
        tap: Tap | None = None,
    ) -> Output:
        """Run the encoder and its heads.

        Args:
            predict_at: Indices into the packed tokens, (M,), where the MLM head shall predict: vocabulary
                logits at every token would cost more than the encoder itself.
            heads_only: Let the last block leave out the tokens that no head reads.
            tap: Receives every intermediate; its presence selects the glass path.
        """
        first, read = batch.layout.starts.to(batch.ids.device), None
        if heads_only and self.config.head not in ("tag", "answer"):
            read, first, predict_at = tokens_read(batch, first[:0] if predict_at is None else predict_at)
        hidden = self.encoder(batch, tap, read)
        pooled = self.pooler(hidden[first]) if self.pooler is not None else None
        output = Output(
            hidden=hidden,
            pooled=pooled,
            mlm=self.mlm(hidden[predict_at]) if self.mlm is not None and predict_at is not None else None,
            nsp=self.nsp(pooled) if self.nsp is not None else None,
            labels=self._label_logits(hidden, pooled),
            span=self.span(hidden) if self.span is not None else None,
        )
        return output.through(tap.within("head")) if tap else output

    def _label_logits(self, hidden: Tensor, pooled: Tensor | None) -> Tensor | None:
        if self.labels is None:
            return None
        return self.labels(pooled if self.config.head == "classify" else hidden)
