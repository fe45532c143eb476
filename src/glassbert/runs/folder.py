"""A run folder belongs to one recipe on one text: the same command resumes it, another is refused."""

import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from glassbert.errors import DataError, UserError
from glassbert.parsing import parse_toml
from glassbert.runs.recipe import Tables, read_recipe, write_recipe
from glassbert.storage import locked, read_json, read_log, write_atomically, write_json
from glassbert.training.checkpoint import checkpoints
from glassbert.training.log import METRICS
from glassbert.training.processes import is_main_process

RECIPE = "recipe.toml"
DATA = "data.json"
# What a resumed run may change in [train]: it does not touch what is computed, or only where.
FREE_TO_CHANGE = frozenset({"save_every", "keep", "log_every", "evaluate_every", "strategy", "device"})


def open_run(out: Path, tables: Tables, complete: Callable[[Tables], Tables] = dict) -> None:
    """Write recipe.toml into the run folder; refuse one that belongs to another run.

    Args:
        complete: Fills in settings that did not exist when the run was started, and renames old keys.
    """
    text = write_recipe(tables)
    path = out / RECIPE
    if path.is_file():
        found = read_recipe(path)
        if kind_of(found) != kind_of(tables):
            raise UserError(f"{out} holds a run of {kind_of(found)}; name another folder with --out")
        before = complete(found)
        difference = first_difference(write_recipe(before), text)
        if difference:
            raise UserError(f"{out} holds a run with another {difference}; name another folder with --out")
    elif out.is_dir() and _holds_other_things(out):
        raise UserError(f"{out} is not empty and holds no run; name another folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode("utf-8"))


def check_recipe_file(recipe: Path, out: Path) -> None:
    """Refuse a folder whose recipe.toml is the user's own: a run writes all settings there, and no comments.

    A run that is there already was started with that file, which may then be named to resume it.
    """
    path = out / RECIPE
    if path.is_file() and path.samefile(recipe) and not (out / DATA).is_file():
        raise UserError(f"{path} would be replaced by the settings of the run; name another --out")


def forget_run(out: Path) -> None:
    """Delete the folder of a run that failed before there was anything to inspect or resume."""
    if is_main_process() and not checkpoints(out) and not read_log(out / METRICS):
        shutil.rmtree(out, ignore_errors=True)


def kind_of(tables: Tables) -> str:
    """Return what a recipe trains: pretrain, or the name of its task."""
    return str(tables.get("task", {}).get("name", "pretrain"))


def _holds_other_things(out: Path) -> bool:
    names = {path.name for path in out.iterdir()}
    # Another process may be claiming the folder right now, or was killed while it did.
    return RECIPE not in names and any(not name.startswith(".") for name in names)


def lock_run(out: Path) -> AbstractContextManager[None]:
    """Keep other commands out of a run folder: a second run would delete what the first is writing.

    The processes that torchrun started share the folder.
    """
    return locked(out, "another run") if is_main_process() else nullcontext()


def check_data(out: Path, data: Mapping[str, Any]) -> None:
    """Write data.json into the run folder; refuse to resume on data that has changed."""
    path = out / DATA
    before = read_json(path) if path.is_file() else {}
    for name, now in data.items():
        if name in before and before[name] != now:
            sides = [one for one in (before[name], now) if isinstance(one, Mapping)]
            counts = [one["num_tokens"] for one in sides if isinstance(one.get("num_tokens"), int)]
            amounts = [f"{count:,} tokens" for count in counts]
            raise DataError(
                f"data.{name} is not the text that {out} was started with"
                + (f" ({', now '.join(amounts)})" if len(amounts) == 2 else "")
                + "; restore it, or name another folder with --out"
            )
    write_json(path, data)


def first_difference(old: str, new: str) -> str | None:
    """Return the first setting that differs between two recipes and matters to what is computed."""
    before, after = parse_toml(old), parse_toml(new)
    for name in after:
        for key in sorted({*before.get(name, {}), *after[name]}):
            if name == "train" and key in FREE_TO_CHANGE:
                continue
            was, now = before.get(name, {}).get(key), after[name].get(key)
            if was != now:
                return f"{name}.{key} ({was!r}, now {now!r})"
    return None


def plain_tables(tables: Mapping[str, Mapping[str, Any]]) -> Tables:
    """Return the tables of a recipe with paths as strings and without what is unset or an empty list."""
    return {name: _plain(table) for name, table in tables.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None and item != ()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
