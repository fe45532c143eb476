"""Tensors that several processes hold in parts."""

from torch import Tensor
from torch.distributed.tensor import DTensor


def full(tensor: Tensor) -> Tensor:
    """Return the whole of a tensor that may be sharded; every process must call this."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
