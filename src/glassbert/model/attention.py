"""Multi-head attention over packed tokens: one fast path, one glass path.

Legend: T query tokens, S memory tokens, D hidden size, N heads, H head size (D / N);
within one run of equal shapes: B sequences, Q query length, K memory length.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassbert.config import BertConfig
from glassbert.model.cache import Past
from glassbert.model.dropout import dropout
from glassbert.model.kernels import attend_in_place
from glassbert.model.layout import EqualLengths, Layout
from glassbert.model.linear import Linear
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
        tap: Tap | None = None,
    ) -> Tensor:
        """Return the attended ``x`` plus ``residual``, (T, D). ``memory`` is (S, D)."""
        memory = x if memory is None else memory
        memory_layout = memory_layout or layout
        q, k, v = self.query(x), self.key(memory), self.value(memory)
        if self.is_rotary:
            q = rotate(q, layout.positions, self.num_heads)
            k = rotate(k, memory_layout.positions, self.num_heads)
        if tap:
            q, k, v = tap("q", q), tap("k", k), tap("v", v)
        if tap or self.training or torch.is_grad_enabled():
            context = self._attend(q, k, v, layout.runs(memory_layout), tap)
        else:
            context = attend_in_place(
                q, k, v, layout, memory_layout, num_heads=self.num_heads, is_causal=self.is_causal
            )
        del q, k, v  # without gradients, what comes next can take their place in memory
        if tap:
            context = tap("context", context)
        return self.output(context, dropout=self.output_dropout, residual=residual)

    def keys_and_values(self, memory: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return what ``memory``, (S, D), offers to queries of later steps, (S, D) each."""
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
        contexts = []
        for past, queries in zip(pasts, q.split([past.num_queries for past in pasts]), strict=True):
            heads = self._heads(queries, len(past.keys))  # (B, N, W, H)
            context = F.scaled_dot_product_attention(heads, past.keys, past.values, attn_mask=past.mask)
            contexts.append(context.transpose(1, 2).reshape(queries.shape))
        return self.output(_joined(contexts), residual=residual)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, runs: list[EqualLengths], tap: Tap | None) -> Tensor:
        """Attend run by run: sequences of one shape form a dense batch, so nothing is padded."""
        contexts = []
        sizes = [run.num_sequences * run.length for run in runs]
        memory_sizes = [run.num_sequences * run.memory_length for run in runs]
        parts = zip(runs, q.split(sizes), k.split(memory_sizes), v.split(memory_sizes), strict=True)
        for index, (run, q_run, k_run, v_run) in enumerate(parts):
            heads = (
                self._heads(q_run, run.num_sequences),
                self._heads(k_run, run.num_sequences),
                self._heads(v_run, run.num_sequences),
            )
            # One text has one run and gets the plain names; the runs of a batch are told apart.
            run_tap = tap.within(f"run{index}") if tap and len(runs) > 1 else tap
            context = self._formula(*heads, run_tap) if run_tap else self._fast(*heads)  # (B, N, Q, H)
            contexts.append(context.transpose(1, 2).reshape(q_run.shape))
        return _joined(contexts)  # (T, D)

    def _heads(self, x: Tensor, num_sequences: int) -> Tensor:
        """View (B * length, D) as (B, N, length, H)."""
        return x.view(num_sequences, -1, self.num_heads, x.size(-1) // self.num_heads).transpose(1, 2)

    def _fast(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        probability = self.probs_dropout if self.training else 0.0
        if probability and q.is_cpu:
            return self._formula(q, k, v)  # so would torch, but with a slower dropout
        return F.scaled_dot_product_attention(q, k, v, dropout_p=probability, is_causal=self.is_causal)

    def _formula(self, q: Tensor, k: Tensor, v: Tensor, tap: Tap | None = None) -> Tensor:
        """Compute ``softmax(QK^T / sqrt(H) + mask) V`` as it is taught."""
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, N, Q, K)
        scores = tap("scores", scores) if tap else scores
        if self.is_causal:
            # A token sees itself and what came before it; only what comes after is hidden.
            visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
            scores = scores.masked_fill(~visible, -math.inf)
            scores = tap("masked", scores) if tap else scores
        probs = scores.softmax(dim=-1)
        probs = tap("probs", probs) if tap else probs
        return dropout(probs, self.probs_dropout, self.training) @ v


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
