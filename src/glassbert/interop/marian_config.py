"""The config.json of `transformers`' MarianMTModel, both ways."""

from collections.abc import Mapping
from typing import Any

from glassbert.config import BertConfig, TransformerConfig
from glassbert.errors import ModelError, UserError
from glassbert.interop.config_keys import KeyRules
from glassbert.typed import shown

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
# Keys that repeat another for the second side; ours are equal.
_TWINS = {
    "decoder_attention_heads": "encoder_attention_heads",
    "decoder_ffn_dim": "encoder_ffn_dim",
    "decoder_vocab_size": "vocab_size",
    "num_hidden_layers": "encoder_layers",
}
# Known keys that change nothing of the computation, or only training by others.
_HARMLESS = {
    "architectures", "model_type", "transformers_version", "torch_dtype", "dtype", "use_cache",
    "_name_or_path", "activation_dropout", "encoder_layerdrop", "decoder_layerdrop", "bos_token_id",
    "forced_eos_token_id", "force_bos_token_to_be_generated", "bad_words_ids", "num_beams", "max_length",
    "classif_dropout", "classifier_dropout", "gradient_checkpointing", "id2label", "label2id",
    "num_labels", "_num_labels", "save_step", "tokenizer_class", "output_attentions",
    "output_hidden_states", "return_dict", "chunk_size_feed_forward",
}  # fmt: skip
_RULES = KeyRules(
    read=(*_ENCODER_KEYS.values(), *_OUTER_KEYS.values(), *_TWINS),
    harmless=_HARMLESS,
    fixed={
        "scale_embedding": (True,),
        "share_encoder_decoder_embeddings": (True,),
        "tie_word_embeddings": (True,),
        "is_encoder_decoder": (True,),
        "is_decoder": (False,),
        "normalize_before": (False,),
        "normalize_embedding": (False,),
        "add_final_layer_norm": (False,),
        "add_bias_logits": (False,),
        "static_position_embeddings": (True,),
        "extra_pos_embeddings": (0,),
        "quantization_config": (None,),
        "auto_map": (None, {}),
    },
)
_LAYER_NORM_EPS = 1e-5


def is_marian(config: TransformerConfig) -> bool:
    """Return whether MarianMTModel computes the same with the same weights."""
    shape = config.encoder
    return (
        shape.norm_position == "post"
        and shape.positions == "sinusoidal"
        and shape.tie_word_embeddings
        and shape.use_bias
        and not shape.gated_mlp
        and shape.layer_norm_eps == _LAYER_NORM_EPS
    )


def write_marian_config(config: TransformerConfig, dtype: str) -> dict[str, Any]:
    """Return the content of a config.json that `transformers` loads as MarianMTModel."""
    assert is_marian(config)
    data: dict[str, Any] = {"architectures": ["MarianMTModel"], "model_type": "marian", "dtype": dtype}
    data |= {theirs: getattr(config.encoder, ours) for ours, theirs in _ENCODER_KEYS.items()}
    data |= {theirs: getattr(config, ours) for ours, theirs in _OUTER_KEYS.items()}
    data |= {twin: data[key] for twin, key in _TWINS.items() if twin != "num_hidden_layers"}
    data |= {"scale_embedding": True, "share_encoder_decoder_embeddings": True}
    data |= {"tie_word_embeddings": True, "is_encoder_decoder": True}
    # Generation would otherwise force the end id of Marian's default vocabulary.
    return data | {"forced_eos_token_id": config.eos_token_id}


def read_marian_config(data: Mapping[str, Any], source: str) -> tuple[TransformerConfig, tuple[str, ...]]:
    """Return the config that a MarianMTModel's config.json describes, and notes for the user.

    Args:
        source: The file's name, for messages.
    """
    notes = _RULES.check(data, source)
    for twin, key in _TWINS.items():
        if data.get(twin) not in (data.get(key), None):
            raise ModelError(
                f"{source}: {twin}={shown(data[twin])} but {key}={shown(data.get(key))}; "
                "only sides of one shape are supported"
            )
    needed = ("scale_embedding", *_ENCODER_KEYS.values(), *_OUTER_KEYS.values())
    missing = [key for key in needed if key not in data]
    if missing:
        raise ModelError(f"{source}: no {missing[0]}; is it the config.json of a MarianMTModel?")
    shape = {ours: data[theirs] for ours, theirs in _ENCODER_KEYS.items()}
    if shape["hidden_act"] == "swish":
        shape["hidden_act"] = "silu"
    outer = {ours: data[theirs] for ours, theirs in _OUTER_KEYS.items()}
    try:
        encoder = BertConfig(
            **shape, positions="sinusoidal", type_vocab_size=1, layer_norm_eps=_LAYER_NORM_EPS
        )
        return TransformerConfig(encoder=encoder, **outer), notes
    except (UserError, TypeError) as error:
        raise ModelError(f"{source}: {error}") from None
