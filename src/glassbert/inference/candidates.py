"""How the next tokens are proposed: the best of all hypotheses, or one drawn by chance.

Legend: B sequences, W hypotheses of each, V vocabulary, C candidates of a sequence.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

# Rows of this many columns are searched for their best in two rounds; see `top`.
GROUP_SIZE = 32


@dataclass(frozen=True)
class Candidates:
    """Ways to go on, best first."""

    ids: Tensor
    """The token that each would write, (B, C)."""
    parents: Tensor
    """The hypothesis that each would continue, (B, C)."""
    scores: Tensor
    """The log-probability of the whole hypothesis with that token, (B, C)."""


def best(log_probs: Tensor, scores: Tensor, num_candidates: int) -> Candidates:
    """Propose the likeliest continuations.

    Args:
        log_probs: Of every token behind every hypothesis, (B, W, V).
        scores: Log-probabilities of the hypotheses so far, (B, W).
    """
    num_sequences, width, vocab_size = log_probs.shape
    values, ids = top(log_probs.flatten(0, 1), min(num_candidates, vocab_size))  # (B * W, C)
    num_each = ids.size(1)
    if width == 1:
        return Candidates(ids, torch.zeros_like(ids), values + scores)
    totals = (values.view(num_sequences, width, num_each) + scores[:, :, None]).flatten(1)
    chosen = totals.topk(min(num_candidates, totals.size(1)), dim=1)
    return Candidates(
        ids=ids.view(num_sequences, -1).gather(1, chosen.indices),
        parents=chosen.indices // num_each,
        scores=chosen.values,
    )


def drawn(
    log_probs: Tensor,
    scores: Tensor,
    chances: Tensor,
    *,
    temperature: float,
    top_k: int | None,
    top_p: float,
) -> Candidates:
    """Draw one continuation of the only hypothesis of each sequence.

    Args:
        log_probs: (B, 1, V).
        scores: (B, 1).
        chances: A number in [0, 1) for each sequence, (B,): where in the heap of probabilities to reach.
    """
    rows = log_probs[:, 0]
    values, ids = top(rows, min(top_k or rows.size(1), rows.size(1)))
    probs = (values / temperature).softmax(dim=1, dtype=torch.float64)
    heap = probs.cumsum(dim=1)
    # A token stays when those before it do not yet make up top_p, so the likeliest always stays.
    probs = probs.masked_fill(heap - probs >= top_p, 0.0)
    heap = probs.cumsum(dim=1)
    # A chance below 1 never rounds up to the whole heap, so it ends at a token that stays.
    places = torch.searchsorted(heap, (chances.to(heap) * heap[:, -1])[:, None], right=True)
    chosen = ids.gather(1, places)
    return Candidates(chosen, torch.zeros_like(chosen), scores + rows.gather(1, chosen))


def top(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` largest numbers of each row and their columns, both (rows, count), largest first.

    The columns fall into groups; the largest numbers lie in the groups with the largest maxima, and to take
    the maxima is much faster than to sort. It is ``topk``, twice as fast on a row as long as a vocabulary.
    """
    num_columns = rows.size(1)
    num_groups = num_columns // GROUP_SIZE
    if num_groups < 4 * count:
        values, columns = rows.topk(count, dim=1)
        return values, columns
    grouped = num_groups * GROUP_SIZE
    maxima = rows[:, :grouped].unflatten(1, (GROUP_SIZE, num_groups)).amax(dim=1)
    groups = maxima.topk(count, dim=1).indices  # (rows, count)
    members = torch.arange(0, grouped, num_groups, device=rows.device)
    ungrouped = torch.arange(grouped, num_columns, device=rows.device).expand(len(rows), -1)
    columns = torch.cat([(groups[:, :, None] + members).flatten(1), ungrouped], dim=1)
    values, places = rows.gather(1, columns).topk(count, dim=1)
    return values, columns.gather(1, places)
