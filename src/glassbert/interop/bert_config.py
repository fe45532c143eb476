"""The config.json of a BERT, both ways."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

from glassbert.config import BertConfig, ModelConfig
from glassbert.errors import ModelError, UserError
from glassbert.heads import HEAD_OF_ARCHITECTURE, HEADS, Head, head_of_parts
from glassbert.interop.bert_names import to_ours
from glassbert.interop.config_keys import KeyRules
from glassbert.ranges import Range
from glassbert.sentence import Sentence
from glassbert.typed import shown, typed

# What the published BERT does not have; `transformers` would ignore these keys.
_OWN_KEYS = ("norm_position", "positions", "gated_mlp", "use_bias")
NumLabels = Annotated[int, Range(1, 2**20)]
_ID_DIGITS = 10
_ENCODER_KEYS = tuple(field.name for field in fields(BertConfig))
# Known keys that change nothing of the computation.
_HARMLESS = {
    "_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache", "finetuning_task",
    "gradient_checkpointing", "bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id",
    "mask_token_id", "directionality", "pooler_fc_size", "pooler_num_attention_heads",
    "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type", "output_attentions",
    "output_hidden_states", "output_past", "return_dict", "torchscript", "_num_labels",
    "_attn_implementation_autoset", "chunk_size_feed_forward",
}  # fmt: skip
_RULES = KeyRules(
    read=(
        *_ENCODER_KEYS,
        *("architectures", "model_type", "has_pooler", "num_labels", "id2label", "label2id", "problem_type"),
    ),
    harmless=_HARMLESS,
    fixed={
        "position_embedding_type": ("absolute", None),
        "use_relative_position": (False, None),
        "max_relative_position": (None, 0),
        "is_decoder": (False,),
        "add_cross_attention": (False,),
        "is_encoder_decoder": (False,),
        "cross_attention_hidden_size": (None,),
        "pruned_heads": ({}, None),
        "quantization_config": (None,),
        "rope_theta": (None,),
        "rope_scaling": (None,),
        "sliding_window": (None,),
        "attention_window": (None,),
        "num_experts": (None, 0, 1),
        "num_hidden_groups": (None,),
        "norm_type": (None, "layer_norm", "LayerNorm"),
        "mlp_type": (None,),
        "alibi": (None, False),
        "adapters": (None, {}),
        "auto_map": (None, {}),  # names code in the folder, which could compute anything
        "tokenizer_class": ("BertTokenizer", "BertTokenizerFast", None),
    },
)


def read_bert_config(
    data: Mapping[str, Any], source: str, tensor_names: Iterable[str] = ()
) -> tuple[ModelConfig, tuple[str, ...]]:
    """Return the config that ``data``, the content of a config.json, describes, and notes for the user.

    Args:
        source: The file's name, for messages.
        tensor_names: Names in the weight file: they say what config.json leaves open.
    """
    model_type = data.get("model_type", "bert")
    if model_type not in ("bert", "glassbert"):
        raise ModelError(
            f"{source}: model_type={shown(model_type)}; expected 'bert', or 'marian' for a translator: "
            "other families are not read"
        )
    if data.get("embedding_size") not in (None, data.get("hidden_size")):
        raise ModelError(f"{source}: embedding_size differs from hidden_size, which BERT does not have")
    parts = {name.split(".")[0] for name in map(to_ours, tensor_names) if name is not None}
    notes = _RULES.check(data, source, is_foreign=model_type == "bert")
    try:
        head = _head(data, parts)
        config = ModelConfig(
            encoder=BertConfig(**{key: data[key] for key in _ENCODER_KEYS if key in data}),
            head=head,
            has_pooler=_has_pooler(data, head, parts),
            labels=_labels(data) if HEADS[head].has_labels else (),
            problem_type=data.get("problem_type"),
        )
    except (UserError, TypeError) as error:
        raise ModelError(f"{source}: {error}") from None
    if parts and not data.get("architectures"):
        notes += (
            Sentence(
                "{file} names no architecture; by its tensors, the head is {head!r}",
                file=Path(source).name,
                head=head,
            ),
        )
    return config, notes


def write_bert_config(config: ModelConfig, dtype: str) -> dict[str, Any]:
    """Return the content of config.json: what `transformers` reads where the architecture is BERT's own."""
    encoder = asdict(config.encoder)
    data: dict[str, Any] = {"architectures": [HEADS[config.head].architecture], "dtype": dtype}
    if config.encoder.is_plain_bert:
        for key in _OWN_KEYS:  # left out, to keep the file plain
            del encoder[key]
        data |= {"model_type": "bert", "position_embedding_type": "absolute"}
    else:
        # Under another name `transformers` would load the weights into a network with other formulas.
        data["model_type"] = "glassbert"
    if config.head == "none" and not config.has_pooler:
        data["has_pooler"] = False
    if config.labels:
        data["id2label"] = {str(index): label for index, label in enumerate(config.labels)}
        data["label2id"] = {label: index for index, label in enumerate(config.labels)}
    if config.problem_type:
        data["problem_type"] = config.problem_type
    return data | encoder


def _head(data: Mapping[str, Any], parts: set[str]) -> Head:
    names: tuple[str, ...] = typed(data.get("architectures") or (), tuple[str, ...], "architectures")
    if not names:
        return head_of_parts(parts)
    if len(names) != 1 or names[0] not in HEAD_OF_ARCHITECTURE:
        known = ", ".join(HEAD_OF_ARCHITECTURE)
        raise UserError(f"architectures={shown(list(names))}; expected one of {known}")
    return HEAD_OF_ARCHITECTURE[names[0]]


def _has_pooler(data: Mapping[str, Any], head: Head, parts: set[str]) -> bool:
    if head == "none":
        has_pooler: bool = typed(data.get("has_pooler", not parts or "pooler" in parts), bool, "has_pooler")
        return has_pooler
    return HEADS[head].needs_pooler


def _labels(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the labels in the order of the logits; the keys that hold them must agree."""
    num_labels = typed(data.get("num_labels"), NumLabels | None, "num_labels")
    by_id = _labels_by_id(data)
    if not by_id:
        by_id = {index: f"LABEL_{index}" for index in range(2 if num_labels is None else num_labels)}
    if sorted(by_id) != list(range(len(by_id))):
        raise UserError(f"id2label has the ids {shown(sorted(by_id))}; expected 0 to {len(by_id) - 1}")
    if num_labels is not None and num_labels != len(by_id):
        raise UserError(f"num_labels={num_labels} contradicts id2label, which has {len(by_id)} labels")
    labels = tuple(by_id[index] for index in range(len(by_id)))
    by_label = data.get("label2id")
    if by_label and by_label != {label: index for index, label in enumerate(labels)}:
        raise UserError("label2id contradicts id2label; make one the reverse of the other")
    return labels


def _labels_by_id(data: Mapping[str, Any]) -> dict[int, str]:
    stated = data.get("id2label") or {}
    is_numbered = isinstance(stated, Mapping) and all(
        index.isdecimal() and len(index) < _ID_DIGITS for index in map(str, stated)
    )
    if not is_numbered:
        raise UserError(
            f"id2label={shown(stated)}; expected an object that maps the numbers of labels to their names"
        )
    return {int(index): str(label) for index, label in stated.items()}
