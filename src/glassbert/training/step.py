"""One update: accumulate over parts, check, clip, step."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassbert.errors import RunFailed
from glassbert.model.sharded import full


@dataclass(frozen=True)
class StepResult:
    """Measurements of one update."""

    losses: dict[str, float]
    """Mean over the whole step of each loss and of whatever else the module counts."""
    grad_norm: float
    """Before clipping."""


def train_step(
    module: nn.Module,
    parts: Sequence[Any],
    counts: Mapping[str, int],
    loss_weights: Mapping[str, float],
    optimizer: torch.optim.Optimizer,
    *,
    max_grad_norm: float,
    sum_over_processes: Callable[[dict[str, float]], dict[str, float]] = dict,
    gradient_scale: float = 1.0,
    precision: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> StepResult:
    """Accumulate the gradient over ``parts`` and update once.

    Args:
        counts: What each loss is divided by: the targets of the whole step, over all processes. Otherwise
            parts with few targets would weigh more.
        gradient_scale: The number of processes, if gradients are averaged over them.
    """
    optimizer.zero_grad(set_to_none=True)
    totals: dict[str, float] = {}
    for index, part in enumerate(parts):
        with _without_sync(module, is_last=index == len(parts) - 1), _autocast(precision, device):
            sums: Mapping[str, Tensor] = module(part)
            loss = sum(loss_weights[name] * sums[name] / max(1, counts[name]) for name in loss_weights)
            assert isinstance(loss, Tensor)
            (loss * gradient_scale).backward()
        for name, value in sums.items():
            totals[name] = totals.get(name, 0.0) + value.item()
    limit = max_grad_norm or math.inf
    norms = [full(nn.utils.clip_grad_norm_(group, limit)).item() for group in _clipped_together(module)]
    grad_norm = norms[0] if len(norms) == 1 else math.hypot(*norms)
    # A loss without targets in this step has no mean: it is left out, not reported as zero.
    losses = {n: total / counts[n] for n, total in sum_over_processes(totals).items() if counts[n]}
    if not math.isfinite(grad_norm):
        raise RunFailed(_blame(module, losses))
    with _autocast(precision, device):  # the products of an optimizer that has some
        optimizer.step()
    return StepResult(losses, grad_norm)


def _clipped_together(module: nn.Module) -> list[list[nn.Parameter]]:
    """Return the weights in groups, each of which is clipped by itself; most networks are one group."""
    inner = getattr(module, "module", module)  # within DDP's wrapper
    prefixes: tuple[str, ...] = getattr(inner, "clipped_apart", ())
    if not prefixes:
        return [list(module.parameters())]
    groups: dict[str, list[nn.Parameter]] = {}
    for name, parameter in inner.named_parameters():
        group = next((prefix for prefix in prefixes if name.startswith(prefix)), "")
        groups.setdefault(group, []).append(parameter)
    return list(groups.values())


def _blame(module: nn.Module, losses: Mapping[str, float]) -> str:
    """Return what is not finite, for the error; the weights are still those from before the step."""
    bad_losses = [name for name, value in losses.items() if not math.isfinite(value)]
    for name, parameter in module.named_parameters():
        if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
            culprit = f"the gradient of {name} is not finite"
            break
    else:
        culprit = "the gradient norm is not finite"
    losses_note = f", nor is the loss {', '.join(bad_losses)}" if bad_losses else ""
    return f"{culprit}{losses_note}; nothing was updated"


def _without_sync(module: nn.Module, *, is_last: bool) -> AbstractContextManager[Any]:
    """Make processes exchange gradients only once per step, after the last part."""
    if is_last or not hasattr(module, "no_sync"):
        return nullcontext()
    return module.no_sync()  # type: ignore[operator]


def _autocast(precision: torch.dtype, device: torch.device | None) -> AbstractContextManager[Any]:
    if precision == torch.float32 or device is None:
        return nullcontext()
    return torch.autocast(device.type, dtype=precision)
