"""Recurrent translation, as it was before the Transformer; with attention, or without.

The call shape is the Transformer's, so the same task trains it and the same loop decodes it. What differs is
the work: a token's state depends on the state of the token before it, so a sequence of T tokens takes T
dependent steps. Without attention, the decoder knows only the encoder's last state of the source.

Legend: B sequences, T target tokens, S source tokens, D hidden size, L layers, W hypotheses of a sequence.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from glassbert.config import BertConfig, LstmConfig
from glassbert.errors import ModelError
from glassbert.model.attention import Attention
from glassbert.model.cache import Past
from glassbert.model.embeddings import Table, check_input
from glassbert.model.layout import Batch, Layout
from glassbert.model.linear import Linear
from glassbert.model.seq2seq import filling_mask, probabilities, rectangle
from glassbert.model.tap import Tap, shown, within

State = tuple[Tensor, Tensor]
"""Hidden and cell state of every layer, (L, B, D) each."""


class LstmState:
    """The decoder's state of each sequence between steps."""

    def __init__(self, last: State, keys: Tensor | None, values: Tensor | None, mask: Tensor | None) -> None:
        """Start before the first step.

        Args:
            last: (L, B, D) each, for one hypothesis of each sequence.
            keys: What attention reads of the source, (B, 1, S, D), as are ``values``.
            mask: (B, 1, 1, S), added to the scores.
        """
        self.last, self.keys, self.values, self.mask = last, keys, values, mask
        self.width = 1

    def branch(self, width: int, parents: Tensor | None) -> None:
        """Follow ``width`` hypotheses of each sequence, which continue those of ``parents``, (B, W)."""
        if parents is not None:
            firsts = torch.arange(len(parents), device=parents.device)[:, None] * self.width
            self._select((firsts + parents).flatten())
        self.width = width

    @property
    def past(self) -> Past:
        """Keys and values of the source."""
        assert self.keys is not None
        assert self.values is not None
        return Past(self.keys, self.values, self.mask, self.width)

    def leave(self, is_done: Sequence[bool]) -> Tensor:
        """Drop finished sequences; return the old place of each remaining one, (B,)."""
        stay = [place for place, done in enumerate(is_done) if not done]
        order = torch.tensor(stay, dtype=torch.int64, device=self.last[0].device)
        hypotheses = torch.arange(self.width, device=order.device)
        self._select((order[:, None] * self.width + hypotheses).flatten())
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[order], self.values[order]
        if self.mask is not None:
            self.mask = self.mask[order]
        return order

    def _select(self, rows: Tensor) -> None:
        hidden, cell = self.last
        if len(rows) != hidden.size(1) or not torch.equal(rows, torch.arange(len(rows), device=rows.device)):
            self.last = hidden.index_select(1, rows), cell.index_select(1, rows)


