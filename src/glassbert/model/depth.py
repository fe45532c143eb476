"""The layers of a network: how deep a parameter lies, and what training on a token costs."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor, nn

from glassbert.model.block import Block

FLOPS_PER_WEIGHT = 6.0
"""Operations of training for each weight and token: two in the forward pass, four in the backward pass."""


class Layered(Protocol):
    """A network that names its layers."""

    def layers(self) -> Sequence[nn.Module]:
        """Return the embeddings, then the blocks in the order of computation, without heads."""


def depth_of(network: Layered, parameter: Tensor) -> int:
    """Return how deep a parameter lies: 0 in the embeddings, then the blocks, then what is on top of them."""
    layers = network.layers()
    for depth, layer in enumerate(layers):
        if any(parameter is own for own in layer.parameters()):
            return depth
    return len(layers)


def num_weights(module: nn.Module) -> int:
    """Return how many numbers the matrices of a module hold."""
    return sum(p.numel() for p in module.parameters() if p.dim() > 1)


def flops_in_blocks(blocks: nn.ModuleList, length: float, share_read: float = 1.0) -> float:
    """Return the operations of training blocks on one token of a sequence of ``length``.

    Args:
        share_read: Part of the tokens that a head reads; of the others, the last block computes only keys
            and values.
    """
    last = blocks[-1]
    assert isinstance(last, Block)
    (width,) = last.mlp_norm.normalized_shape
    unread = num_weights(last) - 2 * width**2
    in_scores = 2 * length * width * (len(blocks) - (1 - share_read))
    return FLOPS_PER_WEIGHT * (num_weights(blocks) - (1 - share_read) * unread + in_scores)
