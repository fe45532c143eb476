"""Ways to attend, and which is taken when. All give the same numbers up to rounding.

| kernel     | taken                                         | because                                      |
|------------|-----------------------------------------------|----------------------------------------------|
| `formula`  | with a tap; in training on a CPU with dropout | each step has a name; SDPA would do the same |
|            | or in half precision                          | there, with a slower dropout; SDPA's         |
|            |                                               | gradient takes twice to eight times as long  |
| `varlen`   | on a GPU in half precision, without dropout   | one call, whatever the lengths               |
| `fused`    | with gradients or dropout                     | SDPA under autograd, equal lengths at once   |
| `in_place` | without gradients                             | writes the result over the queries           |
| `cached`   | in a step of decoding                         | keys and values were computed before         |

Legend: T query tokens, S memory tokens, D hidden size, N heads, H head size (D / N);
within one run of equal shapes: B sequences, Q query length, K memory length.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from glassbert.model.cache import Past
from glassbert.model.cpu import simd_width
from glassbert.model.dropout import dropout
from glassbert.model.layout import Layout
from glassbert.model.tap import Tap

# A row of scores that fills whole vectors takes less time than one with a few numbers left over, half of it
# with AVX512; the longer the row, the less it matters.
_LONGEST_FILLED_UP = 256
_LARGEST_FLASH_HEAD = 256
_FIRST_FLASH_GPU = (8, 0)


class Spec(NamedTuple):
    """How queries and keys belong together."""

    layout: Layout
    memory_layout: Layout
    num_heads: int
    is_causal: bool
    """A token sees itself and the tokens before it."""
    dropout: float = 0.0
    """Probability of dropping an attention probability; 0 outside of training."""
    tap: Tap | None = None


Kernel = Callable[[Tensor, Tensor, Tensor, Spec], Tensor]
"""Maps packed queries, (T, D), keys and values, (S, D) each, to contexts, (T, D); may overwrite the queries
where there are no gradients."""


def choose_kernel(q: Tensor, spec: Spec) -> Kernel:
    """Return the kernel for these queries; see the table above."""
    if spec.tap or (q.is_cpu and (spec.dropout or _learns_in_half_precision(q))):
        return formula
    if not spec.dropout and can_take_varlen(q, spec.num_heads):
        return varlen
    if spec.dropout or torch.is_grad_enabled():
        return fused
    return in_place


def _learns_in_half_precision(q: Tensor) -> bool:
    return torch.is_grad_enabled() and q.dtype == torch.bfloat16


def formula(q: Tensor, k: Tensor, v: Tensor, spec: Spec) -> Tensor:
    """Compute ``softmax(QK^T / sqrt(H) + mask) V`` as it is taught, and show each step to the tap."""
    return _by_runs(_formula, q, k, v, spec)


def fused(q: Tensor, k: Tensor, v: Tensor, spec: Spec) -> Tensor:
    """Call torch's fused attention for the sequences of each shape."""
    return _by_runs(_fused, q, k, v, spec)


def varlen(q: Tensor, k: Tensor, v: Tensor, spec: Spec) -> Tensor:
    """Call FlashAttention once for all sequences, whatever their lengths."""
    from torch.nn.attention.varlen import varlen_attn  # a second's import, which only a GPU needs

    assert not spec.is_causal or spec.layout == spec.memory_layout, "causal attention is to the same tokens"
    queries, keys, values = (x.view(len(x), spec.num_heads, -1) for x in (q, k, v))  # (T or S, N, H)
    context = varlen_attn(
        queries,
        keys,
        values,
        _borders(spec.layout.lengths, q.device),
        _borders(spec.memory_layout.lengths, q.device),
        spec.layout.max_length,
        spec.memory_layout.max_length,
        window_size=(-1, 0) if spec.is_causal else (-1, -1),
    )
    assert isinstance(context, Tensor)
    return context.flatten(1)


