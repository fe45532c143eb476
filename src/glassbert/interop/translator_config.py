"""The config.json of encoder-decoders: of `transformers`' MarianMTModel, both ways, and of our own form."""

from collections.abc import Mapping
from typing import Any

from glassbert.config import BertConfig, LstmConfig, TransformerConfig
from glassbert.errors import ModelError, UserError
from glassbert.interop.names import nearest

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


def is_encoder_decoder(config: Mapping[str, Any]) -> bool:
    """Whether the content of a config.json describes a model that `build_network` makes."""
    return config.get("model_type") == "marian" or config.get("architectures") in (["Transformer"], ["Lstm"])


def read_translator_config(data: Mapping[str, Any], source: str) -> TransformerConfig | LstmConfig:
    """Return the shape that ``data``, the content of a config.json, describes.

    Args:
        source: The file's name, for messages.
    """
    if data.get("model_type") == "marian":
        return read_marian_config(data, source)
    if not is_encoder_decoder(data):
        raise ModelError(f"{source}: not an encoder-decoder; expected model_type 'marian', or one of our own")
    fields = {
        key: value for key, value in data.items() if key not in ("architectures", "model_type", "dtype")
    }
    try:
        if data["architectures"] == ["Lstm"]:
            return LstmConfig(**fields)
        return TransformerConfig(**fields | {"encoder": BertConfig(**fields["encoder"])})
    except (UserError, TypeError, KeyError) as error:
        raise ModelError(f"{source}: {error}") from None


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
