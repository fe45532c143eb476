"""Recipes: TOML tables and `--set a.b=v`; `glassbert.typed` makes dataclasses of them."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from glassbert.errors import UserError
from glassbert.open_files import read_regular
from glassbert.parsing import FormatError, is_text, parse_toml

# Characters that a TOML string must escape.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
Tables = dict[str, dict[str, Any]]


def read_recipe(path: Path, changes: Iterable[str] = ()) -> Tables:
    """Return the tables of a recipe with ``changes``, each `table.key=value`, applied."""
    try:
        tables = parse_toml(read_regular(path, error=UserError).decode("utf-8"))
    except (FormatError, UnicodeDecodeError) as error:
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
        lines.append(f"[{name}]")
        for key, value in table.items():
            if value is not None:
                lines.append(f"{key} = {_toml(value)}")
                if not is_text(lines[-1]):
                    raise UserError(
                        f"{name}.{key} holds a name that is not UTF-8, as TOML must be; rename the file"
                    )
        lines.append("")
    return "\n".join(lines)


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
        value = parse_toml(f"value = {text.strip()}")["value"]
    except FormatError:
        value = text.strip()  # a bare word, such as a path, is a string
    set_value(tables, key, value, shown=f"--set {change}")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + '"'
