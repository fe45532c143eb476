"""Our Transformer as `transformers` stores a MarianMTModel, where both compute the same.

They differ in one thing only. The published position vectors have sines and cosines in turn; Marian has all
sines in the first half and all cosines in the second. That is another order of the same features, and nothing
else in the network depends on their order, so every weight that reads or writes them is reordered in
conversion.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from glassbert.config import TransformerConfig
from glassbert.errors import ModelError
from glassbert.interop.family import Config, NamedTensors
from glassbert.interop.marian_config import is_marian, read_marian_config, write_marian_config
from glassbert.interop.names import translated
from glassbert.interop.on_demand import OnDemand

if TYPE_CHECKING:
    from torch import Tensor

    from glassbert.model.seq2seq import Transformer

# Ours, theirs; `{}` is the number of a block.
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
_TOKENS, _SHARED = "embeddings.token.weight", "model.shared.weight"
_BIAS = "output.bias"
_TENSORS = {_TOKENS: _SHARED, _BIAS: "final_logits_bias"}

# What older files also hold: copies of the shared matrix, and the position table, which is computed.
_COPIES = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
_COMPUTED = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")

_OUR_MODULES = {theirs: ours for ours, theirs in _MODULES.items()}
_OUR_TENSORS = {theirs: ours for ours, theirs in _TENSORS.items()} | dict.fromkeys(_COPIES, _TOKENS)


class MarianFamily:
    """See `Family`."""

    name = "a Marian translator"
    is_translator = True
    may_hold_more = False

    def describes(self, data: Mapping[str, Any]) -> bool:
        return data.get("model_type") == "marian"

    def holds(self, config: Config) -> bool:
        return isinstance(config, TransformerConfig) and is_marian(config)

    def read_config(
        self, data: Mapping[str, Any], source: str, tensor_names: Iterable[str] = ()
    ) -> tuple[TransformerConfig, tuple[str, ...]]:
        return read_marian_config(data, source)

    def write_config(self, config: TransformerConfig, dtype: str) -> dict[str, Any]:
        return write_marian_config(config, dtype)

    def network_class(self, config: TransformerConfig) -> "type[Transformer]":
        from glassbert.model.seq2seq import Transformer

        return Transformer

    def to_theirs(self, name: str) -> str:
        theirs = translated(name, _MODULES, _TENSORS)
        assert theirs is not None, f"Marian has no {name}"
        return theirs

    def to_ours(self, name: str) -> str | None:
        return translated(name, _OUR_MODULES, _OUR_TENSORS)

    def is_buffer(self, name: str) -> bool:
        return name in _COMPUTED

    def from_file(self, tensors: "Mapping[str, Tensor]", config: TransformerConfig) -> NamedTensors:
        import torch

        unknown: list[str] = []
        in_file: dict[str, str | None] = {_BIAS: None}
        for theirs in tensors:
            name = self.to_ours(theirs)
            if name is None:
                unknown += [] if self.is_buffer(theirs) else [theirs]
                continue
            other = in_file.get(name)
            if other is not None and not tensors[other].equal(tensors[theirs]):
                raise ModelError(
                    f"{other} and {theirs} differ; only models that share one matrix are supported"
                )
            in_file[name] = theirs

        def read(name: str) -> "Tensor":
            theirs = in_file[name]
            if theirs is None:  # some files leave out a bias of zeros
                return torch.zeros(config.vocab_size)
            tensor = tensors[theirs]
            return _reordered(name, tensor.flatten() if name == _BIAS else tensor, to_marian=False)

        return NamedTensors(OnDemand(in_file, read), tuple(unknown))

    def to_file(self, state: "Mapping[str, Tensor]", config: TransformerConfig) -> "dict[str, Tensor]":
        tensors = {name: _reordered(name, tensor, to_marian=True) for name, tensor in state.items()}
        return {
            self.to_theirs(name): tensor[None] if name == _BIAS else tensor
            for name, tensor in tensors.items()
        }


def _reordered(name: str, tensor: "Tensor", *, to_marian: bool) -> "Tensor":
    """Return a tensor of ours in Marian's order of features, or back; one of a wrong shape as it is."""
    import torch

    axis = _feature_axis(name)
    if axis is None or axis >= tensor.dim():
        return tensor
    size = tensor.size(axis)
    order = torch.cat([torch.arange(0, size, 2), torch.arange(1, size, 2)])  # our feature at each of theirs
    return tensor.index_select(axis, order if to_marian else order.argsort())


def _feature_axis(name: str) -> int | None:
    """Return the axis of one of our tensors that runs over the features between blocks, if it has one."""
    module, _, parameter = name.rpartition(".")
    if module == "output":
        return None
    if module.endswith(("embeddings.token", ".query", ".key", ".value", ".inner")):
        return 1 if parameter == "weight" else None
    return 0
