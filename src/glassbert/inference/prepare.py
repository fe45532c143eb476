"""Make a network ready for inference: on a device, in a precision, with the fastest linear layers there.

To add a backend of the linear layer, write `linear/NAME.py` with a class that takes a `Linear` and is called
like one, and add a row to `PRECISIONS`. One that needs to know the inputs of a layer replaces the layers of a
whole network instead, as `quantise.py` does.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, get_args

import torch
from torch import nn

from glassbert.errors import UserError
from glassbert.inference.devices import Device, PrecisionName
from glassbert.inference.linear import int8, onednn
from glassbert.inference.quantise import is_quantised, quantise
from glassbert.messages import Log, to_stderr
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
    replace_layers: Callable[..., None] | None = None
    """Replaces the layers of a whole network, where one layer is not enough."""


PRECISIONS: dict[PrecisionName, Precision] = {
    "float32": Precision(torch.float32, onednn.OneDnnLinear, onednn.is_faster),
    "bfloat16": Precision(torch.bfloat16),
    "int8": Precision(torch.float32, replace_layers=quantise),
}


def prepared(
    network: Network,
    *,
    device: torch.device,
    precision: PrecisionName = "float32",
    has_long_batches: bool,
    also: Sequence[str] = (),
    with_heads: bool = True,
) -> Network:
    """Return a copy of ``network`` for inference.

    Weights that need no change are shared with ``network``, which must not be trained from now on. A network
    in int8 is returned as it is.

    Args:
        has_long_batches: Whether products have thousands of rows, rather than one for each of a few
            hypotheses.
        also: Names of linear layers outside of blocks that the backend computes as well.
        with_heads: Let int8 change what is outside of blocks; a loss over the vocabulary reads the weights.
    """
    form = PRECISIONS[choose_precision(precision, device)]
    if is_quantised(network):
        return network
    moved = {id(old): _moved(old, device, form.dtype) for old in network.parameters()}
    twin = copy.deepcopy(network, memo=moved).eval()
    if form.replace_layers is not None:
        form.replace_layers(twin, with_heads=with_heads)
        return twin.eval()
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


def choose_precision(name: str, device: torch.device, log: Log = to_stderr) -> PrecisionName:
    """Return the precision to compute in; one that the device does not have is refused.

    A CPU without products of integers computes in float32 instead.

    Args:
        log: Receives a line if it differs from the one asked for.
    """
    known = next((known for known in PRECISIONS if known == name), None)
    if known is None:
        raise UserError(f"precision={name!r}; expected one of {', '.join(PRECISIONS)}")
    if known == "bfloat16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise UserError("precision='bfloat16', but this GPU cannot compute in it; use 'float32'")
    if known == "int8" and device.type != "cpu":
        raise UserError("precision='int8' is computed on CPUs only; use the device 'cpu', or 'bfloat16'")
    if known == "int8" and not int8.is_available():
        log("precision='int8': torch has no exact product of integers on this CPU; computing in float32")
        return "float32"
    return known


def _moved(parameter: nn.Parameter, device: torch.device, dtype: torch.dtype) -> nn.Parameter:
    if parameter.device == device and parameter.dtype == dtype:
        return parameter
    return nn.Parameter(parameter.detach().to(device, dtype), requires_grad=False)
