"""Linear layers laid out once for the CPU's matrix product, with bias, activation and residual inside it."""

import copy
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from glassbert.model.block import Block
from glassbert.model.cpu import simd_width
from glassbert.model.linear import IN_PLACE, Linear

Network = TypeVar("Network", bound=nn.Module)

# oneDNN lays weights out for an expected number of rows; any other number works too.
EXPECTED_ROWS = 2048
_FLOATS_FOR_LONG_BATCHES = 16
# Activation -> (name, algorithm) of torch's oneDNN operator.
_FUSED_ACTIVATIONS = {
    None: ("none", ""),
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "relu": ("relu", ""),
}


class FusedLinear(nn.Module):
    """A `Linear` for inference only: the same function in fewer passes over memory."""

    def __init__(self, linear: Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, EXPECTED_ROWS)
        self.bias = None if linear.bias is None else linear.bias.detach()

    def forward(
        self,
        x: Tensor,
        *,
        activation: str | None = None,
        dropout: float = 0.0,
        residual: Tensor | None = None,
    ) -> Tensor:
        """Map (T, inputs) to (T, outputs); ``dropout`` is for training and ignored here."""
        operator = torch.ops.mkldnn._linear_pointwise
        if residual is not None and activation is None:
            return operator.binary(x, residual, self.weight, self.bias, "add")
        name, algorithm = _FUSED_ACTIVATIONS.get(activation, ("none", ""))
        y = operator(x, self.weight, self.bias, name, [], algorithm)
        if activation not in _FUSED_ACTIVATIONS:
            y = IN_PLACE[activation or ""](y)
        return y if residual is None else y.add_(residual)


def can_fuse(network: nn.Module) -> bool:
    """Whether this torch and the network's place and precision allow fused layers."""
    parameter = next(network.parameters())
    return torch.backends.mkldnn.is_available() and parameter.is_cpu and parameter.dtype == torch.float32


def fused(network: Network, *, has_long_batches: bool, also: Sequence[str] = ()) -> Network:
    """Return a copy of ``network`` for inference, with fused layers in its blocks where that pays.

    It shares all other weights with ``network``, which must not be trained on.

    Args:
        has_long_batches: Whether products will have thousands of rows, not one for each of some hypotheses.
            Without AVX512, plain layers are the faster ones then: MKL's products are up to a fifth faster
            than oneDNN's, and torch's GELU takes half the time of oneDNN's or less.
        also: Names of linear layers outside of blocks that shall be fused as well.
    """
    shared = {id(parameter): parameter for parameter in network.parameters()}
    twin = copy.deepcopy(network, memo=shared).eval()
    if not can_fuse(network) or (has_long_batches and simd_width() < _FLOATS_FOR_LONG_BATCHES):
        return twin
    parents = [part for block in twin.modules() if isinstance(block, Block) for part in block.modules()]
    for parent in parents:
        for name, child in list(parent.named_children()):
            if isinstance(child, Linear):
                setattr(parent, name, FusedLinear(child))
    for name in also:
        setattr(twin, name, FusedLinear(getattr(twin, name)))
    return twin
