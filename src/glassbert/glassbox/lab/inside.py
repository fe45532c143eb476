"""The numbers inside a model for one text, by the names of the taps."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from glassbert.errors import UserError
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.model.bert import Bert
from glassbert.model.block import Block
from glassbert.model.layout import Batch
from glassbert.model.tap import Tap


@dataclass(frozen=True)
class Inside:
    """A pass of a text through a model."""

    network: Bert
    pieces: tuple[str, ...]
    values: dict[str, Tensor]
    """Each intermediate by its name, such as `enc.0.attn.q`."""

    def block(self, layer: int) -> Block:
        """Return a block by its number from 0."""
        num_blocks = len(self.network.encoder.blocks)
        if not 0 <= layer < num_blocks:
            raise UserError(f"layer={layer}; the model has blocks 0 to {num_blocks - 1}")
        return cast(Block, self.network.encoder.blocks[layer])

    def head_of(self, name: str, head: int) -> Tensor:
        """Return one head's part of q, k or v, (T, H)."""
        num_heads = self.network.config.encoder.num_attention_heads
        if not 0 <= head < num_heads:
            raise UserError(f"head={head}; the model has heads 0 to {num_heads - 1}")
        return self.values[name].unflatten(1, (num_heads, -1))[:, head]

    def check_token(self, name: str, place: int) -> None:
        """Refuse the place of a token that the text does not have."""
        if not 0 <= place < len(self.pieces):
            raise UserError(
                f"{name}={place}; the text has tokens 0 to {len(self.pieces) - 1}: {' '.join(self.pieces)}"
            )


def look_inside(model: str, text: str) -> Inside:
    """Run a text through an encoder in float64 and keep every intermediate."""
    loaded = load(model, Model, device="cpu")
    encoding = loaded.tokenize([text])[0]
    network = loaded.network.double().eval().requires_grad_(False)
    values: dict[str, Tensor] = {}
    batch = Batch.from_lists([encoding.ids], [encoding.segments])
    with torch.no_grad():
        network(batch, tap=Tap(lambda name, value: values.setdefault(name, value)))
    return Inside(network, tuple(encoding.pieces), values)
