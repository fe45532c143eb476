"""Models of `transformers` with random weights: the oracles of everything we read and write."""

from pathlib import Path

import torch
import transformers

from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

VOCAB_SIZE = 60
CLASSES = [
    "BertModel",
    "BertForPreTraining",
    "BertForMaskedLM",
    "BertForNextSentencePrediction",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
]


def make_oracle(class_name: str, seed: int = 0, **changes: object) -> transformers.PreTrainedModel:
    """Return a model whose every weight is random, biases and LayerNorm too: none can be forgotten."""
    settings = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 40,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    if class_name in ("BertForSequenceClassification", "BertForTokenClassification"):
        settings["num_labels"] = 5
    config = transformers.BertConfig(**(settings | changes))
    model = getattr(transformers, class_name)(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model


def save_oracle(model: transformers.PreTrainedModel, folder: Path) -> Path:
    """Write the model with a tokenizer whose vocabulary is as large as the model's."""
    model.save_pretrained(folder)
    small_tokenizer(model.config.vocab_size).save(folder)
    return folder


def small_tokenizer(size: int = VOCAB_SIZE) -> Tokenizer:
    """Return a tokenizer with the specials, letters, their continuations and some Chinese characters."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = [*SPECIALS, *letters, *(f"##{letter}" for letter in letters), "今", "天", "好"]
    pieces += [f"[unused{index}]" for index in range(size - len(pieces))]
    return Tokenizer(Vocabulary(tuple(pieces[:size])), max_length=40)
