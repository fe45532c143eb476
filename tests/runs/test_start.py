from pathlib import Path
from typing import Any, get_type_hints

import pytest

from glassbert.config import TRANSLATOR_PRESETS, BertConfig
from glassbert.errors import UserError
from glassbert.runs.pretrain import PretrainRecipe, make_model
from glassbert.runs.start import BERT_PRESETS, StartModel, with_current_keys, with_model
from glassbert.runs.translate import TranslateRecipe
from helpers.small_finetune import recipe_of, write_inputs
from helpers.small_model import small_folder

FIELDS = get_type_hints(BertConfig)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_folder(tmp_path_factory.mktemp("model"), dropout=0.1)


def pretraining(**model: Any) -> PretrainRecipe:
    return PretrainRecipe.of({"data": {"corpus": "c"}, "model": model, "objective": {"max_length": 32}})


@pytest.mark.parametrize(
    ("table", "current"),
    [
        ({"init_from": "a/b"}, {"start": "a/b"}),
        ({"folder": "a/b"}, {"start": "a/b"}),
        ({"folder": "transformer-tiny"}, {"preset": "transformer-tiny"}),
        (
            {"start": "a", "hidden_dropout": 0.1, "attention_dropout": 0.2},
            {"start": "a", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2},
        ),
        ({"folder": "transformer-tiny", "start": "a"}, {"start": "a"}),
    ],
)
def test_keys_of_earlier_versions_are_read(table: dict[str, Any], current: dict[str, Any]) -> None:
    assert with_current_keys(table, TRANSLATOR_PRESETS) == current


def test_a_folder_that_is_called_like_a_preset_can_be_started_from(tmp_path: Path) -> None:
    assert pretraining(init_from="mini").model == StartModel(start=Path("mini"))
    assert pretraining(preset="mini").model == StartModel(preset="mini")
    assert PretrainRecipe.of(pretraining(init_from="mini").tables()).model.start == Path("mini")


def test_the_option_model_replaces_what_a_recipe_starts_from() -> None:
    table = {"folder": "x", "hidden_size": 32}
    assert with_model(table, "bert-mini", BERT_PRESETS) == {"preset": "bert-mini", "hidden_size": 32}
    assert with_model({"preset": "mini"}, "some/run", BERT_PRESETS) == {"start": "some/run"}
    assert with_model({}, Path("mini")) == {"start": "mini"}, "fine-tuning has no presets"


def test_an_unknown_key_is_refused_with_a_guess() -> None:
    with pytest.raises(UserError, match=r"unknown key model\.strat; did you mean model\.start\?"):
        StartModel.of({"strat": "a"}, FIELDS)
    with pytest.raises(UserError, match=r"model\.preset=3; expected a string"):
        StartModel.of({"preset": 3}, FIELDS)


def test_dropout_can_be_changed_in_every_run_and_the_shape_in_none(folder: Path, tmp_path: Path) -> None:
    changed = {"start": str(folder), "hidden_dropout_prob": 0.3}
    assert make_model(pretraining(**changed), 80).config.encoder.hidden_dropout_prob == 0.3
    fine_tuning = recipe_of(write_inputs(tmp_path), model=changed).model
    shape = fine_tuning.folder().build(changes=fine_tuning.dropout)[0].config.encoder
    assert (shape.hidden_dropout_prob, shape.attention_probs_dropout_prob) == (0.3, 0.0)
    fine_tuning.check_same(shape)
    for wrong, message in (
        ({"hidden_size": 48}, r"model\.hidden_size is 48 in the recipe and 32 in model\.start="),
        ({"preset": "base"}, r"model\.num_hidden_layers is 12 in the recipe and 2 in model\.start="),
    ):
        with pytest.raises(UserError, match=message):
            make_model(pretraining(start=str(folder), **wrong), 80)
        with pytest.raises(UserError, match=message):
            recipe_of(tmp_path, model={"start": str(folder), **wrong}).model.check_same(shape)


def test_neighbour_heads_are_for_fresh_models_and_ignored_otherwise(folder: Path) -> None:
    assert (
        make_model(pretraining(start=str(folder), neighbour_heads=True), 80).config.encoder.vocab_size == 80
    )


def test_fine_tuning_needs_a_model_that_has_learned(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model\.start is missing; name the model to fine-tune"):
        recipe_of(write_inputs(tmp_path), model={"start": None, "preset": "mini"})


def test_a_translator_recipe_of_an_earlier_version_is_the_same_recipe() -> None:
    data = {"train": "a.tsv"}
    old = TranslateRecipe.of({"data": data, "model": {"folder": "lstm-small", "hidden_size": 32}})
    new = TranslateRecipe.of({"data": data, "model": {"preset": "lstm-small", "hidden_size": 32}})
    assert old == new
    with pytest.raises(UserError, match=r"model\.preset='mini'; expected one of transformer-tiny"):
        TranslateRecipe.of({"data": data, "model": {"preset": "mini"}})