def in_place(q: Tensor, k: Tensor, v: Tensor, spec: Spec) -> Tensor:
    """Call torch's fused attention without gradients; overwrites ``q`` unless all sequences fit one call.

    The rows of the last sequences were computed last and are still in the cache, so these come first. Once
    their queries have been used, the result goes in their place.
    """
    for x in (q, k, v):
        assert (x.is_contiguous(), x.storage_offset()) == (True, 0), "expected all of a product's result"
    lengths, memory_lengths = spec.layout.lengths, spec.memory_layout.lengths
    num_rows = (sum(lengths), sum(memory_lengths), sum(memory_lengths))
    assert (len(q), len(k), len(v)) == num_rows, "expected a row for each token of the layouts"
    fills_up = not spec.is_causal and q.is_cpu and q.dtype == torch.float32
    multiple_of = simd_width() if fills_up else 1
    portions = _portions(lengths, memory_lengths, spec.num_heads, q.size(1), multiple_of)
    for queries_at, keys_at, mask, num_missing in portions:
        queries = q.as_strided(*queries_at)
        keys, values = (_with_rows_behind(x, keys_at, num_missing) for x in (k, v))
        context = F.scaled_dot_product_attention(queries, keys, values, mask, is_causal=spec.is_causal)
        if len(portions) == 1:
            return context.transpose(1, 2).reshape(q.shape)
        queries.copy_(context)
    return q


def cached(q: Tensor, pasts: Sequence[Past], num_heads: int) -> Tensor:
    """Attend to keys and values that were computed before.

    Args:
        q: Queries that look at the first of the ``pasts``, then those that look at the second, and so on.
    """
    contexts = []
    for past, queries in zip(pasts, q.split([past.num_queries for past in pasts]), strict=True):
        heads = _heads(queries, len(past.keys), num_heads)  # (B, N, W, H)
        context = F.scaled_dot_product_attention(heads, past.keys, past.values, attn_mask=past.mask)
        contexts.append(context.transpose(1, 2).reshape(queries.shape))
    return _joined(contexts)


def can_take_varlen(q: Tensor, num_heads: int) -> bool:
    """Return whether FlashAttention knows the device, the precision and the head size of ``q``, (T, D)."""
    if not q.is_cuda or q.dtype not in (torch.float16, torch.bfloat16):
        return False
    head_size = q.size(1) // num_heads
    has_flash = torch.cuda.get_device_capability(q.device) >= _FIRST_FLASH_GPU
    return has_flash and head_size % 8 == 0 and head_size <= _LARGEST_FLASH_HEAD


def _by_runs(attend: Kernel, q: Tensor, k: Tensor, v: Tensor, spec: Spec) -> Tensor:
    """Attend run by run: sequences of one shape form a dense batch, so nothing is padded.

    Args:
        attend: Maps heads, (B, N, Q or K, H) each, to (B, N, Q, H).
    """
    runs = spec.layout.runs(spec.memory_layout)
    sizes = [run.num_sequences * run.length for run in runs]
    memory_sizes = [run.num_sequences * run.memory_length for run in runs]
    contexts = []
    parts = zip(runs, q.split(sizes), k.split(memory_sizes), v.split(memory_sizes), strict=True)
    for index, (run, q_run, k_run, v_run) in enumerate(parts):
        queries, keys, values = (_heads(x, run.num_sequences, spec.num_heads) for x in (q_run, k_run, v_run))
        # A single run gets the plain names; several are numbered.
        tap = spec.tap.within(f"run{index}") if spec.tap and len(runs) > 1 else spec.tap
        context = attend(queries, keys, values, spec._replace(tap=tap))  # (B, N, Q, H)
        contexts.append(context.transpose(1, 2).reshape(q_run.shape))
    return _joined(contexts)  # (T, D)


def _formula(q: Tensor, k: Tensor, v: Tensor, spec: Spec) -> Tensor:
    tap = spec.tap
    raw = q @ k.transpose(-2, -1)  # (B, N, Q, K)
    raw = tap("raw", raw) if tap else raw
    scores = raw / math.sqrt(q.size(-1))
    scores = tap("scores", scores) if tap else scores
    if spec.is_causal:
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~visible, -math.inf)
        scores = tap("masked", scores) if tap else scores
    probs = scores.softmax(dim=-1)
    probs = tap("probs", probs) if tap else probs
    return dropout(probs, spec.dropout, is_training=True) @ v


def _fused(q: Tensor, k: Tensor, v: Tensor, spec: Spec) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, dropout_p=spec.dropout, is_causal=spec.is_causal)


