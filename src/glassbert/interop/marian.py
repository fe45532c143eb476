"""Between our Transformer and `transformers`' MarianMTModel, where both compute the same.

They differ in one thing only. The published position vectors have sines and cosines in turn; Marian has all
sines in the first half and all cosines in the second. That is another order of the same features, and nothing
else in the network minds their order, so every weight that reads or writes them is reordered on the way.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassbert.config import BertConfig, TransformerConfig
from glassbert.errors import ModelError, UserError
from glassbert.interop.huggingface import check_tensor
from glassbert.interop.names import nearest
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
_BLOCK_NUMBER = re.compile(r"(?<=blocks\.)\d+")

# What older files also hold: copies of the shared matrix, and the position table, which is computed.
_COPIES = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
_COMPUTED = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")

# Our field of the encoder, or of the whole, and their key.
_ENCODER_KEYS = {
    "vocab_size": "vocab_size",
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
    "intermediate_size": "encoder_ffn_dim",
    "hidden_act": "activation_function",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "max_position_embeddings": "max_position_embeddings",
    "initializer_range": "init_std",
    "pad_token_id": "pad_token_id",
}
_OUTER_KEYS = {
    "num_decoder_layers": "decoder_layers",
    "decoder_start_token_id": "decoder_start_token_id",
    "eos_token_id": "eos_token_id",
}
# Keys that stand twice, for two sides that are equal here.
_TWINS = {
    "decoder_attention_heads": "encoder_attention_heads",
    "decoder_ffn_dim": "encoder_ffn_dim",
    "decoder_vocab_size": "vocab_size",
    "num_hidden_layers": "encoder_layers",
}
# Keys that would change the computation; only the value that we compute is accepted.
_FIXED: dict[str, Any] = {
    "scale_embedding": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "is_encoder_decoder": True,
    "is_decoder": False,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "add_bias_logits": False,
    "static_position_embeddings": True,
    "extra_pos_embeddings": 0,
}
# Keys that change nothing of the computation, or only training by others.
_IGNORED = {
    "architectures", "model_type", "transformers_version", "torch_dtype", "dtype", "use_cache", "_num_labels",
    "_name_or_path", "activation_dropout", "encoder_layerdrop", "decoder_layerdrop", "bos_token_id",
    "forced_eos_token_id", "force_bos_token_to_be_generated", "bad_words_ids", "num_beams", "max_length",
    "classif_dropout", "classifier_dropout", "gradient_checkpointing", "id2label", "label2id", "num_labels",
    "save_step", "tokenizer_class", "output_attentions", "output_hidden_states", "return_dict",
}  # fmt: skip
_MARIAN_EPS = 1e-5
_SWISH = {"swish": "silu"}


def is_marian(config: TransformerConfig) -> bool:
    """Whether MarianMTModel computes the same with the same weights."""
    shape = config.encoder
    return (
        shape.norm_position == "post"
        and shape.positions == "sinusoidal"
        and shape.tie_word_embeddings
        and shape.use_bias
        and not shape.gated_mlp
        and shape.layer_norm_eps == _MARIAN_EPS
    )


def write_marian_config(config: TransformerConfig, dtype: str) -> dict[str, Any]:
    """Return the content of a config.json that `transformers` loads as MarianMTModel."""
    assert is_marian(config)
    data: dict[str, Any] = {"architectures": ["MarianMTModel"], "model_type": "marian", "dtype": dtype}
    data |= {theirs: getattr(config.encoder, ours) for ours, theirs in _ENCODER_KEYS.items()}
    data |= {theirs: getattr(config, ours) for ours, theirs in _OUTER_KEYS.items()}
    data |= {twin: data[key] for twin, key in _TWINS.items() if twin != "num_hidden_layers"}
    data |= {key: _FIXED[key] for key in ("scale_embedding", "share_encoder_decoder_embeddings")}
    data |= {"tie_word_embeddings": True, "is_encoder_decoder": True}
    # Generation would otherwise force the end at a Marian of another vocabulary.
    return data | {"forced_eos_token_id": config.eos_token_id}


def read_marian_config(data: Mapping[str, Any], source: str) -> TransformerConfig:
    """Return the config that a MarianMTModel's config.json describes.

    Args:
        source: The file's name, for messages.
    """
    known = {*_ENCODER_KEYS.values(), *_OUTER_KEYS.values(), *_TWINS, *_FIXED, *_IGNORED}
    for key, value in data.items():
        if key not in known:
            guess = nearest(key, known)
            hint = f"did you mean {guess!r}?" if guess else "remove it, if it does not change the model"
            raise ModelError(f"{source}: unknown key {key!r}; {hint}")
        if key in _FIXED and value != _FIXED[key]:
            raise ModelError(f"{source}: {key}={value!r}; only {_FIXED[key]!r} is supported")
        if key in _TWINS and value not in (data.get(_TWINS[key]), None):
            raise ModelError(
                f"{source}: {key}={value!r} but {_TWINS[key]}={data.get(_TWINS[key])!r}; "
                "only sides of one shape are supported"
            )
    missing = [
        key for key in ("scale_embedding", *_ENCODER_KEYS.values(), *_OUTER_KEYS.values()) if key not in data
    ]
    if missing:
        raise ModelError(f"{source}: no {missing[0]}; is it the config.json of a MarianMTModel?")
    shape = {ours: data[theirs] for ours, theirs in _ENCODER_KEYS.items()}
    shape["hidden_act"] = _SWISH.get(shape["hidden_act"], shape["hidden_act"])
    try:
        encoder = BertConfig(**shape, positions="sinusoidal", type_vocab_size=1, layer_norm_eps=_MARIAN_EPS)
        return TransformerConfig(
            encoder=encoder, **{ours: data[theirs] for ours, theirs in _OUTER_KEYS.items()}
        )
    except (UserError, TypeError) as error:
        raise ModelError(f"{source}: {error}") from None


def to_marian(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a Transformer's tensors under Marian's names and in Marian's order of features."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if name == "output.weight":  # tied: the shared matrix stands for it
            continue
        axis = _feature_axis(name)
        if axis is not None:
            tensor = tensor.index_select(axis, _order(tensor.size(axis)))
        tensors[_theirs(name)] = tensor[None] if name == "output.bias" else tensor
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
        tensor = stored.pop(_theirs(name), None)
        if tensor is None:
            raise ModelError(
                f"{source.parent}: {_theirs(name)} is missing; the file does not fit {source.name}"
            )
        tensor = tensor.flatten() if name == "output.bias" else tensor
        check_tensor(_theirs(name), tensor, shape, source)
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
    stored = {name: tensor for name, tensor in tensors.items() if name not in _COMPUTED}
    for name in _COPIES:
        if name in stored:
            copy = stored.pop(name)
            if not torch.equal(copy, stored.setdefault(_SHARED, copy)):
                raise ModelError(
                    f"{source.parent}: {name} differs from {_SHARED}; only models that share it are supported"
                )
    return stored


def _theirs(name: str) -> str:
    if name in _TENSORS:
        return _TENSORS[name]
    module, _, parameter = name.rpartition(".")
    number = _BLOCK_NUMBER.findall(module)[0]
    return f"{_MODULES[_BLOCK_NUMBER.sub('{}', module)].format(number)}.{parameter}"


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
