"""config.json, both ways. Keys that we do not know, or that contradict each other, are errors."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from glassbert.config import BertConfig, Head, ModelConfig
from glassbert.errors import ModelError, UserError
from glassbert.interop.names import nearest

ARCHITECTURES: dict[str, Head] = {
    "BertModel": "none",
    "BertForPreTraining": "pretraining",
    "BertForMaskedLM": "mlm",
    "BertForNextSentencePrediction": "nsp",
    "BertForSequenceClassification": "classify",
    "BertForTokenClassification": "tag",
    "BertForQuestionAnswering": "answer",
}
_ARCHITECTURE_OF: dict[Head, str] = {head: name for name, head in ARCHITECTURES.items()}
# What a file holds beyond the encoder tells its head when config.json does not.
_HEAD_OF_TENSORS: tuple[tuple[frozenset[str], Head], ...] = (
    (frozenset({"cls.predictions.bias", "cls.seq_relationship.weight"}), "pretraining"),
    (frozenset({"cls.predictions.bias"}), "mlm"),
    (frozenset({"cls.seq_relationship.weight"}), "nsp"),
    (frozenset({"qa_outputs.weight"}), "answer"),
    (frozenset({"classifier.weight", "bert.pooler.dense.weight"}), "classify"),
    (frozenset({"classifier.weight"}), "tag"),
)

# Keys that change nothing of the computation.
_IGNORED = {
    "_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache", "gradient_checkpointing",
    "finetuning_task", "bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id", "mask_token_id",
    "directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
    "pooler_size_per_head", "pooler_type", "output_attentions", "output_hidden_states",
    "output_past", "return_dict", "torchscript", "_num_labels",
    "_attn_implementation_autoset",
    "num_labels", "id2label", "label2id", "problem_type", "architectures", "model_type", "has_pooler",
}  # fmt: skip
# Keys that would change the computation; only the value that BERT has is accepted.
_FIXED: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "is_encoder_decoder": (False,),
    "chunk_size_feed_forward": (0,),
    "pruned_heads": ({}, None),
    "cross_attention_hidden_size": (None,),
    "tokenizer_class": ("BertTokenizer", "BertTokenizerFast", None),
}
_ENCODER_KEYS = tuple(field.name for field in fields(BertConfig))


def read_config(data: Mapping[str, Any], source: str, tensor_names: Iterable[str] = ()) -> ModelConfig:
    """Return the config that ``data``, the content of config.json, describes.

    Args:
        source: The file's name, for messages.
        tensor_names: Names in the weight file: they tell what config.json leaves open.
    """
    names = set(tensor_names)
    _check_keys(data, source)
    try:
        encoder = BertConfig(**{key: data[key] for key in _ENCODER_KEYS if key in data})
        head = _head(data, names)
        return ModelConfig(
            encoder=encoder,
            head=head,
            has_pooler=_has_pooler(data, head, names),
            labels=_labels(data) if head in ("classify", "tag") else (),
            problem_type=data.get("problem_type"),
        )
    except (UserError, TypeError) as error:
        raise ModelError(f"{source}: {error}") from None


def write_config(config: ModelConfig, dtype: str) -> dict[str, Any]:
    """Return the content of config.json: what `transformers` reads where the architecture is BERT's own."""
    encoder = asdict(config.encoder)
    data: dict[str, Any] = {"architectures": [_ARCHITECTURE_OF[config.head]], "dtype": dtype}
    if config.encoder.is_plain_bert:
        # `transformers` would ignore our extra keys; leaving them out keeps the file plain.
        for key in ("norm_position", "positions", "gated_mlp", "use_bias"):
            del encoder[key]
        data |= {"model_type": "bert", "position_embedding_type": "absolute"}
    else:
        # By any other name `transformers` would load these weights into a network that computes otherwise.
        data["model_type"] = "glassbert"
    if config.head == "none" and not config.has_pooler:
        data["has_pooler"] = False
    if config.labels:
        data["id2label"] = {str(index): label for index, label in enumerate(config.labels)}
        data["label2id"] = {label: index for index, label in enumerate(config.labels)}
    if config.problem_type:
        data["problem_type"] = config.problem_type
    return data | encoder


def _check_keys(data: Mapping[str, Any], source: str) -> None:
    model_type = data.get("model_type", "bert")
    if model_type not in ("bert", "glassbert"):
        raise ModelError(f"{source}: model_type={model_type!r}; expected 'bert': other families are not read")
    for key, value in data.items():
        if key in _FIXED:
            if value not in _FIXED[key]:
                raise ModelError(f"{source}: {key}={value!r}; only {_FIXED[key][0]!r} is supported")
        elif key not in _IGNORED and key not in _ENCODER_KEYS:
            guess = nearest(key, [*_ENCODER_KEYS, *_FIXED, *_IGNORED])
            hint = f"did you mean {guess!r}?" if guess else "remove it, if it does not change the model"
            raise ModelError(f"{source}: unknown key {key!r}; {hint}")


def _head(data: Mapping[str, Any], names: set[str]) -> Head:
    architectures = data.get("architectures")
    if architectures:
        if len(architectures) != 1 or architectures[0] not in ARCHITECTURES:
            raise UserError(f"architectures={architectures}; expected one of {', '.join(ARCHITECTURES)}")
        return ARCHITECTURES[architectures[0]]
    return next((head for needed, head in _HEAD_OF_TENSORS if needed <= names), "none")


def _has_pooler(data: Mapping[str, Any], head: Head, names: set[str]) -> bool:
    if head == "none":
        return bool(data.get("has_pooler", not names or "bert.pooler.dense.weight" in names))
    return head in ("pretraining", "nsp", "classify")


def labels_by_id(data: Mapping[str, Any]) -> dict[int, str]:
    """Return what a config's id2label says; nothing when it says nothing."""
    stated = data.get("id2label") or {}
    if not isinstance(stated, Mapping) or not all(str(index).isdecimal() for index in stated):
        raise UserError(
            f"id2label={stated!r}; expected an object that maps the numbers of labels to their names"
        )
    return {int(index): str(label) for index, label in stated.items()}


def _labels(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the labels in the order of the logits; the keys that tell them must agree."""
    num_labels = data.get("num_labels")
    by_id = labels_by_id(data)
    if not by_id:
        by_id = {index: f"LABEL_{index}" for index in range(2 if num_labels is None else num_labels)}
    if sorted(by_id) != list(range(len(by_id))):
        raise UserError(f"id2label has the ids {sorted(by_id)}; expected 0 to {len(by_id) - 1}")
    if num_labels is not None and num_labels != len(by_id):
        raise UserError(f"num_labels={num_labels} contradicts id2label, which has {len(by_id)} labels")
    labels = tuple(by_id[index] for index in range(len(by_id)))
    by_label = data.get("label2id")
    if by_label and by_label != {label: index for index, label in enumerate(labels)}:
        raise UserError("label2id contradicts id2label; make one the reverse of the other")
    return labels
