"""Options that verbs share: the recipe of a run, and how rows are read."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from glassbert.data.examples import ReadOptions
from glassbert.errors import UserError

Tables = dict[str, dict[str, Any]]


def recipe_tables(
    recipe: Path | None,
    options: Mapping[str, Mapping[str, Any]],
    changes: Iterable[str] | None,
    needed: Mapping[str, tuple[str, str]],
) -> Tables:
    """Return the tables of a run's recipe.

    Args:
        options: Values by table and key; None where an option was not given.
        changes: What --set says.
        needed: By the option that gives it, the table and key without which there is no run.
    """
    from glassbert.runs.recipe import changed, read_recipe

    tables: Tables = read_recipe(recipe) if recipe else {}
    for name, table in options.items():
        values = {key: value for key, value in table.items() if value is not None}
        if values:
            tables[name] = {**tables.get(name, {}), **values}
    changed(tables, changes or ())
    for option, (name, key) in needed.items():
        if key not in tables.get(name, {}):
            raise UserError(f"{option} is missing; name it, or set {name}.{key} in a recipe")
    return tables


def read_options(changes: list[str] | None, format: str | None, skip_bad: int) -> ReadOptions:
    from glassbert.runs.recipe import changed, check_keys, settings_from

    tables = changed({}, changes or ())
    check_keys(tables, ("data",), "--set")
    table = {"skip_bad": skip_bad, **({"format": format} if format else {}), **tables.get("data", {})}
    return settings_from(ReadOptions, table, "data")
