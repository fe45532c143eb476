"""A linear-chain conditional random field: scores for pairs of neighbouring tags, besides each tag's own.

Legend: B sequences, T pieces of all of them, C tags. Index C of a transition is the border: before the first
piece and after the last.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassbert.model.layout import Layout

SCALE = 30.0
"""How many units of score one unit of weight is worth. An optimizer moves every weight by about its learning
rate a step, which suits the encoder's small weights; scores of transitions are of the size of logits."""
FORBIDDEN = -1e4
"""Score of a forbidden transition: lower than any legal path, and unlike -inf it has a gradient."""


@dataclass(frozen=True)
class Chains:
    """Runs of neighbouring pieces whose tags are judged together; longest first."""

    tags: Tensor
    """The right tag of each piece, (T,)."""
    layout: Layout
    has_start: Tensor
    """Whether a run begins where its text does, (B,); elsewhere any tag can be the first."""
    has_end: Tensor
    """Whether it ends where its text does, (B,)."""

    def __post_init__(self) -> None:
        assert list(self.layout.lengths) == sorted(self.layout.lengths, reverse=True)


class Crf(nn.Module):
    """Learned scores of all transitions between tags; they start at 0."""

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_tags + 1, num_tags + 1, dtype=torch.float32))

    def transitions(self) -> Tensor:
        """Return the score of each tag (column) when it follows another (row), (C + 1, C + 1)."""
        return SCALE * self.weight

    def forward(self, logits: Tensor, chains: Chains, legal: Tensor) -> Tensor:
        """Return the negative log-likelihood of the right tags, the sum over all chains.

        Args:
            logits: Of each tag at each piece, (T, C).
            legal: Which transitions are allowed, bool (C + 1, C + 1).
        """
        # Adding a constant to all tags of a piece changes no probability; small numbers lose fewer digits.
        emissions = logits.float().log_softmax(dim=-1)
        transitions = torch.where(legal, self.transitions(), FORBIDDEN)
        return log_partition(emissions, chains, transitions) - path_score(emissions, chains, transitions)


def log_partition(emissions: Tensor, chains: Chains, transitions: Tensor) -> Tensor:
    """Return the logarithm of the summed exponentials of all paths' scores, added up over the chains.

    All chains advance together, one piece at a time; those that have ended leave, so nothing is padded.
    """
    starts, border = chains.layout.starts.to(emissions.device), emissions.size(1)
    inner = transitions[:border, :border]
    # The borders of a run that is cut out of its text do not count.
    first = transitions[border, :border] * chains.has_start[:, None]  # (B, C)
    last = transitions[:border, border] * chains.has_end[:, None]
    lengths = chains.layout.lengths
    totals = first + emissions[starts]
    ended = []
    for piece in range(1, lengths[0]):
        num_running = sum(length > piece for length in lengths)
        ended.append(totals[num_running:])
        steps = totals[:num_running, :, None] + inner  # (running, tag before, next tag)
        totals = steps.logsumexp(dim=1) + emissions[starts[:num_running] + piece]
    ended.append(totals)
    # The shortest chains ended first: reversed, the order is that of the chains.
    return (torch.cat(ended[::-1]) + last).logsumexp(dim=-1).sum()


def path_score(emissions: Tensor, chains: Chains, transitions: Tensor) -> Tensor:
    """Return the scores of the right paths, added up over the chains."""
    tags, border = chains.tags, emissions.size(1)
    starts = chains.layout.starts.to(tags.device)
    is_first = torch.zeros_like(tags, dtype=torch.bool)
    is_first[starts] = True
    ends = starts + torch.tensor(chains.layout.lengths, device=tags.device) - 1
    before, after = tags[:-1][~is_first[1:]], tags[1:][~is_first[1:]]
    return (
        emissions.gather(1, tags[:, None]).sum()
        + transitions[before, after].sum()
        + (transitions[border, tags[starts]] * chains.has_start).sum()
        + (transitions[tags[ends], border] * chains.has_end).sum()
    )
