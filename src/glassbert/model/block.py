"""The one block: BERT's encoder, the Transformer's encoder and its decoder are this class with options.

Legend: T tokens, S memory tokens, M chosen tokens, D hidden size, I intermediate size.
"""

from collections.abc import Callable

from torch import Tensor, nn

from glassbert.config import BertConfig
from glassbert.model.attention import Attention
from glassbert.model.cache import Cache
from glassbert.model.layout import Layout, SomeTokens
from glassbert.model.linear import ACTIVATIONS, Linear, add_projection
from glassbert.model.tap import Tap, within

Sublayer = Callable[[Tensor, Tensor], Tensor]
"""Maps its input, and the residual that it adds to the result."""


class FeedForward(nn.Module):
    """Two projections with an activation between them, applied to each token on its own."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.activation = config.hidden_act
        self.dropout = config.hidden_dropout_prob
        self.inner = Linear(config.hidden_size, config.intermediate_size, bias=config.use_bias)
        self.gate = (
            Linear(config.hidden_size, config.intermediate_size, bias=config.use_bias)
            if config.gated_mlp
            else None
        )
        self.outer = Linear(config.intermediate_size, config.hidden_size, bias=config.use_bias)

    def forward(self, x: Tensor, *, residual: Tensor | None = None, tap: Tap | None = None) -> Tensor:
        """Return the transformed ``x`` plus ``residual``, (T, D)."""
        if tap:
            inner = self._shown(x, tap)
        else:
            x = self.inner.prepare(x)
            inner = self.inner(x, activation=self.activation)  # (T, I)
            if self.gate is not None:
                inner = inner * self.gate(x)
        return add_projection(residual, self.outer, inner, dropout=self.dropout, tap=tap, name="out")

    def _shown(self, x: Tensor, tap: Tap) -> Tensor:
        """Return what the second projection reads, (T, I), one named step at a time."""
        inner = tap("act", ACTIVATIONS[self.activation](tap("pre", self.inner(x))))
        return inner if self.gate is None else tap("gated", inner * tap("gate", self.gate(x)))


class Block(nn.Module):
    """Self-attention, optional attention to a memory, feed-forward; each with a residual and a LayerNorm."""

    def __init__(
        self, config: BertConfig, *, is_causal: bool = False, has_cross_attention: bool = False
    ) -> None:
        super().__init__()
        self.is_pre_norm = config.norm_position == "pre"
        self.attention = Attention(config, is_causal=is_causal)
        self.attention_norm = layer_norm(config)
        self.cross_attention = Attention(config) if has_cross_attention else None
        self.cross_norm = layer_norm(config) if has_cross_attention else None
        self.mlp = FeedForward(config)
        self.mlp_norm = layer_norm(config)

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        *,
        only: SomeTokens | None = None,
        memory: Tensor | None = None,
        memory_layout: Layout | None = None,
        is_causal: bool = False,
        tap: Tap | None = None,
    ) -> Tensor:
        """Return the next hidden states, (T, D). A block with cross-attention needs ``memory``, (S, D).

        Args:
            only: Tokens whose next states are wanted, (M, D); of the others only keys and values are
                computed.
            is_causal: Let a token see only itself and those before it; a decoder's block always does.
        """
        assert only is None or not is_causal, "causal attention is between all tokens"

        def attend_to_self(inner: Tensor, residual: Tensor) -> Tensor:
            if only is None:
                attn_tap = within(tap, "attn")
                return self.attention(inner, layout, residual=residual, is_causal=is_causal, tap=attn_tap)
            queries, residual = inner[only.index], residual[only.index]
            return self.attention(queries, only, memory=inner, memory_layout=layout, residual=residual)

        def attend_to_memory(inner: Tensor, residual: Tensor) -> Tensor:
            assert self.cross_attention is not None
            assert memory is not None, "a block with cross-attention was called without a memory"
            return self.cross_attention(
                inner,
                layout,
                memory=memory,
                memory_layout=memory_layout,
                residual=residual,
                tap=within(tap, "cross"),
            )

        x = self._sublayers(x, attend_to_self, attend_to_memory, tap)
        return tap("out", x) if tap else x

    def step(self, x: Tensor, cache: Cache, index: int) -> Tensor:
        """Return the next hidden states of one step's tokens, (T, D), and extend ``cache`` by them.

        Args:
            index: Which block of the decoder this is.
        """
        positions, parts = cache.positions, cache.block(index)

        def attend_to_self(inner: Tensor, residual: Tensor) -> Tensor:
            inner = self.attention.key.prepare(inner)
            keys, values = (
                side.split(cache.num_tokens) for side in self.attention.keys_and_values(inner, positions)
            )
            pasts = [part.extend(k, v) for part, k, v in zip(parts, keys, values, strict=True)]
            return self.attention.step(inner, positions, pasts, residual=residual)

        def attend_to_memory(inner: Tensor, residual: Tensor) -> Tensor:
            assert self.cross_attention is not None
            pasts = [part.memory for part in parts]
            return self.cross_attention.step(inner, positions, pasts, residual=residual)

        return self._sublayers(x, attend_to_self, attend_to_memory)

    def _sublayers(
        self, x: Tensor, attend_to_self: Sublayer, attend_to_memory: Sublayer, tap: Tap | None = None
    ) -> Tensor:
        def feed_forward(inner: Tensor, residual: Tensor) -> Tensor:
            return self.mlp(inner, residual=residual, tap=within(tap, "mlp"))

        x = self._sublayer(x, self.attention_norm, attend_to_self, within(tap, "attn"))
        if self.cross_norm is not None:
            x = self._sublayer(x, self.cross_norm, attend_to_memory, within(tap, "cross"))
        return self._sublayer(x, self.mlp_norm, feed_forward, within(tap, "mlp"))

    def _sublayer(self, x: Tensor, norm: nn.LayerNorm, sublayer: Sublayer, tap: Tap | None) -> Tensor:
        """Apply ``sublayer`` with its residual; the LayerNorm comes before it or after the sum."""
        if tap is None:
            return sublayer(norm(x), x) if self.is_pre_norm else norm(sublayer(x, x))
        if self.is_pre_norm:
            return sublayer(tap("norm", norm(x)), x)
        return tap("norm", norm(sublayer(x, x)))


def layer_norm(config: BertConfig) -> nn.LayerNorm:
    """Return a LayerNorm over the features of each token."""
    return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
