"""A token embedding of which only the rows that the training text reaches are trained.

A task's text uses a few thousand of the vocabulary's pieces. The other rows get no gradient anyway, yet a
dense gradient, its norm and AdamW would visit each of their numbers at every step.

Legend: V vocabulary, R rows that are reached, T tokens, D features.
"""

from collections.abc import Iterable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn


class PartlyTrainedEmbedding(nn.Module):
    """Looks ids up like `nn.Embedding`, from a small trained table and a large one that rests."""

    def __init__(self, table: Tensor, rows: Tensor) -> None:
        """Take the rows to be trained, ascending, out of ``table``, (V, D)."""
        super().__init__()
        self.num_embeddings, self.embedding_dim = table.shape
        self.weight = nn.Parameter(table.detach()[rows].clone())  # (R, D)
        # A parameter, not a buffer: processes that share the work would send a buffer around at every step.
        self.resting = nn.Parameter(table.detach().clone(), requires_grad=False)  # (V, D)
        places = torch.full((self.num_embeddings,), -1)
        places[rows] = torch.arange(len(rows))
        self.register_buffer("places", places, persistent=False)

    places: Tensor
    """Where in the trained table each row of the vocabulary lies, (V,); -1 for one that rests."""

    def forward(self, ids: Tensor) -> Tensor:
        """Return the rows of ``ids``, (T, D)."""
        places = self.places[ids]
        if self.training:
            return F.embedding(places, self.weight)
        found = F.embedding(places.clamp_min(0), self.weight)
        return torch.where((places >= 0)[:, None], found, F.embedding(ids, self.resting))


def used_rows(ids: Iterable[NDArray[np.int32]], vocab_size: int) -> Tensor:
    """Return which rows of a vocabulary some lists of ids use, ascending, (R,)."""
    is_reached = np.zeros(vocab_size, dtype=np.bool_)
    for one in ids:
        is_reached[one] = True
    return torch.from_numpy(np.flatnonzero(is_reached))


def whole_table(weight: Tensor, resting: Tensor, rows: Tensor) -> Tensor:
    """Return the table with the trained rows, (R, D), back in their places, (V, D)."""
    table = resting.clone()
    table[rows] = weight
    return table
