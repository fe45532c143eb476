"""A run folder belongs to one recipe: the same command goes on with it, another is refused."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassbert.errors import UserError
from glassbert.storage import write_atomically
from glassbert.training.recipe import write_recipe
from glassbert.training.settings import FREE_TO_CHANGE

RECIPE = "recipe.toml"
Tables = dict[str, dict[str, Any]]


def claim_folder(out: Path, tables: Tables) -> None:
    """Write recipe.toml into the run folder; refuse one that belongs to another run."""
    text = write_recipe(tables)
    path = out / RECIPE
    if path.is_file():
        difference = first_difference(path.read_text(encoding="utf-8"), text)
        if difference:
            raise UserError(f"{out} holds a run with another {difference}; name another folder with --out")
    elif out.is_dir() and any(out.iterdir()):
        raise UserError(f"{out} is not empty and holds no run; name another folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode("utf-8"))


def first_difference(old: str, new: str) -> str | None:
    """Return the first setting that differs between two recipes and matters to what is computed."""
    before, after = tomllib.loads(old), tomllib.loads(new)
    for name in after:
        for key in sorted({*before.get(name, {}), *after[name]}):
            if name == "train" and key in FREE_TO_CHANGE:
                continue
            was, now = before.get(name, {}).get(key), after[name].get(key)
            if was != now:
                return f"{name}.{key} ({was!r}, now {now!r})"
    return None


def plain_tables(tables: Mapping[str, Mapping[str, Any]]) -> Tables:
    """Return the tables of a recipe with paths as strings and without what is not set."""
    return {
        name: {
            key: str(value) if isinstance(value, Path) else value
            for key, value in table.items()
            if value is not None
        }
        for name, table in tables.items()
    }
