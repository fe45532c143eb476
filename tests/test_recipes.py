from pathlib import Path

import pytest

from glassbert.runs.pretrain import PretrainRecipe, make_model
from glassbert.runs.recipe import read_recipe

RECIPES = sorted((Path(__file__).parent.parent / "recipes").glob("*.toml"))
PRETRAINING = [path for path in RECIPES if path.stem != "en-es-small"]


def test_every_promised_recipe_is_there() -> None:
    names = {path.stem for path in RECIPES}
    assert names >= {"smoke", "wikitext2-mini", "bilingual-mini", "bert-base", "bert-large"}


@pytest.mark.parametrize("path", PRETRAINING, ids=lambda path: path.stem)
def test_a_recipe_has_only_known_settings_that_fit_together(path: Path) -> None:
    recipe = PretrainRecipe.of(read_recipe(path, ["data.corpus=corpus"]))
    if recipe.model["preset"] in ("tiny", "mini"):  # the large ones would only take time
        assert make_model(recipe, 100).config.encoder.max_position_embeddings >= recipe.objective.max_length
    assert recipe.train.batch_tokens >= recipe.objective.max_length
