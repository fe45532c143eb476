"""A token embedding that trains only the rows that the training text uses.

The text of a task uses a few thousand of the vocabulary's pieces. The other rows get no gradient anyway, but
a dense gradient, its norm and AdamW would still visit each of their numbers at every step.

Legend: V vocabulary, R rows that are used, T tokens, D features.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

TOKENS = "encoder.embeddings.token"


class PartlyTrainedEmbedding(nn.Module):
    """Look ids up like `nn.Embedding`, in a small trainable table backed by a large frozen one."""

    def __init__(self, table: Tensor, rows: Tensor) -> None:
        """Copy the rows to be trained, ascending, out of ``table``, (V, D)."""
        super().__init__()
        self.num_embeddings, self.embedding_dim = table.shape
        self.weight = nn.Parameter(table.detach()[rows].clone())  # (R, D)
        # A parameter, not a buffer: DDP would broadcast a buffer at every step.
        self.frozen = nn.Parameter(table.detach().clone(), requires_grad=False)  # (V, D)
        places = torch.full((self.num_embeddings,), -1)
        places[rows] = torch.arange(len(rows))
        self.register_buffer("places", places, persistent=False)

    places: Tensor
    """The place of each row of the vocabulary in the trained table, (V,); -1 for a frozen row."""

    def forward(self, ids: Tensor) -> Tensor:
        """Return the rows of ``ids``, (T, D)."""
        places = self.places[ids]
        if self.training:
            return F.embedding(places, self.weight)
        found = F.embedding(places.clamp_min(0), self.weight)
        return torch.where((places >= 0)[:, None], found, F.embedding(ids, self.frozen))


def used_rows(ids: Iterable[NDArray[np.int32]], vocab_size: int) -> Tensor:
    """Return the rows of a vocabulary that some lists of ids use, ascending, (R,)."""
    is_used = np.zeros(vocab_size, dtype=np.bool_)
    for one in ids:
        is_used[one] = True
    return torch.from_numpy(np.flatnonzero(is_used))


def whole_state(weights: Mapping[str, Tensor], rows: Tensor) -> dict[str, Tensor]:
    """Return the weights of a `Bert` from those of a module in which it is `bert` and trains some rows."""
    state = {
        name.removeprefix("bert."): tensor for name, tensor in weights.items() if name.startswith("bert.")
    }
    frozen = state.pop(f"{TOKENS}.frozen", None)
    if frozen is not None:
        state[f"{TOKENS}.weight"] = whole_table(state[f"{TOKENS}.weight"], frozen, rows)
    return state


def whole_table(weight: Tensor, frozen: Tensor, rows: Tensor) -> Tensor:
    """Return the whole table, (V, D), with the trained rows, (R, D), in their places."""
    table = frozen.clone()
    table[rows] = weight
    return table
