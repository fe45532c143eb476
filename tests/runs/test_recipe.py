from dataclasses import asdict
from pathlib import Path

import pytest

from glassbert.errors import UserError
from glassbert.runs.folder import first_difference
from glassbert.runs.pretrain import PretrainRecipe
from glassbert.runs.recipe import read_recipe, write_recipe

RECIPE = """
[data]
corpus = "corpus"
[model]
preset = "tiny"
[objective]
name = "mlm"
mask = { select_prob = 0.2 }
[train]
steps = 100
learning_rate = 1
"""


def recipe(tmp_path: Path, *changes: str, text: str = RECIPE) -> PretrainRecipe:
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return PretrainRecipe.of(read_recipe(path, changes))


def test_tables_become_settings(tmp_path: Path) -> None:
    read = recipe(tmp_path)
    assert read.data.corpus == Path("corpus")
    assert read.objective.mask.select_prob == 0.2
    assert read.train.steps == 100
    assert read.train.learning_rate == 1.0
    assert isinstance(read.train.learning_rate, float)


def test_a_change_wins_over_the_file(tmp_path: Path) -> None:
    read = recipe(
        tmp_path, "train.steps=7", "data.corpus=else/where", "model.hidden_act=relu", "train.seed = 3"
    )
    assert (read.train.steps, read.train.seed) == (7, 3)
    assert read.data.corpus == Path("else/where")
    assert read.model.table() == {"preset": "tiny", "start": None, "hidden_act": "relu"}
    assert recipe(tmp_path, "objective.mask.whole_words=true").objective.mask.whole_words


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("train.stepz=7", "unknown key train.stepz; did you mean train.steps?"),
        ("trian.steps=7", "unknown key recipe.trian; did you mean recipe.train?"),
        ("model.hiden_size=7", "did you mean model.hidden_size?"),
        ("model.hidden_dropout_prob=.1", "model.hidden_dropout_prob='.1'; expected a number"),
        ("model.gated_mlp=yes", "model.gated_mlp='yes'; expected true or false"),
        ("objective.mask.x=7", "unknown key objective.mask.x"),
        ("train.steps=many", "train.steps='many'; expected a whole number"),
        ("train.steps=true", "train.steps=True; expected a whole number"),
        ("train.steps=0", "train.steps=0; expected a whole number of at least 1"),
        ("train.epochs=2", "train.steps and train.epochs are both set"),
        ("train.schedule=step", "expected one of linear, cosine, constant, inverse_sqrt"),
        ("objective.name=nsp", "expected one of mlm, mlm.nsp, sop"),
        ("train.warmup=1", "train.warmup=1.0; expected a number of at least 0 and less than 1"),
        ("steps=7", "expected table.key=value"),
        ("train.steps.x=7", "steps is a value, not a table"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, change: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        recipe(tmp_path, change)


def test_a_missing_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="data.corpus is missing; set it in the recipe or with --set data.corpus="
    ):
        recipe(tmp_path, text="[train]\nsteps = 1\n")


@pytest.mark.parametrize(("text", "message"), [("steps = 1", "outside a table"), ("[train", "not TOML")])
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        recipe(tmp_path, text=text)


def test_a_written_recipe_reads_back_the_same(tmp_path: Path) -> None:
    first = recipe(tmp_path, "data.corpus='a \\ \"b\"'")
    assert asdict(recipe(tmp_path, text=write_recipe(first.tables()))) == asdict(first)


def test_only_settings_that_change_nothing_may_differ_on_resume() -> None:
    old = "[train]\nsteps = 5\nsave_every = 10\n"
    assert first_difference(old, "[train]\nsteps = 5\nsave_every = 20\n") is None
    assert first_difference(old, "[train]\nsteps = 6\nsave_every = 10\n") == "train.steps (5, now 6)"
