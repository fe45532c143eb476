"""Every variable of Google's graphs has its Hugging Face name, and the way back leads to where it started."""

import pytest

from glassbert.interop.tf1.names import RULES, Rule, is_optimizer_state, rule_for_tf1


@pytest.mark.parametrize(
    ("tf1", "huggingface", "is_transposed"),
    [
        ("bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings.weight", False),
        ("bert/embeddings/LayerNorm/gamma", "bert.embeddings.LayerNorm.weight", False),
        ("bert/embeddings/LayerNorm/beta", "bert.embeddings.LayerNorm.bias", False),
        (
            "bert/encoder/layer_3/attention/self/query/kernel",
            "bert.encoder.layer.3.attention.self.query.weight",
            True,
        ),
        (
            "bert/encoder/layer_11/attention/output/LayerNorm/beta",
            "bert.encoder.layer.11.attention.output.LayerNorm.bias",
            False,
        ),
        (
            "bert/encoder/layer_0/intermediate/dense/bias",
            "bert.encoder.layer.0.intermediate.dense.bias",
            False,
        ),
        ("bert/pooler/dense/kernel", "bert.pooler.dense.weight", True),
        ("cls/predictions/transform/dense/kernel", "cls.predictions.transform.dense.weight", True),
        ("cls/predictions/output_bias", "cls.predictions.bias", False),
        ("cls/seq_relationship/output_weights", "cls.seq_relationship.weight", False),
        ("cls/squad/output_weights", "qa_outputs.weight", False),
        ("output_weights", "classifier.weight", False),
        ("output_bias", "classifier.bias", False),
    ],
)
def test_a_variable_has_its_name_for_transformers(tf1: str, huggingface: str, is_transposed: bool) -> None:
    rule = Rule(tf1, huggingface, is_transposed)
    assert rule_for_tf1(tf1) == rule


def test_no_two_rules_share_a_name() -> None:
    for rule in (rule.for_layer("17") for rule in RULES):
        assert rule_for_tf1(rule.tf1) == rule
    assert len({rule.tf1 for rule in RULES}) == len({rule.huggingface for rule in RULES}) == len(RULES)


@pytest.mark.parametrize(
    "name",
    [
        "bert/encoder/layer_{n}/output/dense/kernel/adam_m",
        "bert/encoder/layer_/output/dense/kernel",
        "bert/encoder/layer_1x/output/dense/kernel",
        "bert/pooler/dense/kernel/",
        "electra/embeddings/word_embeddings",
        "",
    ],
)
def test_other_names_have_no_rule(name: str) -> None:
    assert rule_for_tf1(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "global_step",
        "beta1_power",
        "training/beta2_power",
        "bert/pooler/dense/bias/adam_m",
        "bert/pooler/dense/bias/adam_v",
        "bert/pooler/dense/bias/AdamWeightDecayOptimizer",
        "bert/pooler/dense/bias/AdamWeightDecayOptimizer_1",
        "bert/pooler/dense/bias/Adam_1",
    ],
)
def test_optimizer_state_is_kept_apart_from_the_model(name: str) -> None:
    assert is_optimizer_state(name)
    assert rule_for_tf1(name) is None


def test_nothing_of_the_model_counts_as_optimizer_state() -> None:
    assert not any(is_optimizer_state(rule.tf1) for rule in RULES)
    assert not is_optimizer_state("adam_model/kernel")
