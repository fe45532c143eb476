from pathlib import Path

import pytest

from glassbert.cli.options import recipe_tables
from glassbert.errors import UserError

NEEDED = {"--train": ("data", "train")}


def test_set_overrides_options_and_options_override_the_recipe(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[data]\ntrain = "a"\ndev = "a"\nformat = "a"\n[train]\nseed = 1\n')
    options = {"data": {"train": None, "dev": "b", "format": "b"}, "runs": {"seeds": None}}
    assert recipe_tables(recipe, options, ["data.format=c"], NEEDED) == {
        "data": {"train": "a", "dev": "b", "format": "c"},
        "train": {"seed": 1},
    }


def test_a_missing_setting_is_named_by_its_option() -> None:
    assert recipe_tables(None, {}, ["data.train=x"], NEEDED) == {"data": {"train": "x"}}
    with pytest.raises(UserError, match=r"--train is missing; name it, or set data.train in a recipe"):
        recipe_tables(None, {"data": {"train": None}}, None, NEEDED)
