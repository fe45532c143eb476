from typing import Any

import pytest
import transformers

from glassbert.config import BertConfig, ModelConfig, preset
from glassbert.errors import ModelError
from glassbert.interop.bert_config import read_bert_config, write_bert_config

TINY: dict[str, Any] = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
}


def test_every_key_that_transformers_writes_is_understood() -> None:
    data = transformers.BertConfig(**TINY).to_dict()
    assert read_bert_config(data, "config.json")[0].encoder == BertConfig(**TINY)


def test_google_config_of_the_chinese_model_is_understood() -> None:
    data = TINY | {
        "directionality": "bidi",
        "pooler_fc_size": 768,
        "pooler_num_attention_heads": 12,
        "pooler_num_fc_layers": 3,
        "pooler_size_per_head": 128,
        "pooler_type": "first_token_transform",
        "vocab_size": 21128,
    }
    assert read_bert_config(data, "bert_config.json")[0].encoder.vocab_size == 21128


@pytest.mark.parametrize(
    ("key", "value"),
    [("_num_labels", 5), ("tokenizer_class", "BertTokenizer"), ("_attn_implementation_autoset", True)],
)
def test_what_older_versions_of_transformers_wrote_is_no_obstacle(key: str, value: Any) -> None:
    assert read_bert_config(TINY | {key: value}, "config.json")[0].encoder == BertConfig(**TINY)


@pytest.mark.parametrize(
    "key",
    ["uniem_embedding_strategy", "_attn_implementation_internal", "_commit_hash", "matryoshka_dimensions"],
)
def test_foreign_keys_that_change_nothing_are_reported_and_not_refused(key: str) -> None:
    config, notes = read_bert_config(TINY | {key: "x"}, "config.json")
    assert config.encoder == BertConfig(**TINY)
    assert notes == (f"unknown keys of config.json ignored: {key}",)


def test_known_keys_that_change_nothing_are_not_reported() -> None:
    assert read_bert_config(TINY | {"chunk_size_feed_forward": 64}, "config.json")[1] == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hiden_size": 64}, "unknown key 'hiden_size'; did you mean 'hidden_size'"),
        ({"layer_norm_epsilon": 1e-5}, "unknown key 'layer_norm_epsilon'; did you mean 'layer_norm_eps'"),
        ({"add_cross_attention": True}, "add_cross_attention=True; only False is supported"),
        ({"use_relative_position": True}, "use_relative_position=True; only False is supported"),
        ({"auto_map": {"AutoModel": "modeling.Own"}}, "auto_map={'AutoModel': 'modeling.Own'}; only None"),
        ({"model_type": "glassbert", "depth": 3}, "unknown key 'depth'; if a newer glassbert wrote it"),
        ({"model_type": "roberta"}, "model_type='roberta'"),
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "tokenizer_class='BertJapaneseTokenizer'; only"),
        ({"is_decoder": True}, "is_decoder=True; only False is supported"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key'"),
        ({"num_attention_heads": 5}, "hidden_size=32 is not divisible by num_attention_heads=5"),
        ({"architectures": ["BertLMHeadModel"]}, r"architectures=\['BertLMHeadModel'\]"),
        ({"hidden_act": "gelu_fast"}, "hidden_act='gelu_fast'"),
        ({"vocab_size": "30522"}, "vocab_size='30522'"),
    ],
)
def test_a_config_we_cannot_honour_is_refused_by_key(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"^config.json: {message}"):
        read_bert_config(TINY | change, "config.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_labels": 3, "id2label": {"0": "a", "1": "b"}}, "num_labels=3 contradicts id2label"),
        ({"id2label": {"0": "a", "2": "b"}}, r"ids \[0, 2\]; expected 0 to 1"),
        ({"id2label": {"a": "x"}}, "id2label=.'a': 'x'.; expected an object that maps the numbers of labels"),
        ({"id2label": ["x"]}, r"id2label=\['x'\]; expected an object"),
        ({"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 1, "b": 0}}, "label2id contradicts id2label"),
    ],
)
def test_labels_that_contradict_each_other_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_bert_config(TINY | {"architectures": ["BertForSequenceClassification"]} | change, "config.json")


def test_labels_come_in_the_order_of_the_logits() -> None:
    data = TINY | {
        "architectures": ["BertForTokenClassification"],
        "id2label": {"1": "B", "0": "O", "2": "I"},
    }
    assert read_bert_config(data, "config.json")[0].labels == ("O", "B", "I")


@pytest.mark.parametrize(
    ("tensors", "head"),
    [
        ({"cls.predictions.bias", "cls.seq_relationship.weight", "bert.pooler.dense.weight"}, "pretraining"),
        ({"cls.predictions.bias"}, "mlm"),
        ({"classifier.weight", "bert.pooler.dense.weight"}, "classify"),
        ({"classifier.weight"}, "tag"),
        ({"qa_outputs.weight"}, "answer"),
        (set(), "none"),
    ],
)
def test_tensors_reveal_the_head_when_the_config_does_not(tensors: set[str], head: str) -> None:
    assert read_bert_config(TINY, "config.json", tensors)[0].head == head


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig(encoder=preset("tiny"), has_pooler=False),
        ModelConfig(encoder=preset("tiny"), head="classify", labels=("no", "yes"), problem_type="regression"),
        ModelConfig(
            encoder=preset("tiny", norm_position="pre", gated_mlp=True, positions="rotary"),
            head="pretraining",
        ),
    ],
)
def test_a_written_config_reads_back_the_same(config: ModelConfig) -> None:
    assert read_bert_config(write_bert_config(config, "float32"), "config.json") == (config, ())


def test_an_architecture_that_transformers_lacks_does_not_call_itself_bert() -> None:
    config = ModelConfig(encoder=preset("tiny", norm_position="pre"))
    assert write_bert_config(config, "float32")["model_type"] == "glassbert"
