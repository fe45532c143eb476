"""The names of BERT's tensors in Google's TF1 checkpoints and in Hugging Face's files: one reversible table.

Hugging Face's names are the present ones; files from before 2019 say ``LayerNorm.gamma`` and ``.beta``.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """The two names of one tensor. In ``RULES``, ``{n}`` is the number of a layer."""

    tf1: str
    huggingface: str
    is_transposed: bool = False
    """TF1 multiplies by a kernel (in, out); torch keeps a linear layer's weight as (out, in)."""

    def for_layer(self, number: str) -> "Rule":
        return Rule(
            self.tf1.replace("{n}", number), self.huggingface.replace("{n}", number), self.is_transposed
        )


_DENSE_LAYERS = (
    "bert/encoder/layer_{n}/attention/self/query",
    "bert/encoder/layer_{n}/attention/self/key",
    "bert/encoder/layer_{n}/attention/self/value",
    "bert/encoder/layer_{n}/attention/output/dense",
    "bert/encoder/layer_{n}/intermediate/dense",
    "bert/encoder/layer_{n}/output/dense",
    "bert/pooler/dense",
    "cls/predictions/transform/dense",
)
_LAYER_NORMS = (
    "bert/embeddings/LayerNorm",
    "bert/encoder/layer_{n}/attention/output/LayerNorm",
    "bert/encoder/layer_{n}/output/LayerNorm",
    "cls/predictions/transform/LayerNorm",
)
# The heads' weights are (labels, hidden) on both sides: Google's code transposes where it multiplies.
_BARE_VARIABLES = (
    Rule("bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings.weight"),
    Rule("bert/embeddings/position_embeddings", "bert.embeddings.position_embeddings.weight"),
    Rule("bert/embeddings/token_type_embeddings", "bert.embeddings.token_type_embeddings.weight"),
    Rule("cls/predictions/output_bias", "cls.predictions.bias"),
    Rule("cls/seq_relationship/output_weights", "cls.seq_relationship.weight"),
    Rule("cls/seq_relationship/output_bias", "cls.seq_relationship.bias"),
    Rule("cls/squad/output_weights", "qa_outputs.weight"),
    Rule("cls/squad/output_bias", "qa_outputs.bias"),
    Rule("output_weights", "classifier.weight"),
    Rule("output_bias", "classifier.bias"),
)


def _dotted(module: str) -> str:
    return module.replace("layer_", "layer.").replace("/", ".")


RULES: tuple[Rule, ...] = (
    *(Rule(f"{module}/kernel", f"{_dotted(module)}.weight", is_transposed=True) for module in _DENSE_LAYERS),
    *(Rule(f"{module}/bias", f"{_dotted(module)}.bias") for module in _DENSE_LAYERS),
    *(Rule(f"{module}/gamma", f"{_dotted(module)}.weight") for module in _LAYER_NORMS),
    *(Rule(f"{module}/beta", f"{_dotted(module)}.bias") for module in _LAYER_NORMS),
    *_BARE_VARIABLES,
)
_BY_TF1 = {rule.tf1: rule for rule in RULES}
_LAYER_NUMBER = re.compile(r"(?<=/layer_)\d+(?=/)")
# Google's own Adam, TensorFlow's slots for it and its relatives, and the counters.
_OPTIMIZER_STATE = re.compile(
    r"(?:.+/)?(?:adam_[mv]|lamb_[mv]|(?:Adam|AdamWeightDecayOptimizer|LAMBOptimizer)(?:_1)?"
    r"|Momentum|beta[12]_power|global_step)"
)


def rule_for_tf1(name: str) -> Rule | None:
    """Return the rule for a TF1 variable, its layer's number filled in, or None."""
    number = _LAYER_NUMBER.search(name)
    rule = _BY_TF1.get(_LAYER_NUMBER.sub("{n}", name))
    return rule.for_layer(number[0]) if rule and number else rule


def is_optimizer_state(name: str) -> bool:
    """Return whether a TF1 variable belongs to the optimiser and not to the model."""
    return _OPTIMIZER_STATE.fullmatch(name) is not None
