"""oneDNN on the CPU: weights laid out once for its product, with bias, activation and residual inside it."""

import torch
from torch import Tensor, nn

from glassbert.model.cpu import simd_width
from glassbert.model.linear import IN_PLACE, Linear

# oneDNN lays weights out for an expected number of rows; any other number works too.
EXPECTED_ROWS = 2048
# Without AVX512, torch's own layers are the faster ones for batches of thousands of rows: MKL's products are
# up to a fifth faster than oneDNN's, and torch's GELU takes half the time of oneDNN's or less.
_SIMD_WIDTH_FOR_LONG_BATCHES = 16
# Activation -> (name, algorithm) of torch's oneDNN operator.
_FUSED_ACTIVATIONS = {
    None: ("none", ""),
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "relu": ("relu", ""),
}


class OneDnnLinear(nn.Module):
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


def is_faster(device: torch.device, *, has_long_batches: bool) -> bool:
    """Return whether oneDNN is there and beats torch's own float32 layers on this machine."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    return not has_long_batches or simd_width() >= _SIMD_WIDTH_FOR_LONG_BATCHES
