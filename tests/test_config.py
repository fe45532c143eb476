import pytest

from glassbert.config import PRESETS, BertConfig, ModelConfig, TransformerConfig, preset
from glassbert.errors import UserError


def test_presets_carry_the_published_sizes() -> None:
    base, large = preset("bert-base"), preset("bert-large-zh")
    assert (base.num_hidden_layers, base.hidden_size, base.num_attention_heads) == (12, 768, 12)
    assert (large.num_hidden_layers, large.hidden_size, large.num_attention_heads) == (24, 1024, 16)
    assert (base.vocab_size, large.vocab_size, large.intermediate_size) == (30522, 21128, 4096)
    assert {shape.head_size for name, shape in PRESETS.items()} == {64}


def test_the_prefix_of_a_preset_may_be_left_out() -> None:
    assert preset("mini") == preset("bert-mini")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"hidden_size": 100, "num_attention_heads": 12},
            "hidden_size=100 is not divisible by num_attention_heads=12",
        ),
        ({"num_hidden_layers": 0}, "num_hidden_layers=0"),
        ({"vocab_size": True}, "vocab_size=True"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob=1.0"),
        ({"hidden_act": "swish"}, "expected one of gelu, gelu_new, relu, silu"),
        ({"pad_token_id": 30522}, "pad_token_id=30522 lies outside"),
        ({"hidden_size": 9, "num_attention_heads": 3, "positions": "rotary"}, "head size 3 is odd"),
    ],
)
def test_a_shape_that_cannot_be_built_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        BertConfig(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head": "classify"}, "needs at least one label"),
        ({"head": "tag", "labels": ("a", "a")}, "labels repeat"),
        ({"head": "nsp", "has_pooler": False}, "has_pooler must be true"),
        ({"head": "sing"}, "head='sing'"),
    ],
)
def test_a_head_that_cannot_work_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ModelConfig(encoder=preset("tiny"), **changes)  # type: ignore[arg-type]


def test_an_unknown_preset_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="no preset 'huge'; expected one of bert-tiny"):
        preset("huge")


def test_a_transformer_is_the_published_one_by_default() -> None:
    config = TransformerConfig()
    shape = config.encoder
    assert (shape.num_hidden_layers, config.num_decoder_layers) == (6, 6)
    assert (shape.hidden_size, shape.num_attention_heads, shape.intermediate_size) == (512, 8, 2048)
    assert (shape.hidden_act, shape.positions, shape.norm_position) == ("relu", "sinusoidal", "post")
    assert shape.tie_word_embeddings
    assert (config.vocab_size, config.max_length) == (shape.vocab_size, shape.max_position_embeddings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_decoder_layers": 0}, "num_decoder_layers=0"),
        ({"eos_token_id": 8000}, "eos_token_id=8000 lies outside vocab_size=8000"),
        ({"decoder_start_token_id": -1}, "decoder_start_token_id=-1; expected a whole number of at least 0"),
        ({"decoder_start_token_id": 1}, "are both 1; give them different ids"),
    ],
)
def test_a_transformer_that_cannot_be_built_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        TransformerConfig(**changes)  # type: ignore[arg-type]
