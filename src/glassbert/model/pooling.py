"""Pooling: one vector of a text from the vectors of its tokens.

Legend: B sequences, T tokens, D hidden size.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from glassbert.model.layout import Layout

PoolingMode = Literal["mean", "cls", "max", "mean_sqrt_len_tokens", "lasttoken", "weightedmean"]


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """How a text's vector is made of its tokens' vectors."""

    modes: tuple[PoolingMode, ...] = ("mean",)
    """Vectors of several modes are concatenated."""
    should_normalise: bool = False
    """Scale each vector to length 1."""

    def __call__(self, hidden: Tensor, layout: Layout) -> Tensor:
        """Pool (T, D) to (B, D x number of modes)."""
        pooled = torch.cat([_pool(mode, hidden, layout) for mode in self.modes], dim=1)
        return F.normalize(pooled, dim=1) if self.should_normalise else pooled

    def __str__(self) -> str:
        return " + ".join(self.modes) + (", normalised" if self.should_normalise else ", not normalised")


def _pool(mode: PoolingMode, hidden: Tensor, layout: Layout) -> Tensor:
    lengths = torch.tensor(layout.lengths, dtype=hidden.dtype, device=hidden.device)[:, None]
    starts = layout.starts.to(hidden.device)
    if mode == "cls":
        return hidden[starts]
    if mode == "lasttoken":
        return hidden[starts + lengths[:, 0].long() - 1]
    if mode == "max":
        return torch.stack([sequence.amax(dim=0) for sequence in layout.split(hidden)])
    if mode == "weightedmean":
        weights = layout.positions.to(hidden.device)[:, None] + 1.0
        return _sums(hidden * weights, layout) / (lengths * (lengths + 1) / 2)
    return _sums(hidden, layout) / (lengths if mode == "mean" else lengths.sqrt())


def _sums(values: Tensor, layout: Layout) -> Tensor:
    """Add up each sequence's rows, (B, D); the order of addition does not depend on the batch."""
    return torch.stack([sequence.sum(dim=0) for sequence in layout.split(values)])
