"""`pretrain`: a recipe and a corpus become an encoder."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from glassbert.cli.live import live_readings
from glassbert.cli.output import print_json, remark
from glassbert.errors import Interrupted


def pretrain(
    recipe: Path,
    /,
    *,
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Train an encoder by masked tokens and next sentences; goes on by itself where a run was stopped.

    Parameters
    ----------
    recipe:
        TOML file with the tables data, model, objective and train.
    set_:
        Change a setting, such as train.steps=100; may be given several times.
    out:
        Folder of the run; runs/ and the recipe's name when not given.
    json:
        Print the result as JSON.
    """
    from dataclasses import asdict

    from glassbert.runs.pretrain import PretrainRecipe
    from glassbert.runs.pretrain import pretrain as run_pretraining
    from glassbert.runs.recipe import read_recipe
    from glassbert.training.processes import is_main_process

    folder = out or Path("runs") / recipe.stem
    settings = PretrainRecipe.of(read_recipe(recipe, set_ or ()))
    with live_readings() as on_status:
        result = run_pretraining(settings, folder, remark, on_status)
    is_main = is_main_process()  # torchrun starts this verb once per process
    if json and is_main:
        print_json({"out": str(folder), **asdict(result)})
    elif result.is_finished and is_main:
        print(folder / "last")
    if not result.is_finished:
        raise Interrupted(f"stopped at step {result.step}, saved in {folder}; the same command goes on")
