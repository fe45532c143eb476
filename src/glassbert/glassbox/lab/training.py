"""How the small networks of the lab are trained."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import nn

from glassbert.progress import each
from glassbert.ranges import Range
from glassbert.training.step import train_step

TEST_SEED = 20_180_404
"""Every network is measured on the same sequences."""
LOSS: Mapping[str, float] = {"loss": 1.0}


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Size of the networks and of their training."""

    num_seeds: Annotated[int, Range(2, 100)] = 3
    """Networks that are trained for each row."""
    num_steps: Annotated[int, Range(1, 100_000)] = 100
    """Steps of training."""
    num_sequences: Annotated[int, Range(2, 4096)] = 32
    """Sequences, or pairs, of a step."""
    hidden_size: Annotated[int, Range(8, 1024)] = 32
    """Features of a token, a multiple of 8."""
    num_layers: Annotated[int, Range(1, 24)] = 1
    """Blocks."""
    learning_rate: Annotated[float, Range(0, 1)] = 0.01
    """Of AdamW, falling to 0."""


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Compute on one thread: products this small cost less than handing them to a second one."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


@on_one_thread()
def train(
    network: nn.Module,
    settings: TrainingSettings,
    draw: Callable[[int], Any],
    counts: Callable[[Any], Mapping[str, int]],
    loss_weights: Mapping[str, float] = LOSS,
) -> None:
    """Train on a fresh batch in every step, with a rate that falls to 0.

    Args:
        draw: Returns the batch of a step.
        counts: Returns what each sum that the network gives for a batch is divided by.
    """
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=settings.learning_rate, weight_decay=0.0, fused=True
    )
    for step in each(range(settings.num_steps)):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * (1 - step / settings.num_steps)
        batch = draw(step)
        train_step(network, [batch], counts(batch), loss_weights, optimizer, max_grad_norm=1.0)


def num_parameters(network: nn.Module) -> int:
    """Return how many numbers training can change."""
    return sum(parameter.numel() for parameter in network.parameters())
