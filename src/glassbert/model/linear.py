"""The one linear layer of all networks, with room for what a backend of inference can fuse into it."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassbert.model.dropout import dropout as apply_dropout
from glassbert.model.tap import Tap

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
}
# The same, in place.
IN_PLACE: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": torch.ops.aten.gelu_,
    "gelu_new": partial(torch.ops.aten.gelu_, approximate="tanh"),
    "relu": F.relu_,
    "silu": partial(F.silu, inplace=True),
    "tanh": torch.tanh_,
}


class Linear(nn.Linear):
    """``residual + dropout(activation(x W^T + b))``; every part but the product is optional."""

    def prepare(self, x: Tensor) -> Tensor:
        """Return ``x`` as layers that read the same input can share it: a backend may have another form."""
        return x

    def forward(
        self,
        x: Tensor,
        *,
        activation: str | None = None,
        dropout: float = 0.0,
        residual: Tensor | None = None,
    ) -> Tensor:
        """Map (T, inputs) to (T, outputs)."""
        y = F.linear(x, self.weight, self.bias)
        if not torch.is_grad_enabled() and not self.training:
            # No one else holds the product, so the rest can be computed in place.
            y = y if activation is None else IN_PLACE[activation](y)
            return y if residual is None else added(residual, y, in_place=True)
        if activation is not None:
            y = ACTIVATIONS[activation](y)
        y = apply_dropout(y, dropout, self.training)
        return y if residual is None else added(residual, y)


def added(residual: Tensor, y: Tensor, *, in_place: bool = False) -> Tensor:
    """Return the sum, in the precision of ``residual``.

    Args:
        in_place: ``y`` may be overwritten.
    """
    if y.dtype != residual.dtype:
        # Autocast makes products narrower than what they are added to. torch adds two precisions on the CPU
        # number by number, which takes nine times as long as converting one of them first.
        y, in_place = y.to(residual.dtype), True
    return y.add_(residual) if in_place else residual + y


def add_projection(
    residual: Tensor | None,
    linear: Linear,
    x: Tensor,
    *,
    dropout: float,
    tap: Tap | None = None,
    name: str = "proj",
) -> Tensor:
    """Return ``residual + dropout(linear(x))``, (T, outputs): how every sub-layer of a block ends.

    Args:
        name: What the tap calls the product before it is added.
    """
    if tap is None:
        return linear(x, dropout=dropout, residual=residual)
    product = apply_dropout(tap(name, linear(x)), dropout, linear.training)
    return product if residual is None else tap("sum", added(residual, product))
