from typing import Any

import pytest

from glassbert.config import TransformerConfig
from glassbert.errors import ModelError
from glassbert.interop.marian_config import is_marian, read_marian_config, write_marian_config
from helpers.small_translators import END, small_transformer


def test_what_marian_cannot_compute_is_not_written_as_marian() -> None:
    for changes in ({"norm_position": "pre"}, {"positions": "learned"}, {"tie_word_embeddings": False}):
        assert not is_marian(small_transformer(**changes).config)
    assert is_marian(TransformerConfig())
    written = write_marian_config(TransformerConfig(), "float32")
    assert read_marian_config(written, "here") == (TransformerConfig(), ())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale_embedding": False}, "scale_embedding=False; only True is supported"),
        ({"decoder_ffn_dim": 7}, "decoder_ffn_dim=7 but encoder_ffn_dim=24"),
        ({"normalise_before": True}, "unknown key 'normalise_before'; did you mean 'normalize_before'"),
        ({"d_model": 17}, "hidden_size=17 is not divisible"),
        ({"decoder_start_token_id": END}, "are both 1"),
    ],
)
def test_a_marian_that_we_do_not_compute_is_refused(changes: dict[str, Any], message: str) -> None:
    data = write_marian_config(small_transformer().config, "float32") | {"encoder_ffn_dim": 24} | changes
    with pytest.raises(ModelError, match=message):
        read_marian_config(data, "config.json")


def test_a_missing_key_is_named() -> None:
    with pytest.raises(ModelError, match=r"config.json: no scale_embedding; is it the config.json of"):
        read_marian_config({"model_type": "marian"}, "config.json")
