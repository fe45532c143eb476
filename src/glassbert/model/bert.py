"""BERT: embeddings, a stack of blocks, and the heads that its tasks need.

Legend: B sequences, T tokens, M positions to predict, D hidden size, V vocabulary, C labels.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from glassbert.config import BertConfig, ModelConfig
from glassbert.heads import HEADS
from glassbert.model.embeddings import Embeddings
from glassbert.model.heads import LabelHead, MaskedLanguageHead, Pooler
from glassbert.model.layout import Batch
from glassbert.model.linear import Linear
from glassbert.model.stack import Stack
from glassbert.model.tap import Tap, shown, within


class Encoder(Stack):
    """Embeddings and the stack on top of them: what every BERT has."""

    embeddings: Embeddings

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, config.num_hidden_layers, embeddings=Embeddings(config))

    def forward(
        self,
        batch: Batch,
        tap: Tap | None = None,
        only: Tensor | None = None,
        *,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the last hidden states, (T, D); of the tokens in ``only``, (M, D), if it is given.

        Args:
            is_causal: Let a token see only itself and those before it, as a decoder does.
        """
        chosen = None if only is None else batch.layout.select(only)
        if tap:
            tap.show_layout(batch.layout)
        embed = self.embeddings
        return self.run(
            embed(batch, within(tap, "emb")),  # unnamed: freed once the first block has read them
            batch.layout,
            only=chosen,
            is_causal=is_causal,
            tap=within(tap, "enc"),
        )

    def mean_of_layers(self, batch: Batch) -> Tensor:
        """Return the mean of each token's states after the embeddings and after every block, (T, D)."""
        hidden = self.embeddings(batch)
        total = hidden.clone()
        for block in self.blocks:
            hidden = block(hidden, batch.layout)
            total += hidden
        return total / (1 + len(self.blocks))


def tokens_read(batch: Batch, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the tokens that are first in their sequence or at ``places``; where in them each kind is."""
    starts = batch.layout.starts.to(batch.ids.device)
    read, where = torch.unique(torch.cat([starts, places]), return_inverse=True)
    return read, where[: len(starts)], where[len(starts) :]


@dataclass(frozen=True)
class Output:
    """The results of a pass; None for a head that the model lacks or that was not asked for."""

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


class Bert(nn.Module):
    """An encoder with the heads its config names."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        shape, parts = config.encoder, config.parts
        self.config = config
        self.encoder = Encoder(shape)
        self.pooler = Pooler(shape) if "pooler" in parts else None
        self.mlm = MaskedLanguageHead(shape) if "mlm" in parts else None
        self.nsp = Linear(shape.hidden_size, 2) if "nsp" in parts else None
        self.labels = LabelHead(shape, len(config.labels)) if "labels" in parts else None
        self.span = Linear(shape.hidden_size, 2) if "span" in parts else None
        self.tie_weights()

    def tie_weights(self) -> None:
        """Share the token embedding's matrix with the MLM decoder, where the config says so."""
        if self.mlm is not None and self.config.encoder.tie_word_embeddings:
            self.mlm.decoder.weight = self.encoder.embeddings.token.weight

    def layers(self) -> list[nn.Module]:
        """Return the embeddings, then the blocks."""
        return [self.encoder.embeddings, *self.encoder.blocks]

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
            predict_at: Indices into the packed tokens, (M,), where the MLM head predicts: logits of the
                vocabulary at every token would cost more than the encoder itself.
            heads_only: Skip the tokens that no head reads in the last block.
            tap: Receives every intermediate; its presence selects the glass path.
        """
        first, read = batch.layout.starts.to(batch.ids.device), None
        if heads_only and not HEADS[self.config.head].reads_every_token:
            read, first, predict_at = tokens_read(batch, first[:0] if predict_at is None else predict_at)
        hidden = self.encoder(batch, tap, read)
        head_tap = within(tap, "head")
        pooled = self.pooler(hidden[first], head_tap) if self.pooler is not None else None
        mlm = None
        if self.mlm is not None and predict_at is not None:
            mlm = self.mlm(hidden[predict_at], within(head_tap, "mlm"))
        return Output(
            hidden=hidden,
            pooled=pooled,
            mlm=mlm,
            nsp=shown(self.nsp(pooled), head_tap, "nsp.logits") if self.nsp is not None else None,
            labels=self._label_logits(hidden, pooled, head_tap),
            span=shown(self.span(hidden), head_tap, "span.logits") if self.span is not None else None,
        )

    def _label_logits(self, hidden: Tensor, pooled: Tensor | None, tap: Tap | None) -> Tensor | None:
        if self.labels is None:
            return None
        logits = self.labels(pooled if HEADS[self.config.head].reads["labels"] == "pooled" else hidden)
        return shown(logits, tap, "labels.logits")
