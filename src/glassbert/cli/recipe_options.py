"""The recipe of a training run from the command line: a file's tables, changed by options, then by --set."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

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
    from glassbert.training.recipe import changed, read_recipe

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
