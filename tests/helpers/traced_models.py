"""A small model of every kind that can be traced, with a text and a target for each."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn

import glassbert as gb
from glassbert.model.crf import Crf
from glassbert.tasks.tag.task import Tag, TagSettings
from helpers import small_translators
from helpers.oracles import VOCAB_SIZE, small_tokenizer
from helpers.sentence_pairs import VOCAB_SIZE as NUM_SUBWORDS
from helpers.sentence_pairs import small_tokenizer as subword_tokenizer

SHAPE = gb.BertConfig(
    vocab_size=VOCAB_SIZE,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=24,
    max_position_embeddings=40,
    initializer_range=0.3,
)
TAGS = ("O", "B-PER", "I-PER")


class Case(NamedTuple):
    """What to trace."""

    model: Any
    texts: tuple[str, ...]
    target: Any = None

    def trace(self, **options: Any) -> gb.Trace:
        """Trace it, with the target unless the options name another."""
        return self.model.trace(*self.texts, **{"target": self.target, **options})


def shaken(network: nn.Module, std: float = 0.3) -> Any:
    """Move biases and LayerNorms away from zeros and ones, so that none can be forgotten."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * std)
    return network.eval()


def bert(head: str = "none", shape: gb.BertConfig = SHAPE, **settings: Any) -> gb.Model:
    """Return a BERT with a head."""
    config = gb.ModelConfig(encoder=shape, head=head, **settings)
    return gb.Model(shaken(gb.new_bert(config, seed=1)), small_tokenizer())


def crf_tagger() -> gb.Model:
    """Return a tagger whose tags are scored as a chain."""
    model = bert("tag", labels=TAGS)
    crf = Crf(len(TAGS))
    nn.init.normal_(crf.weight, std=0.05, generator=torch.Generator().manual_seed(2))
    plain = model.task
    assert isinstance(plain, Tag)
    model.__dict__["task"] = replace(plain, settings=TagSettings(crf=True), extra=crf)
    return model


def translator(kind: str = "post") -> gb.Translator:
    """Return a Transformer or an LSTM over the joint vocabulary of numbers."""
    network = small_translators.small_network(kind, vocab_size=NUM_SUBWORDS)
    return gb.Translator(network, subword_tokenizer())


SPANS = [{"start": 0, "end": 3, "label": "PER"}]
CASES: dict[str, Callable[[], Case]] = {
    "plain encoder": lambda: Case(bert(), ("abc 今 d",), "enc.out[1, 3]"),
    "pretraining": lambda: Case(
        bert("pretraining"), ("a [MASK] c", "d e"), {"mlm": "a b c", "nsp": "NotNext"}
    ),
    "mlm": lambda: Case(bert("mlm"), ("a [MASK] c [MASK]",), ["b", "d"]),
    "nsp": lambda: Case(bert("nsp"), ("a b", "c d"), "IsNext"),
    "classify": lambda: Case(bert("classify", labels=("good", "bad")), ("a b c",), "bad"),
    "pair": lambda: Case(bert("classify", labels=("yes", "no", "maybe")), ("a b", "c d e"), "no"),
    "multi": lambda: Case(
        bert("classify", labels=("x", "y", "z"), problem_type="multi_label_classification"),
        ("a b c",),
        ["x", "z"],
    ),
    "regression": lambda: Case(
        bert("classify", labels=("score",), problem_type="regression"), ("a b", "c"), 3.5
    ),
    "tag": lambda: Case(bert("tag", labels=TAGS), ("abc d ef",), SPANS),
    "tag by a CRF": lambda: Case(crf_tagger(), ("abc d ef",), SPANS),
    "answer": lambda: Case(bert("answer"), ("a b", "c d e f g"), "d e"),
    "pre-norm": lambda: Case(bert("mlm", replace(SHAPE, norm_position="pre")), ("a [MASK] c",), ["b"]),
    "sinusoidal relu": lambda: Case(
        bert("mlm", replace(SHAPE, positions="sinusoidal", hidden_act="relu")), ("a [MASK] c",), ["b"]
    ),
    "rotary gated": lambda: Case(
        bert(
            "mlm",
            replace(
                SHAPE,
                positions="rotary",
                gated_mlp=True,
                use_bias=False,
                norm_position="pre",
                hidden_act="silu",
                tie_word_embeddings=False,
            ),
        ),
        ("a [MASK] c",),
        ["b"],
    ),
    "gelu_new": lambda: Case(bert("mlm", replace(SHAPE, hidden_act="gelu_new")), ("a [MASK]",), ["b"]),
    **{
        f"translator {kind}": lambda kind=kind: Case(translator(kind), ("one two.",), "\u00a1uno dos!")
        for kind in small_translators.KINDS
    },
}
