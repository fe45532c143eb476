"""AdamW or Muon with decay groups and layer-wise rates, and the running average of the weights."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from glassbert.training.muon import Muon
from glassbert.training.settings import TrainSettings


def make_optimizer(
    module: nn.Module, depth_of: Callable[[str], int], settings: TrainSettings
) -> torch.optim.AdamW:
    """Return the optimiser of the module's parameters; vectors (biases, LayerNorm) do not decay."""
    named = [(depth_of(name), p) for name, p in module.named_parameters() if p.requires_grad]
    top = max(depth for depth, _ in named)
    kinds: dict[tuple[int, bool, bool], list[Tensor]] = {}
    for depth, parameter in named:
        is_matrix = parameter.dim() > 1
        is_in_block = 0 < depth < top
        kind = (depth if settings.layer_decay < 1 else top, is_matrix, is_matrix and is_in_block)
        kinds.setdefault(kind, []).append(parameter)
    groups = [
        {
            "params": parameters,
            "weight_decay": settings.weight_decay if is_matrix else 0.0,
            "rate_scale": settings.layer_decay ** (top - depth),
            "is_orthogonal": is_block_matrix,
        }
        for (depth, is_matrix, is_block_matrix), parameters in kinds.items()
    ]
    kind_of_optimizer = Muon if settings.optimizer == "muon" else torch.optim.AdamW
    return kind_of_optimizer(
        groups,
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=True,
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group ``rate``, scaled by its depth."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rate_scale"]


class Average:
    """A running average of the weights, which can be swapped with them."""

    def __init__(self, parameters: Iterable[nn.Parameter], decay: float) -> None:
        self.parameters: list[Tensor] = list(parameters)
        self.decay = decay
        self.values = [parameter.detach().clone() for parameter in self.parameters]

    @torch.no_grad()
    def update(self) -> None:
        """Move the average towards the weights."""
        torch._foreach_lerp_(self.values, self.parameters, 1.0 - self.decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the weights and their average; a second call undoes the first."""
        for parameter, value in zip(self.parameters, self.values, strict=True):
            held = parameter.detach().clone()
            parameter.copy_(value)
            value.copy_(held)
