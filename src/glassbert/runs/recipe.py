"""Recipes: TOML tables and `--set a.b=v`, read into dataclasses. Unknown keys are errors."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from glassbert.errors import UserError

Settings = TypeVar("Settings")
Tables = dict[str, dict[str, Any]]


def read_recipe(path: Path, changes: Iterable[str] = ()) -> Tables:
    """Return the tables of a recipe with ``changes``, each `table.key=value`, applied."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not TOML: {error}") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UserError(f"{path}: {name!r} is outside a table; put it under a heading such as [train]")
    return changed(tables, changes)


def changed(tables: Tables, changes: Iterable[str]) -> Tables:
    """Return the tables with ``changes``, each `table.key=value`, applied in place."""
    for change in changes:
        _apply(tables, change)
    return tables


def write_recipe(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the tables as TOML; None is left out."""
    lines: list[str] = []
    for name, table in tables.items():
        lines += [
            f"[{name}]",
            *(f"{key} = {_toml(value)}" for key, value in table.items() if value is not None),
            "",
        ]
    return "\n".join(lines)


def settings_from(kind: type[Settings], table: Mapping[str, Any], name: str) -> Settings:
    """Make a settings dataclass of a table; keys and types are checked."""
    hints = get_type_hints(kind)
    assert is_dataclass(kind)
    required = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    check_keys(table, [f.name for f in fields(kind)], name)
    for key in sorted(required - set(table)):
        raise UserError(f"{name}.{key} is missing; set it in the recipe or with --set {name}.{key}=...")
    return kind(**typed_values(table, hints, name))


def typed_values(table: Mapping[str, Any], hints: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the values of a table by key, each of the type that ``hints`` has for it."""
    return {key: _typed(value, hints[key], f"{name}.{key}") for key, value in table.items()}


def check_keys(table: Mapping[str, Any], known: Iterable[str], name: str) -> None:
    """Refuse unknown keys; suggest the known one that looks most like them."""
    names = list(known)
    for key in table:
        if key not in names:
            guess = get_close_matches(key, names, n=1)
            hint = f"did you mean {name}.{guess[0]}?" if guess else f"known: {', '.join(names)}"
            raise UserError(f"unknown key {name}.{key}; {hint}")


def set_value(tables: Tables, key: str, value: Any, *, shown: str) -> None:
    """Set `table.key` in place; more dots lead into tables within the table.

    Args:
        shown: What the user wrote, for error messages.
    """
    *path, name = key.strip().split(".")
    if not (path and name and all(path)):
        raise UserError(f"{shown}: expected table.key=value, such as train.steps=100")
    table: dict[str, Any] = tables
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise UserError(f"{shown}: {part} is a value, not a table")
    table[name] = value


def _apply(tables: Tables, change: str) -> None:
    """Apply `table.key=value` in place."""
    key, separator, text = change.partition("=")
    if not separator:
        raise UserError(f"--set {change}: expected table.key=value, such as train.steps=100")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word, such as a path, is a string
    set_value(tables, key, value, shown=f"--set {change}")


def _typed(value: Any, hint: Any, name: str) -> Any:
    """Return ``value`` if it has the type ``hint``; an int is also accepted as a float."""
    if get_origin(hint) in (Union, UnionType):
        hints = [option for option in get_args(hint) if option is not NoneType]
        return _typed(value, hints[0], name)
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise UserError(f"{name}={value!r}; expected one of {', '.join(map(str, get_args(hint)))}")
        return value
    if is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise UserError(f"{name}={value!r}; expected a table")
        return settings_from(hint, value, name)
    if get_origin(hint) is Mapping:
        if not isinstance(value, Mapping):
            raise UserError(f'{name}={value!r}; expected a table such as {{ text = "review" }}')
        return {key: str(item) for key, item in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        expected = "true or false" if hint is bool else hint.__name__
        raise UserError(f"{name}={value!r}; expected {expected}")
    return value


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
