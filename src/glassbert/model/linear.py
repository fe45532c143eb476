"""The one linear layer of all networks, with room for what an inference engine can fuse into it."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from glassbert.model.dropout import dropout as apply_dropout


def gelu_tanh(x: Tensor) -> Tensor:
    """Return the tanh approximation of GELU."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": gelu_tanh,
    "relu": F.relu,
    "silu": F.silu,
}


class Linear(nn.Linear):
    """``residual + dropout(activation(x W^T + b))``; every part but the product is optional."""

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
        if activation is not None:
            y = ACTIVATIONS[activation](y)
        y = apply_dropout(y, dropout, self.training)
        return y if residual is None else residual + y
