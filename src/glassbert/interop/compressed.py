"""Weights of 8 bits in files, laid out as compressed-tensors has them, which `transformers` reads with it.

A matrix X.weight holds whole numbers, (N, K), and X.weight_scale the step of each row, (N, 1). config.json
says so in `quantization_config`; without that entry, other programs would read the numbers as weights.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from glassbert.errors import ModelError
from glassbert.interop.config_keys import QUANTISATION
from glassbert.interop.on_demand import OnDemand
from glassbert.model.quantised import quantised_rows
from glassbert.typed import shown

_SCALE = "_scale"
_LARGEST = 127
_METHOD, _FORMATS = "compressed-tensors", ("int-quantized", "naive-quantized")
_STRATEGIES = ("channel", "tensor")
# The description of quantised weights that we read.
_WEIGHTS = {"num_bits": 8, "type": "int", "symmetric": True}


def compress(name: str, weight: Tensor) -> dict[str, Tensor]:
    """Return a matrix as the two tensors of a file: numbers of 8 bits, and the scale of each row."""
    numbers, scale = quantised_rows(weight, _LARGEST)
    return {name: numbers, name + _SCALE: scale}


def description(other_layers: Sequence[str]) -> dict[str, Any]:
    """Return the content of `quantization_config`.

    Args:
        other_layers: Names of the linear layers in the file that keep their numbers.
    """
    weights = {**_WEIGHTS, "strategy": "channel", "dynamic": False}
    inputs = {**_WEIGHTS, "strategy": "token", "dynamic": True}
    group = {
        "targets": ["Linear"],
        "weights": weights,
        "input_activations": inputs,
        "output_activations": None,
    }
    return {
        "quant_method": _METHOD,
        "format": _FORMATS[0],
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": list(other_layers),
    }


def check_description(found: Any, source: str) -> None:
    """Refuse a `quantization_config` of weights that we do not read.

    Args:
        source: The file's name, for messages.
    """
    try:
        groups = list(found["config_groups"].values())
        is_known = found["quant_method"] == _METHOD and found["format"] in _FORMATS and bool(groups)
        for group in groups:
            weights = group["weights"]
            is_known &= all(weights.get(key) == value for key, value in _WEIGHTS.items())
            is_known &= weights["strategy"] in _STRATEGIES
    except (KeyError, TypeError, AttributeError):
        is_known = False
    if not is_known:
        raise ModelError(
            f"{source}: {QUANTISATION}={shown(found)}; expected {_METHOD} with symmetric weights of "
            "8 bits for each row; fetch the model in float16 or float32"
        )


def expand(tensors: Mapping[str, Tensor], folder: str) -> Mapping[str, Tensor]:
    """Return the numbers that 8-bit weights and their scales represent, each when it is asked for.

    Args:
        folder: Where they are from, for messages.
    """
    for name in tensors:
        if is_scale(name) and name.removesuffix(_SCALE) not in tensors:
            raise ModelError(f"{folder}: {name} belongs to no weight; fetch it again")

    def expanded(name: str) -> Tensor:
        tensor, scale = tensors[name], tensors.get(name + _SCALE)
        if tensor.dtype == torch.int8 and scale is None:
            raise ModelError(f"{folder}: {name} has 8 bits, but {name}{_SCALE} is missing; fetch it again")
        if scale is None:
            return tensor
        if tensor.dtype != torch.int8 or tensor.dim() != 2 or scale.numel() not in (1, len(tensor)):
            raise ModelError(
                f"{folder}: {name} holds {tensor.dtype} of shape {tuple(tensor.shape)} and its scale "
                f"{tuple(scale.shape)}; expected torch.int8 and a scale for each row"
            )
        return tensor.float().mul_(scale.float().view(-1, 1))

    return OnDemand(dict.fromkeys(name for name in tensors if not is_scale(name)), expanded)


def is_scale(name: str) -> bool:
    """Return whether a tensor of a file is the scale of another one."""
    return name.endswith(f".weight{_SCALE}")
