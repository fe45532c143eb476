"""Attention over packed tokens without gradients: in place, and in whole vectors where that is faster.

Legend: T query tokens, S memory tokens, D hidden size, N heads, H head size (D / N);
within one run of equal shapes: B sequences, Q query length, K memory length.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from glassbert.model.cpu import simd_width
from glassbert.model.layout import Layout

# A row of scores that fills whole vectors takes less time than one with a few numbers left over, half of it
# with AVX512; the longer the row, the less it matters.
_LONGEST_FILLED_UP = 256


class _Heads(NamedTuple):
    """Where sequences of one length lie in packed tokens, and how to see them as (B, N, length, H)."""

    size: tuple[int, int, int, int]
    stride: tuple[int, int, int, int]
    offset: int


class _Portion(NamedTuple):
    """Sequences of one shape, which torch attends to at once."""

    queries: _Heads
    keys: _Heads
    mask: Tensor | None
    """Added to the scores, (1, 1, 1, K)."""


def attend_in_place(
    q: Tensor, k: Tensor, v: Tensor, layout: Layout, memory_layout: Layout, *, num_heads: int, is_causal: bool
) -> Tensor:
    """Return what each query of ``q``, (T, D), finds in ``k`` and ``v``, (S, D); may overwrite ``q``.

    The rows of the last sequences were computed last and are still in the cache, so these come first. When
    their queries have been used, no place is better for the result.
    """
    for x in (q, k, v):
        assert (x.is_contiguous(), x.storage_offset()) == (True, 0), "expected all of a product's result"
    num_rows = (layout.num_tokens, memory_layout.num_tokens, memory_layout.num_tokens)
    assert (len(q), len(k), len(v)) == num_rows, "expected a row for each token of the layouts"
    fills_up = not is_causal and q.is_cpu and q.dtype == torch.float32
    multiple_of = simd_width() if fills_up else 1
    portions = _portions(layout.lengths, memory_layout.lengths, num_heads, q.size(1), multiple_of)
    for queries_at, keys_at, mask in portions:
        queries, keys, values = q.as_strided(*queries_at), k.as_strided(*keys_at), v.as_strided(*keys_at)
        context = F.scaled_dot_product_attention(queries, keys, values, mask, is_causal=is_causal)
        if len(portions) == 1:
            return context.transpose(1, 2).reshape(q.shape)
        queries.copy_(context)
    return q


@lru_cache(maxsize=64)  # every block asks for those of its batch
def _portions(
    lengths: tuple[int, ...], memory_lengths: tuple[int, ...], num_heads: int, width: int, multiple_of: int
) -> tuple[_Portion, ...]:
    """Return all sequences of a batch, the last ones first.

    Args:
        multiple_of: Let so many keys or a multiple be looked at: the rows behind a sequence too, but masked.
            They are those of the next sequence, so nothing is copied. The last sequences have too few behind
            them and stay as they are. Numbers are taken to be finite: a mask does not hide NaN.
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
        for number, num_seen in ((num_filled, filled_length), (run.num_sequences - num_filled, length)):
            if number:
                queries = heads(first_query, number, run.length, run.length)
                keys = heads(first_key, number, length, num_seen)
                portions.append(_Portion(queries, keys, _mask_behind(length, num_seen)))
            first_query += number * run.length
            first_key += number * length
    return tuple(reversed(portions))


def _filled(length: int, multiple_of: int) -> int:
    """Return the length in whole vectors, if it pays to fill up the last one."""
    return -(-length // multiple_of) * multiple_of if length < _LONGEST_FILLED_UP else length


def _mask_behind(length: int, num_seen: int) -> Tensor | None:
    """Return what hides all but the first ``length`` tokens when it is added to scores."""
    if num_seen == length:
        return None
    # It is kept for later calls, whatever torch's defaults are now.
    hidden = torch.full((num_seen,), -math.inf, dtype=torch.float32, device="cpu")
    hidden[:length] = 0.0
    return hidden.view(1, 1, 1, num_seen)
