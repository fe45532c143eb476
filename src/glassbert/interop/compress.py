"""A network as a file with 8 bits a weight: the matrices of its blocks; the rest in half precision."""

from typing import Any

from torch import Tensor

from glassbert.errors import ModelError
from glassbert.interop.build import tensors_for_file
from glassbert.interop.compressed import compress, description
from glassbert.interop.config_keys import QUANTISATION
from glassbert.interop.family import Family
from glassbert.model.block import Block
from glassbert.model.init import Network
from glassbert.model.linear import Linear


def compressed(family: Family[Any], network: Network) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of a file, and the content of its config.json."""
    blocks = tuple(f"{name}." for name, part in network.named_modules() if isinstance(part, Block))
    if not blocks:
        raise ModelError("an LSTM has no blocks to store with 8 bits a weight; store it as float16")
    layers = {name: part for name, part in network.named_modules() if isinstance(part, Linear)}
    weights = {f"{name}.weight": layer.weight for name, layer in layers.items() if name.startswith(blocks)}
    exact = tensors_for_file(family, network)
    tensors = tensors_for_file(family, network, "float16")
    for name in family.to_file(weights, network.config):
        del tensors[name]
        tensors |= compress(name, exact[name])
    # A loaded model computes in float32: half precision is only for storage.
    config = family.write_config(network.config, "float32")
    config[QUANTISATION] = description(
        ["lm_head"] if family.is_translator else _heads(family, network, blocks)
    )
    return tensors, config


def _heads(family: Family[Any], network: Network, blocks: tuple[str, ...]) -> list[str]:
    """Return the linear layers outside of ``blocks``, as the classes of `transformers` name them."""
    names = [name for name, part in network.named_modules() if isinstance(part, Linear)]
    weights = {f"{name}.weight": network.get_parameter(f"{name}.weight") for name in names}
    outside = {name: weight for name, weight in weights.items() if not name.startswith(blocks)}
    return [name.removesuffix(".weight") for name in family.to_file(outside, network.config)]
