"""A small model of random weights for each thing that `why` explains, as `transformers` and as we load it."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers

from glassbert.inference.loading import load
from glassbert.inference.model import Model
from helpers.oracles import make_oracle, save_oracle

LABELS = {"num_labels": 3, "id2label": {0: "bad", 1: "fair", 2: "good"}}
TAGS = {"num_labels": 3, "id2label": {0: "O", 1: "B-PER", 2: "I-PER"}}


class Explained(NamedTuple):
    """A model, its oracle and something to ask it about."""

    model: Model
    oracle: transformers.PreTrainedModel
    item: Any
    target: str | None


ITEMS: dict[str, tuple[str, dict[str, Any], Any, str | None]] = {
    "classify": ("BertForSequenceClassification", LABELS, "abc d 今天 e", "good"),
    "pair": ("BertForSequenceClassification", LABELS, ("abc d", "今天 好 e"), "fair"),
    "multi": (
        "BertForSequenceClassification",
        LABELS | {"problem_type": "multi_label_classification"},
        "abc d e",
        "bad",
    ),
    "regression": ("BertForSequenceClassification", {"num_labels": 1}, "abc d e", None),
    "tag": ("BertForTokenClassification", TAGS, "abc d 今天 e", "abc=PER"),
    "answer": ("BertForQuestionAnswering", {}, {"question": "ab", "context": "c de 今天 f"}, "de 今"),
    "fill": ("BertForMaskedLM", {}, "abc d [MASK] e", "今"),
}


def explained(kind: str, folder: Path, **changes: Any) -> Explained:
    """Return a model for one of `ITEMS`."""
    class_name, settings, item, target = ITEMS[kind]
    oracle = make_oracle(class_name, **settings, **changes)
    with torch.no_grad():
        for name, parameter in oracle.named_parameters():
            if name.endswith("LayerNorm.weight"):
                parameter += 1.0  # otherwise little of a token reaches the head
    return Explained(load(save_oracle(oracle, folder), Model), oracle, item, target)