class Lstm(nn.Module):
    """An encoder that reads both ways, a decoder, attention between them or not, one shared embedding."""

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        width, depth = config.hidden_size, config.num_hidden_layers
        self.config = config
        self.token = Table(config.vocab_size, width)
        dropout = config.hidden_dropout_prob if depth > 1 else 0.0
        self.encoder = nn.LSTM(width, width // 2, depth, dropout=dropout, bidirectional=True)
        self.decoder = nn.LSTM(width, width, depth, dropout=dropout)
        self.attention = Attention(_attention_shape(config)) if config.has_attention else None
        self.norm = nn.LayerNorm(width)
        self.output = Linear(width, config.vocab_size)
        self.tie_weights()

    def tie_weights(self) -> None:
        """Share the token embedding's matrix with the output."""
        self.output.weight = self.token.weight

    def layers(self) -> list[nn.Module]:
        """Return the embedding alone: recurrent layers are computed as one."""
        return [self.token]

    def forward(self, source: Batch, target: Batch, *, tap: Tap | None = None) -> Tensor:
        """Return the hidden states behind each token of the target, (T, D), by teacher forcing."""
        memory, last = self.encode(source, tap)
        check_input(target, self.config.max_length, self.token)
        tap = within(tap, "dec")
        if tap:
            tap.show_layout(target.layout)
        hidden, _ = _run(self.decoder, self._embed(target.ids, within(tap, "emb")), target.layout, last)
        hidden = shown(hidden, tap, "lstm")
        if self.attention is not None:
            hidden = self.attention(
                hidden,
                target.layout,
                memory=memory,
                memory_layout=source.layout,
                residual=hidden,
                tap=within(tap, "cross"),
            )
        return self._finish(hidden, tap)

    def encode(self, source: Batch, tap: Tap | None = None) -> tuple[Tensor, State]:
        """Return the source's states, (S, D), and the last ones of every layer."""
        check_input(source, self.config.max_length, self.token)
        if tap:
            tap.show_layout(source.layout)
        embedded = self._embed(source.ids, within(tap, "emb"))
        memory, (hidden, cell) = _run(self.encoder, embedded, source.layout)
        return shown(memory, tap, "enc.out"), (_both_ways(hidden), _both_ways(cell))

    def start(self, source: Batch) -> LstmState:
        """Encode the source and compute the keys and values that every step reads."""
        memory, last = self.encode(source)
        if self.attention is None:
            return LstmState(last, None, None, None)
        keys, values = self.attention.keys_and_values(memory, source.layout.positions)
        return LstmState(
            last,
            rectangle(keys, source.layout)[:, None],
            rectangle(values, source.layout)[:, None],
            filling_mask(source.layout, memory),
        )

    def step(self, state: LstmState, ids: Tensor, parents: Tensor | None = None) -> Tensor:
        """Feed the next token of each hypothesis, (B, W); return the hidden states behind them, (B * W, D).

        Args:
            parents: Which hypothesis of the last step each one continues, (B, W); its own number when None.
        """
        state.branch(ids.size(1), parents)
        outputs, state.last = self.decoder(self._embed(ids.flatten())[None], state.last)
        hidden = outputs[0]
        if self.attention is not None:
            no_positions = torch.zeros(0)
            hidden = self.attention.step(hidden, no_positions, [state.past], residual=hidden)
        return self._finish(hidden)

    def alignments(self, source: Batch, target: Batch) -> list[Tensor]:
        """Return how much each target token looked at each source token, (T_i, S_i) for each pair."""
        if self.attention is None:
            raise ModelError("a model without attention has no alignment; train one with has_attention true")
        return probabilities(lambda tap: self(source, target, tap=tap), "dec.cross.")

    def dependent_steps(self, source_length: int, target_length: int) -> int:
        """Return the number of computations that must wait for each other when a pair is learned.

        A layer that reads both ways waits for the whole layer below; one that reads forwards, for one token.
        """
        return self.encoder.num_layers * source_length + target_length + self.decoder.num_layers - 1

    def _embed(self, ids: Tensor, tap: Tap | None = None) -> Tensor:
        hidden = shown(self.token(ids), tap, "token") * math.sqrt(self.token.embedding_dim)
        hidden = shown(hidden, tap, "scaled")
        return shown(F.dropout(hidden, self.config.hidden_dropout_prob, self.training), tap, "out")

    def _finish(self, hidden: Tensor, tap: Tap | None = None) -> Tensor:
        hidden = shown(self.norm(hidden), tap, "norm")
        return shown(F.dropout(hidden, self.config.hidden_dropout_prob, self.training), tap, "out")


def _attention_shape(config: LstmConfig) -> BertConfig:
    return BertConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_attention_heads=1,
        hidden_dropout_prob=config.hidden_dropout_prob,
        attention_probs_dropout_prob=0.0,
        pad_token_id=config.pad_token_id,
    )


def _run(lstm: nn.LSTM, x: Tensor, layout: Layout, first: State | None = None) -> tuple[Tensor, State]:
    """Run over packed sequences, (T, D), without padding; return all outputs and the last states."""
    lengths = torch.tensor(layout.lengths)
    by_length = lengths.argsort(descending=True, stable=True)
    ranks = by_length.argsort()
    # torch wants the first tokens of all sequences, longest first, then all second tokens, and so on.
    by_time = (layout.positions * len(lengths) + ranks[layout.owners]).argsort()
    sizes = torch.bincount(layout.positions)
    packed = PackedSequence(x[by_time.to(x.device)], sizes, by_length.to(x.device), ranks.to(x.device))
    outputs, last = lstm(packed, first)
    return outputs.data[by_time.argsort().to(x.device)], last


def _both_ways(states: Tensor) -> Tensor:
    """Join the last states of the two directions, (2 L, B, D / 2), to (L, B, D)."""
    return torch.cat([states[0::2], states[1::2]], dim=2)
