"""Tensors that several processes hold in parts.

They exist only where processes have joined, and only there is torch's part for them imported: that takes a
second.
"""

import torch.distributed as dist
from torch import Tensor


def full(tensor: Tensor) -> Tensor:
    """Return the whole of a tensor that may be sharded; every process must call this."""
    tensor = tensor.detach()
    if not dist.is_initialized():
        return tensor
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
