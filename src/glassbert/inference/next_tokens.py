"""Candidates for the next tokens: the likeliest of all hypotheses, or one at random.

Legend: B sequences, W hypotheses of each, V vocabulary, C candidates of a sequence.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

GROUP_SIZE = 32
"""Columns of a group; see `top`."""
BLOCK_NUMBERS = 2**19
"""Logits that are searched at once, so that intermediate results stay in the cache."""


@dataclass(frozen=True)
class Candidates:
    """Continuations of the hypotheses of each sequence, best first."""

    ids: Tensor
    """The token that each would write, (B, C)."""
    parents: Tensor
    """The hypothesis that each would continue, (B, C)."""
    scores: Tensor
    """The log-probability of the whole hypothesis with that token, (B, C)."""


def likeliest(logits: Tensor, scores: Tensor, num_candidates: int) -> Candidates:
    """Propose the likeliest continuations.

    Args:
        logits: Of every token behind every hypothesis, (B, W, V).
        scores: Log-probabilities of the hypotheses so far, (B, W).
    """
    _, width, vocab_size = logits.shape
    num_together = max(1, BLOCK_NUMBERS // (width * vocab_size))
    blocks = zip(logits.split(num_together), scores.split(num_together), strict=True)
    found = [top(block.log_softmax(dim=-1), start, num_candidates) for block, start in blocks]
    values, places = (torch.cat(parts) for parts in zip(*found, strict=True))
    return Candidates(places % vocab_size, places // vocab_size, values)


def sampled(
    logits: Tensor,
    scores: Tensor,
    chances: Tensor,
    *,
    temperature: float,
    top_k: int | None,
    top_p: float,
) -> Candidates:
    """Draw one continuation of the only hypothesis of each sequence.

    Args:
        logits: (B, 1, V).
        scores: (B, 1).
        chances: A random number in [0, 1) for each sequence, (B,).
    """
    log_probs = logits.log_softmax(dim=-1)
    values, ids = top(log_probs, torch.zeros_like(scores), top_k or log_probs.size(2))
    probs = (values / temperature).softmax(dim=1, dtype=torch.float64)
    total = probs.cumsum(dim=1)
    # A token stays if those before it do not yet reach top_p, so the likeliest always stays.
    probs = probs.masked_fill(total - probs >= top_p, 0.0)
    total = probs.cumsum(dim=1)
    # A number below 1 never rounds up to the whole total, so a token that stays is found.
    places = torch.searchsorted(total, (chances.to(total) * total[:, -1])[:, None], right=True)
    chosen = ids.gather(1, places)
    return Candidates(chosen, torch.zeros_like(chosen), scores + log_probs[:, 0].gather(1, chosen))


def top(log_probs: Tensor, scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` largest sums of each sequence, largest first, and their places, (B, count) each.

    The columns of a row fall into groups; the largest numbers lie in the groups with the largest maxima, and
    to take the maxima is much faster than to sort. All hypotheses of a sequence are searched together.

    Args:
        log_probs: (B, W, V).
        scores: What to add to each row, (B, W).
        count: At most this many are returned; fewer if a sequence has fewer.
    """
    num_sequences, width, vocab_size = log_probs.shape
    num_groups, device = vocab_size // GROUP_SIZE, log_probs.device
    if width * num_groups < 4 * count:
        totals = (log_probs + scores[:, :, None]).flatten(1)
        values, places = totals.topk(min(count, totals.size(1)), dim=1)
        return values, places
    grouped = num_groups * GROUP_SIZE
    maxima = log_probs[:, :, :grouped].unflatten(2, (GROUP_SIZE, num_groups)).amax(dim=2)
    groups = (maxima + scores[:, :, None]).flatten(1).topk(count, dim=1).indices
    firsts = groups // num_groups * vocab_size + groups % num_groups  # (B, count)
    members = firsts[:, :, None] + torch.arange(0, grouped, num_groups, device=device)
    rows = torch.arange(width, device=device)[:, None] * vocab_size
    ungrouped = (rows + torch.arange(grouped, vocab_size, device=device)).flatten()
    places = torch.cat([members.flatten(1), ungrouped.expand(num_sequences, -1)], dim=1)
    totals = log_probs.flatten(1).gather(1, places) + scores.gather(1, places // vocab_size)
    values, order = totals.topk(count, dim=1)
    return values, places.gather(1, order)
