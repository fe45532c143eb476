"""oneDNN on the CPU: weights laid out once for its product, with bias, activation and residual inside it."""

from collections.abc import Callable
from functools import cache
from time import perf_counter

import torch
from torch import Tensor, nn

from glassbert.model.init import allocate, initialise_evenly
from glassbert.model.linear import IN_PLACE, Linear

# oneDNN lays weights out for an expected number of rows; any other number works too.
EXPECTED_ROWS = 2048
# A layer that is timed with both kinds of product: large enough to show a difference, small enough to take
# milliseconds.
_TIMED_ROWS, _TIMED_INPUTS, _TIMED_OUTPUTS, _TIMED_ROUNDS = 256, 384, 768, 5
# A difference below this is noise, which must not decide.
_CLEARLY_FASTER = 0.95
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

    def prepare(self, x: Tensor) -> Tensor:
        """Return ``x`` itself, which layers can share."""
        return x

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
    """Return whether oneDNN is there and beats torch's own float32 layers on this machine.

    With few rows it always does. With many, it depends on the processor, and is measured.
    """
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    return not has_long_batches or not plain_is_faster()


@cache
@torch.inference_mode()
def plain_is_faster() -> bool:
    """Return whether torch's own layer clearly takes less time here; measured once, in some milliseconds."""
    generator = torch.Generator().manual_seed(0)
    plain = Linear(_TIMED_INPUTS, _TIMED_OUTPUTS, device="meta").eval()
    allocate(plain)
    initialise_evenly(plain, generator)
    x = torch.randn(_TIMED_ROWS, _TIMED_INPUTS, generator=generator)
    layers: tuple[Callable[..., Tensor], ...] = (plain, OneDnnLinear(plain))
    times: list[list[float]] = [[], []]
    for _ in range(1 + _TIMED_ROUNDS):  # in turns, so that other load on the machine affects both
        for layer, seconds in zip(layers, times, strict=True):
            start = perf_counter()
            layer(x, activation="gelu")
            seconds.append(perf_counter() - start)
    own, packed = (min(seconds) for seconds in times)
    return own < _CLEARLY_FASTER * packed
