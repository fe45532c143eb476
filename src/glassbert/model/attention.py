"""Multi-head attention over packed tokens: the weights; `kernels` holds the ways to attend.

Legend: T query tokens, S memory tokens, D hidden size.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from glassbert.config import BertConfig
from glassbert.model.cache import Past
from glassbert.model.kernels import Spec, cached, choose_kernel
from glassbert.model.layout import Layout
from glassbert.model.linear import Linear, add_projection
from glassbert.model.positions import rotate
from glassbert.model.tap import Tap


class Attention(nn.Module):
    """Queries from ``x`` look at ``memory``; self-attention when no memory is given."""

    def __init__(self, config: BertConfig, *, is_causal: bool = False) -> None:
        super().__init__()
        width = config.hidden_size
        self.num_heads = config.num_attention_heads
        self.is_causal = is_causal
        self.is_rotary = config.positions == "rotary"
        self.probs_dropout = config.attention_probs_dropout_prob
        self.output_dropout = config.hidden_dropout_prob
        self.query = Linear(width, width, bias=config.use_bias)
        self.key = Linear(width, width, bias=config.use_bias)
        self.value = Linear(width, width, bias=config.use_bias)
        self.output = Linear(width, width, bias=config.use_bias)

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        *,
        memory: Tensor | None = None,
        memory_layout: Layout | None = None,
        residual: Tensor | None = None,
        is_causal: bool = False,
        tap: Tap | None = None,
    ) -> Tensor:
        """Return the attended ``x`` plus ``residual``, (T, D). ``memory`` is (S, D).

        Args:
            is_causal: Let a token see only itself and those before it; a decoder always does.
        """
        memory_layout = memory_layout or layout
        seen = self.key.prepare(x if memory is None else memory)
        q, k, v = self.query(seen if memory is None else x), self.key(seen), self.value(seen)
        del seen
        if self.is_rotary:
            if tap:
                q, k = tap("q.unrotated", q), tap("k.unrotated", k)
            q = rotate(q, layout.positions, self.num_heads)
            k = rotate(k, memory_layout.positions, self.num_heads)
        if tap:
            q, k, v = tap("q", q), tap("k", k), tap("v", v)
        dropout = self.probs_dropout if self.training else 0.0
        spec = Spec(layout, memory_layout, self.num_heads, self.is_causal or is_causal, dropout, tap)
        context = choose_kernel(q, spec)(q, k, v, spec)
        del q, k, v  # without gradients, what follows can reuse their memory
        if tap:
            context = tap("context", context)
        return add_projection(residual, self.output, context, dropout=self.output_dropout, tap=tap)

    def keys_and_values(self, memory: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values of ``memory``, (S, D), for queries of later steps, (S, D) each."""
        memory = self.key.prepare(memory)
        k, v = self.key(memory), self.value(memory)
        return (rotate(k, positions, self.num_heads) if self.is_rotary else k), v

    def step(
        self, x: Tensor, positions: Tensor, pasts: Sequence[Past], *, residual: Tensor | None = None
    ) -> Tensor:
        """Return the attended tokens of one step, (T, D): ``forward`` with keys and values kept from before.

        Args:
            x: Tokens that look at the first of the ``pasts``, then those that look at the second, and so on.
        """
        q = self.query(x)
        if self.is_rotary:
            q = rotate(q, positions, self.num_heads)
        return self.output(cached(q, pasts, self.num_heads), residual=residual)
