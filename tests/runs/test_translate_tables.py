import re
from pathlib import Path
from typing import Any

import pytest

from glassbert.config import TRANSLATOR_PRESETS, LstmConfig, TransformerConfig
from glassbert.errors import UserError
from glassbert.runs.translate import TranslateRecipe


def recipe(**tables: Any) -> TranslateRecipe:
    return TranslateRecipe.of({"data": {"train": "a.tsv"}, **tables})


def test_defaults_are_those_of_the_paper() -> None:
    read = recipe(model={"preset": "transformer-base"})
    config = read.config(8000)
    assert isinstance(config, TransformerConfig)
    assert config == TransformerConfig()
    assert (read.train.schedule, read.train.beta2, read.train.epsilon) == ("inverse_sqrt", 0.98, 1e-9)
    assert read.train.learning_rate == pytest.approx(512**-0.5 * 4000**-0.5)
    assert read.task.label_smoothing == 0.1
    assert read.train.epochs == 10


@pytest.mark.parametrize("name", TRANSLATOR_PRESETS)
def test_every_preset_has_a_shape(name: str) -> None:
    config = recipe(model={"preset": name}).config(500)
    assert config.vocab_size == 500
    assert isinstance(config, LstmConfig) == name.startswith("lstm")


def test_a_depth_set_for_one_side_is_meant_for_both() -> None:
    config = recipe(model={"num_hidden_layers": 5}).config(500)
    assert isinstance(config, TransformerConfig)
    assert (config.encoder.num_hidden_layers, config.num_decoder_layers) == (5, 5)
    config = recipe(model={"num_hidden_layers": 5, "num_decoder_layers": 2}).config(500)
    assert isinstance(config, TransformerConfig)
    assert config.num_decoder_layers == 2


def test_the_inner_width_follows_the_width() -> None:
    config = recipe(model={"hidden_size": 64}).config(500)
    assert isinstance(config, TransformerConfig)
    assert config.encoder.intermediate_size == 256


def test_checkpoints_to_be_averaged_are_kept_and_one_that_a_stop_leaves() -> None:
    assert recipe(task={"average_last": 7}).train.keep == 8
    assert recipe(task={"average_last": 1}).train.keep == 2
    assert recipe(task={"average_last": 2}, train={"keep": 5}).train.keep == 5


def test_a_recipe_comes_back_from_its_own_tables() -> None:
    read = recipe(model={"preset": "transformer-tiny", "hidden_size": 64}, train={"steps": 5})
    assert TranslateRecipe.of(read.tables()) == read


def test_a_translator_brings_its_vocabulary_and_a_small_rate(tmp_path: Path) -> None:
    read = recipe(model={"start": str(tmp_path)})
    assert "vocabulary" not in read.tables()
    assert read.train.learning_rate == 1e-4
    with pytest.raises(UserError, match="has its own vocabulary; remove the table"):
        recipe(model={"start": str(tmp_path)}, vocabulary={"size": 100})


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"modle": {}}, "unknown key recipe.modle; did you mean recipe.model?"),
        ({"data": {}}, "data.train is missing"),
        ({"model": {"hiden_size": 3}}, "did you mean model.hidden_size?"),
        ({"model": {"hidden_dropout_prob": ".1"}}, "model.hidden_dropout_prob='.1'; expected a number"),
        ({"model": {"num_decoder_layers": "2"}}, "model.num_decoder_layers='2'; expected a whole number"),
        (
            {"model": {"preset": "lstm-small", "hidden_dropout_prob": ".1"}},
            "model.hidden_dropout_prob='.1'; expected a number",
        ),
        ({"model": {"vocab_size": 3}}, "unknown key model.vocab_size"),
        (
            {"model": {"preset": "lstm-small", "num_attention_heads": 3}},
            "unknown key model.num_attention_heads",
        ),
        ({"task": {"label_smoothing": 1.0}}, "task.label_smoothing=1.0"),
        ({"task": {"average_last": 0}}, "task.average_last=0; expected a whole number of at least 1"),
        ({"train": {"keep": "x"}}, "train.keep='x'; expected a whole number"),
        ({"vocabulary": {"size": 0}}, "vocabulary.size=0; expected a whole number of at least 1"),
        ({"data": {"train": "a", "skip_bad": "x"}}, "data.skip_bad='x'; expected a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        recipe(**tables)


def test_pairs_longer_than_the_position_table_are_refused() -> None:
    read = TranslateRecipe.of(
        {"data": {"train": "a.tsv", "max_length": 200}, "model": {"max_position_embeddings": 100}}
    )
    with pytest.raises(UserError, match=r"data\.max_length=200 exceeds model\.max_position_embeddings=100"):
        read.config(500)


def test_a_run_is_its_best_model_and_a_name_that_means_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run" / "best").mkdir(parents=True)
    (tmp_path / "run" / "best" / "config.json").write_text("{}")
    assert recipe(model={"start": str(tmp_path / "run")}).model.start == tmp_path / "run" / "best"
    with pytest.raises(UserError, match="transformer-smal: no such folder, and none of the presets .*-small"):
        recipe(model={"start": "transformer-smal"}, vocabulary={"size": 500})
