import gzip
import runpy
import tomllib
from pathlib import Path

import pytest

from glassbert.config import TransformerConfig
from glassbert.runs.pretrain import PretrainRecipe, make_model
from glassbert.runs.recipe import read_recipe
from glassbert.runs.translate import TranslateRecipe

RECIPES = sorted((Path(__file__).parent.parent / "recipes").glob("*.toml"))
PRETRAINING = [path for path in RECIPES if "objective" in tomllib.loads(path.read_text(encoding="utf-8"))]
TRANSLATION = [path for path in RECIPES if "vocabulary" in tomllib.loads(path.read_text(encoding="utf-8"))]


def test_every_recipe_belongs_to_one_kind_of_run() -> None:
    names = {path.stem for path in RECIPES}
    assert names >= {"smoke", "wikitext2-mini", "bilingual-mini", "bert-base", "bert-large", "en-es-small"}
    assert sorted([*PRETRAINING, *TRANSLATION]) == RECIPES


@pytest.mark.parametrize("path", PRETRAINING, ids=lambda path: path.stem)
def test_a_recipe_has_only_known_settings_that_fit_together(path: Path) -> None:
    recipe = PretrainRecipe.of(read_recipe(path, ["data.corpus=corpus"]))
    # Large ones would only take time, and the model that another run starts from is not here.
    if recipe.model.preset in ("tiny", "mini") and recipe.model.start is None:
        assert make_model(recipe, 100).config.encoder.max_position_embeddings >= recipe.objective.max_length
    assert recipe.train.batch_tokens >= recipe.objective.max_length
    assert PretrainRecipe.of(recipe.tables()) == recipe


@pytest.mark.parametrize("path", TRANSLATION, ids=lambda path: path.stem)
def test_a_translation_recipe_has_only_known_settings_that_fit_together(path: Path) -> None:
    recipe = TranslateRecipe.of(read_recipe(path, ["data.train=train.tsv", "data.dev=dev.tsv"]))
    config = recipe.config(recipe.vocabulary.size)
    assert isinstance(config, TransformerConfig)
    assert recipe.train.keep > recipe.task.average_last
    assert TranslateRecipe.of(recipe.tables()) == recipe


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_no_recipe_uses_a_key_of_earlier_versions(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not [word for word in ("init_from", "folder =") if word in text]


def test_the_last_documents_of_each_file_are_held_out(tmp_path: Path) -> None:
    split = runpy.run_path(str(RECIPES[0].parent / "split.py"))["split"]
    lines = [f'{{"text": "{number}"}}\n'.encode() for number in range(100)]
    (tmp_path / "en.jsonl.gz").write_bytes(gzip.compress(b"".join(lines)))
    split(tmp_path / "en.jsonl.gz", tmp_path / "train", tmp_path / "held", 0.02)
    assert (tmp_path / "train" / "en.jsonl").read_bytes() == b"".join(lines[:98])
    assert (tmp_path / "held" / "en.jsonl").read_bytes() == b"".join(lines[98:])
