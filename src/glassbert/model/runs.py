"""Packed tokens as attention computes them: sequences of one shape form a dense batch, heads apart.

Legend: T query tokens, S memory tokens, D hidden size, N heads, H head size (D / N);
within one run of equal shapes: B sequences, Q query length, K memory length.
"""

from collections.abc import Iterator

from torch import Tensor

from glassbert.model.layout import Run


def heads_of_runs(
    q: Tensor, k: Tensor, v: Tensor, runs: list[Run], num_heads: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield the queries, (B, N, Q, H), keys and values, (B, N, K, H) each, of one run after the other."""
    sizes = [run.num_sequences * run.length for run in runs]
    memory_sizes = [run.num_sequences * run.memory_length for run in runs]
    parts = zip(runs, q.split(sizes), k.split(memory_sizes), v.split(memory_sizes), strict=True)
    for run, *sides in parts:
        queries, keys, values = (split_heads(side, run.num_sequences, num_heads) for side in sides)
        yield queries, keys, values


def split_heads(x: Tensor, num_sequences: int, num_heads: int) -> Tensor:
    """View (B * length, D) as (B, N, length, H)."""
    return x.view(num_sequences, -1, num_heads, x.size(-1) // num_heads).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """Return (B, N, length, H) as (B * length, D)."""
    return x.transpose(1, 2).reshape(-1, x.size(1) * x.size(3))
