"""What verbs share: options of runs, the recipe behind them, how rows are read."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from glassbert.cli.live import live_status
from glassbert.cli.output import print_json, print_lines, remark
from glassbert.data.examples import ReadOptions
from glassbert.errors import Interrupted, UserError

if TYPE_CHECKING:
    from glassbert.runs.run import Recipe

Tables = dict[str, dict[str, Any]]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of every verb that trains."""

    model: str | None = None
    """A preset, such as mini, or a model to start from; as the recipe says if not given."""
    out: Path | None = None
    """Folder of the run; runs/ and the name of the task or recipe if not given."""
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None
    """Change a setting, such as train.epochs=4; may be given several times."""
    json: bool = False
    """Print the result as JSON."""


def carry_out_and_print(
    recipe: "Recipe",
    name: str,
    options: RunOptions,
    *,
    file: Path | None = None,
    report: Path | bool = False,
) -> None:
    """Carry out a recipe and print the folder of its model, or the whole result as JSON.

    Args:
        name: Name of the run folder if the options name none.
        file: The file that the recipe was read from.
        report: Whether, and where, to write the report on the dev rows.
    """
    from glassbert.runs.folder import check_recipe_file
    from glassbert.runs.report import check_report, with_report
    from glassbert.runs.run import carry_out
    from glassbert.training.processes import is_main_process

    out = options.out or Path("runs") / name
    if file is not None:
        check_recipe_file(file, out)
    page = report if isinstance(report, Path) else None
    if report:
        check_report(recipe, out, page)
    with live_status() as on_status:
        result = carry_out(recipe, out, log=remark, on_status=on_status)
    if report:
        result = with_report(result, remark, page)
    if is_main_process():  # torchrun starts the verb in every process
        if options.json:
            print_json(result.to_json())
        elif result.is_finished:
            print_lines([result.model])
    if not result.is_finished:
        raise Interrupted(f"stopped at step {result.step}, saved in {out}; the same command resumes it")


def recipe_tables(
    recipe: Path | None,
    options: Mapping[str, Mapping[str, Any]],
    changes: Iterable[str] | None,
    needed: Mapping[str, tuple[str, str]],
    *,
    model: str | None = None,
    presets: Collection[str] = (),
) -> Tables:
    """Return the tables of a run's recipe.

    Args:
        options: Values by table and key; None where an option was not given.
        changes: Values of --set.
        needed: By the option that sets it, the table and key without which there is no run.
        model: What --model names.
        presets: The presets that it may name.
    """
    from glassbert.runs.recipe import changed, read_recipe
    from glassbert.runs.start import with_current_keys, with_model

    tables: Tables = read_recipe(recipe) if recipe else {}
    for name, table in options.items():
        values = {key: value for key, value in table.items() if value is not None}
        if values:
            tables[name] = {**tables.get(name, {}), **values}
    if model is not None:
        tables["model"] = with_model(tables.get("model", {}), model, presets)
    changed(tables, changes or ())
    for option, (name, key) in needed.items():
        if key not in with_current_keys(tables.get(name, {})):
            raise UserError(f"{option} is missing; name it, or set {name}.{key} in a recipe")
    return tables


def read_options(changes: list[str] | None, format: str | None, skip_bad: int) -> ReadOptions:
    """Return how rows are read, from --set, --format and --skip-bad."""
    from glassbert.runs.recipe import changed
    from glassbert.typed import check_keys, settings_from

    tables = changed({}, changes or ())
    check_keys(tables, ("data",), "--set")
    table = {"skip_bad": skip_bad, **({"format": format} if format else {}), **tables.get("data", {})}
    return settings_from(ReadOptions, table, "data")