def _heads(x: Tensor, num_sequences: int, num_heads: int) -> Tensor:
    """View (B * length, D) as (B, N, length, H)."""
    return x.view(num_sequences, -1, num_heads, x.size(-1) // num_heads).transpose(1, 2)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


@lru_cache(maxsize=64)  # every block asks for those of its batch
@torch.inference_mode(False)  # they may meet autograd later
def _borders(lengths: tuple[int, ...], device: torch.device) -> Tensor:
    """Return where each sequence begins, and where the last one ends, (B + 1,)."""
    return F.pad(torch.tensor(lengths).cumsum(0), (1, 0)).to(device, torch.int32)


class _Heads(NamedTuple):
    """Where sequences of one length lie in packed tokens, and how to view them as (B, N, length, H)."""

    size: tuple[int, int, int, int]
    stride: tuple[int, int, int, int]
    offset: int


class _Portion(NamedTuple):
    """Sequences of one shape, which torch attends to at once."""

    queries: _Heads
    keys: _Heads
    mask: Tensor | None
    """Added to the scores, (1, 1, 1, K)."""
    num_missing: int
    """Rows that the keys need behind the last sequence of the batch."""


def _with_rows_behind(x: Tensor, heads: _Heads, num_missing: int) -> Tensor:
    """Return the heads of ``x``, (S, D); of a copy with rows of zeros behind it, where some are missing."""
    if not num_missing:
        return x.as_strided(*heads)
    rows = F.pad(x[heads.offset // x.size(1) :], (0, 0, 0, num_missing))
    return rows.as_strided(heads.size, heads.stride)


@lru_cache(maxsize=64)  # every block asks for those of its batch
def _portions(
    lengths: tuple[int, ...], memory_lengths: tuple[int, ...], num_heads: int, width: int, multiple_of: int
) -> tuple[_Portion, ...]:
    """Return all sequences of a batch, the last ones first.

    Args:
        multiple_of: Round the number of keys up to a multiple of this by reading into the next sequence,
            masked, so nothing is copied except the last sequences, which have too few rows behind them. The
            number of keys then depends on a sequence's length alone, and so does the order in which they are
            added up. Numbers are taken to be finite: a mask does not hide NaN.
    """

    def heads(first: int, number: int, length: int, num_seen: int) -> _Heads:
        head_size = width // num_heads
        stride = (length * width, head_size, width, 1)
        return _Heads((number, num_heads, num_seen, head_size), stride, first * width)

    portions = []
    first_query, first_key, num_rows_behind = 0, 0, sum(memory_lengths)
    for run in Layout(lengths).runs(Layout(memory_lengths)):
        length = run.memory_length
        num_rows_behind -= run.num_sequences * length
        filled_length = _filled(length, multiple_of)
        num_rows_missing = max(0, filled_length - length - num_rows_behind)
        num_filled = max(0, run.num_sequences - -(-num_rows_missing // length))
        mask = _mask_behind(length, filled_length)
        for number, num_missing in ((num_filled, 0), (run.num_sequences - num_filled, num_rows_missing)):
            if number:
                queries = heads(first_query, number, run.length, run.length)
                keys = heads(first_key, number, length, filled_length)
                portions.append(_Portion(queries, keys, mask, num_missing))
            first_query += number * run.length
            first_key += number * length
    return tuple(reversed(portions))


def _filled(length: int, multiple_of: int) -> int:
    """Return the length in whole vectors, if it pays to fill up the last one."""
    return in_whole_vectors(length, multiple_of) if length < _LONGEST_FILLED_UP else length


def in_whole_vectors(length: int, multiple_of: int | None = None) -> int:
    """Return ``length`` rounded up to what the CPU computes at once."""
    multiple_of = multiple_of or simd_width()
    return -(-length // multiple_of) * multiple_of


def _mask_behind(length: int, num_seen: int) -> Tensor | None:
    """Return the mask that hides all but the first ``length`` keys when it is added to scores."""
    if num_seen == length:
        return None
    # It is kept for later calls, whatever torch's defaults are now.
    hidden = torch.full((num_seen,), -math.inf, dtype=torch.float32, device="cpu")
    hidden[:length] = 0.0
    return hidden.view(1, 1, 1, num_seen)
