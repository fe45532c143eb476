"""Make a network ready for inference: on a device, in a precision, with the fastest linear layers there.

To add a backend of the linear layer, write `linear/NAME.py` with a class that takes a `Linear` and is called
like one, and add a row to `PRECISIONS`.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, get_args

import torch
from torch import nn

from glassbert.errors import UserError
from glassbert.inference.devices import Device, PrecisionName
from glassbert.inference.linear import onednn
from glassbert.model.block import Block
from glassbert.model.linear import Linear

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True)
class Precision:
    """How numbers are stored and linear layers computed."""

    dtype: torch.dtype
    """Of the weights outside of `layer`, and of what flows between layers."""
    layer: Callable[[Linear], nn.Module] | None = None
    """Takes the place of the blocks' linear layers; None keeps torch's own."""
    is_faster: Callable[..., bool] = lambda device, *, has_long_batches: True
    """Whether `layer` is worth taking on a device."""


PRECISIONS: dict[PrecisionName, Precision] = {
    "float32": Precision(torch.float32, onednn.OneDnnLinear, onednn.is_faster),
    "bfloat16": Precision(torch.bfloat16),
}


def prepared(
    network: Network,
    *,
    device: torch.device,
    precision: PrecisionName = "float32",
    has_long_batches: bool,
    also: Sequence[str] = (),
) -> Network:
    """Return a copy of ``network`` for inference.

    Weights that need no change are shared with ``network``, which must not be trained from now on.

    Args:
        has_long_batches: Whether products have thousands of rows, rather than one for each of a few
            hypotheses.
        also: Names of linear layers outside of blocks that the backend computes as well.
    """
    form = check_precision(precision, device)
    moved = {id(old): _moved(old, device, form.dtype) for old in network.parameters()}
    twin = copy.deepcopy(network, memo=moved).eval()
    if form.layer is None or not form.is_faster(device, has_long_batches=has_long_batches):
        return twin
    parents = [part for block in twin.modules() if isinstance(block, Block) for part in block.modules()]
    for parent in parents:
        for name, child in list(parent.named_children()):
            if isinstance(child, Linear):
                setattr(parent, name, form.layer(child))
    for name in also:
        setattr(twin, name, form.layer(getattr(twin, name)))
    return twin.eval()


def choose_device(name: str) -> torch.device:
    """Return the device of that name; `auto` is a GPU if there is one."""
    if name not in get_args(Device):
        raise UserError(f"device={name!r}; expected one of {', '.join(get_args(Device))}")
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise UserError("device='cuda', but torch sees no GPU; use 'cpu' or 'auto'")
    return (
        torch.device("cuda", torch.cuda.current_device())
        if has_gpu and name != "cpu"
        else torch.device("cpu")
    )


def check_precision(name: str, device: torch.device) -> Precision:
    """Return what a precision means; one that the device cannot compute in is refused."""
    if name not in PRECISIONS:
        raise UserError(f"precision={name!r}; expected one of {', '.join(PRECISIONS)}")
    if name == "bfloat16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise UserError("precision='bfloat16', but this GPU cannot compute in it; use 'float32'")
    return PRECISIONS[name]


def _moved(parameter: nn.Parameter, device: torch.device, dtype: torch.dtype) -> nn.Parameter:
    if parameter.device == device and parameter.dtype == dtype:
        return parameter
    return nn.Parameter(parameter.detach().to(device, dtype), requires_grad=False)
