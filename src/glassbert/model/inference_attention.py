"""Attention over packed tokens without gradients: in place, and in whole vectors where that is faster.

Legend: T query tokens, S memory tokens, D hidden size, N heads, H head size (D / N);
within one run of equal shapes: B sequences, Q query length, K memory length.
"""

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from glassbert.model.layout import Run
from glassbert.model.runs import heads_of_runs, join_heads

# With AVX512 a row of scores that fills whole vectors takes half the time of one with a few numbers left
# over; the longer the row, the less it matters.
_VECTOR, _LONGEST_FILLED_UP = 16, 256


class _Piece(NamedTuple):
    """Sequences of one shape, as torch attends to them."""

    queries: Tensor
    """(B, N, Q, H)"""
    keys: Tensor
    """(B, N, K, H)"""
    values: Tensor
    """(B, N, K, H)"""
    mask: Tensor | None = None
    """Added to the scores, (1, 1, 1, K)."""


def attend_in_place(
    q: Tensor, k: Tensor, v: Tensor, runs: list[Run], num_heads: int, *, is_causal: bool
) -> Tensor:
    """Return what each query of ``q``, (T, D), finds in ``k`` and ``v``, (S, D); may overwrite ``q``.

    The rows of the last sequences were computed last and are still in the cache, so these come first. When
    their queries have been used, no place is better for the result.
    """
    pieces = list(_pieces(q, k, v, runs, num_heads, may_fill_up=not is_causal))
    for queries, keys, values, mask in reversed(pieces):
        context = F.scaled_dot_product_attention(queries, keys, values, mask, is_causal=is_causal)
        if len(pieces) == 1:
            return join_heads(context)
        queries.copy_(context)
    return q


def _pieces(
    q: Tensor, k: Tensor, v: Tensor, runs: list[Run], num_heads: int, *, may_fill_up: bool
) -> Iterator[_Piece]:
    num_rows_behind = len(k)
    for run, heads in zip(runs, heads_of_runs(q, k, v, runs, num_heads), strict=True):
        num_rows_behind -= run.num_sequences * run.memory_length
        piece = _Piece(*heads)
        if may_fill_up and _fill_up_pays(piece.keys):
            yield from _filled_up(piece, num_rows_behind)
        else:
            yield piece


def _fill_up_pays(keys: Tensor) -> bool:
    length = keys.size(2)
    is_short = length % _VECTOR != 0 and length < _LONGEST_FILLED_UP
    return is_short and keys.is_cpu and keys.dtype == torch.float32 and _has_avx512()


@cache
def _has_avx512() -> bool:
    return torch.backends.cpu.get_cpu_capability() == "AVX512"


def _filled_up(piece: _Piece, num_rows_behind: int) -> Iterator[_Piece]:
    """Yield the sequences with keys in whole vectors: the rows behind each are looked at too, but masked.

    They are those of the next sequence, so nothing is copied. The last sequences of a batch have too few
    behind them and stay as they are.
    """
    num_sequences, num_heads, length, head_size = piece.keys.shape
    filled_length = -(-length // _VECTOR) * _VECTOR
    num_rows_missing = max(0, filled_length - length - num_rows_behind)
    num_filled = max(0, num_sequences - -(-num_rows_missing // length))
    if num_filled:
        size = (num_filled, num_heads, filled_length, head_size)
        keys, values = (side.as_strided(size, side.stride()) for side in (piece.keys, piece.values))
        yield _Piece(piece.queries[:num_filled], keys, values, _mask_behind(length, filled_length))
    if num_filled < num_sequences:
        yield _Piece(*(side[num_filled:] for side in piece[:3]))


@cache
def _mask_behind(length: int, filled_length: int) -> Tensor:
    """Return what hides all but the first ``length`` tokens when it is added to scores."""
    is_behind = torch.arange(filled_length) >= length
    return torch.zeros(1, 1, 1, filled_length).masked_fill_(is_behind, -math.inf)
