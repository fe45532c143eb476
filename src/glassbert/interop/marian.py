"""Between our Transformer and `transformers`' MarianMTModel, where both compute the same.

They differ in one thing only. The published position vectors have sines and cosines in turn; Marian has all
sines in the first half and all cosines in the second. That is another order of the same features, and nothing
else in the network minds their order, so every weight that reads or writes them is reordered on the way.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from glassbert.config import TransformerConfig
from glassbert.errors import ModelError
from glassbert.interop.huggingface import check_tensor
from glassbert.interop.names import translated
from glassbert.model.seq2seq import Transformer

# Ours, theirs; `{}` stands for the number of a block.
_STACKS = (("encoder.blocks.{}", "model.encoder.layers.{}"), ("decoder.blocks.{}", "model.decoder.layers.{}"))
_ATTENTIONS = (("attention", "self_attn"), ("cross_attention", "encoder_attn"))
_PROJECTIONS = (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("output", "out_proj"))
_IN_BLOCKS = (
    *((f"{a}.{p}", f"{b}.{q}") for a, b in _ATTENTIONS for p, q in _PROJECTIONS),
    ("attention_norm", "self_attn_layer_norm"),
    ("cross_norm", "encoder_attn_layer_norm"),
    ("mlp.inner", "fc1"),
    ("mlp.outer", "fc2"),
    ("mlp_norm", "final_layer_norm"),
)
_MODULES = {f"{a}.{inner}": f"{b}.{theirs}" for a, b in _STACKS for inner, theirs in _IN_BLOCKS}
_SHARED = "model.shared.weight"
_TENSORS = {"embeddings.token.weight": _SHARED, "output.bias": "final_logits_bias"}

# What older files also hold: copies of the shared matrix, and the position table, which is computed.
_COPIES = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
COMPUTED = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")

_OUR_MODULES = {theirs: ours for ours, theirs in _MODULES.items()}
_OUR_TENSORS = {theirs: ours for ours, theirs in _TENSORS.items()}
_OUR_TENSORS |= dict.fromkeys(_COPIES, "embeddings.token.weight")


def marian_name(name: str) -> str:
    """Return the file's name of our tensor."""
    theirs = translated(name, _MODULES, _TENSORS)
    assert theirs is not None, f"Marian has no {name}"
    return theirs


def from_marian_name(name: str) -> str | None:
    """Return our name of a tensor in a file, or None when Marian has no such tensor."""
    return translated(name, _OUR_MODULES, _OUR_TENSORS)


def to_marian(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a Transformer's tensors under Marian's names and in Marian's order of features."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if name == "output.weight":  # tied: the shared matrix stands for it
            continue
        axis = _feature_axis(name)
        if axis is not None:
            tensor = tensor.index_select(axis, _order(tensor.size(axis)))
        tensors[marian_name(name)] = tensor[None] if name == "output.bias" else tensor
    return tensors


def from_marian(tensors: Mapping[str, Tensor], config: TransformerConfig, source: Path) -> dict[str, Tensor]:
    """Return a MarianMTModel's tensors under our names and in our order of features.

    Args:
        source: The config.json, for messages.
    """
    stored = _without_copies(tensors, source)
    stored.setdefault("final_logits_bias", torch.zeros(1, config.vocab_size))
    with torch.device("meta"):
        expected = {name: tensor.shape for name, tensor in Transformer(config).state_dict().items()}
    expected.pop("output.weight")
    state: dict[str, Tensor] = {}
    for name, shape in expected.items():
        tensor = stored.pop(marian_name(name), None)
        if tensor is None:
            raise ModelError(
                f"{source.parent}: {marian_name(name)} is missing; the file does not fit {source.name}"
            )
        tensor = tensor.flatten() if name == "output.bias" else tensor
        check_tensor(marian_name(name), tensor, shape, source)
        axis = _feature_axis(name)
        if axis is not None:
            tensor = tensor.index_select(axis, _order(tensor.size(axis)).argsort())
        state[name] = tensor
    if stored:
        raise ModelError(
            f"{source.parent}: unexpected tensor {min(stored)}; the file does not fit {source.name}"
        )
    return state


def _without_copies(tensors: Mapping[str, Tensor], source: Path) -> dict[str, Tensor]:
    """Return the tensors with the shared matrix standing once; copies of it must agree."""
    stored = {name: tensor for name, tensor in tensors.items() if name not in COMPUTED}
    for name in _COPIES:
        if name in stored:
            copy = stored.pop(name)
            if not torch.equal(copy, stored.setdefault(_SHARED, copy)):
                raise ModelError(
                    f"{source.parent}: {name} differs from {_SHARED}; only models that share it are supported"
                )
    return stored


def _feature_axis(name: str) -> int | None:
    """Return the axis of one of our tensors that runs over the features between blocks, if it has one."""
    module, _, parameter = name.rpartition(".")
    if module == "output":
        return None
    if module.endswith(("embeddings.token", ".query", ".key", ".value", ".inner")):
        return 1 if parameter == "weight" else None
    return 0


def _order(size: int) -> Tensor:
    """Return which of our features stands at each of Marian's places."""
    return torch.cat([torch.arange(0, size, 2), torch.arange(1, size, 2)])
