"""A copy of a network to run, change and differentiate, while the model itself stays as it is."""

import copy
from typing import TypeVar

import torch
from torch import nn

Network = TypeVar("Network", bound=nn.Module)


def twin(network: Network, device: torch.device, dtype: torch.dtype, *, grad: bool = False) -> Network:
    """Return a network whose weights share their memory with ``network`` where possible.

    A backward pass through the model itself would leave gradients in it, and mix with those of other threads.

    Args:
        grad: Whether the copy's weights take gradients, which are its own.
    """
    copies = {
        id(old): nn.Parameter(old.detach().to(device, dtype), requires_grad=grad)
        for old in network.parameters()
    }
    return copy.deepcopy(network, memo=dict(copies)).eval()
