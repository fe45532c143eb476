"""Values from outside, checked by the type hints of a dataclass: tables of a recipe, and our own JSON files.

Ranges of numbers are part of the hints; see `ranges`.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from numbers import Integral, Number, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from glassbert.errors import UserError
from glassbert.ranges import Range

Settings = TypeVar("Settings")
_SHOWN = 80
"""Characters of a wrong value that a message shows."""
_MAX_NAME_BYTES, _MAX_PATH_BYTES = 255, 4095
_NAMES = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}


def hints_of(kind: type[Any]) -> Mapping[str, Any]:
    """Return the type of each field of a dataclass, with its range."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}


def settings_from(
    kind: type[Settings], table: Mapping[str, Any], name: str, *, error: type[UserError] = UserError
) -> Settings:
    """Make a dataclass of a table; keys, types and ranges are checked.

    Args:
        name: Of the table, for messages.
        error: What to raise.
    """
    assert is_dataclass(kind)
    required = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    check_keys(table, hints_of(kind), name, error=error)
    for key in sorted(required - set(table)):
        advice = f"set it in the recipe or with --set {name}.{key}=..." if error is UserError else "write it"
        raise error(f"{name}.{key} is missing; {advice}")
    whole = {key: _with_defaults(kind, key, value) for key, value in table.items()}
    return kind(**typed_values(whole, hints_of(kind), name, error=error))


def _with_defaults(kind: type[Any], key: str, value: Any) -> Any:
    """Return a nested table, completed with the defaults of ``kind``.

    The class of the nested table may have other defaults: an objective can mask tokens in its own way.
    """
    field = next(field for field in fields(kind) if field.name == key)
    default = field.default if field.default_factory is MISSING else field.default_factory()
    if not (isinstance(value, Mapping) and is_dataclass(default)):
        return value
    optional = (
        one.name for one in fields(default) if (one.default, one.default_factory) != (MISSING, MISSING)
    )
    return {name: getattr(default, name) for name in optional} | dict(value)


def record_from(kind: type[Settings], content: Any, source: str, *, error: type[UserError]) -> Settings:
    """Make a dataclass of the content of a file that we wrote ourselves.

    Args:
        source: The file's name, for messages.
        error: What to raise for a file that is damaged.
    """
    if not isinstance(content, Mapping):
        raise error(f"{source}: expected a JSON object, got {shown(content)}")
    known = hints_of(kind)
    assert is_dataclass(kind)
    for field in fields(kind):
        is_required = field.default is MISSING and field.default_factory is MISSING
        if is_required and field.name not in content:
            raise error(f"{source}: no {field.name}")
    values = {key: value for key, value in content.items() if key in known}
    try:
        return kind(**typed_values(values, known, "", error=error))
    except UserError as problem:
        raise error(f"{source}: {problem}") from None


def typed_values(
    table: Mapping[str, Any], hints: Mapping[str, Any], name: str, *, error: type[UserError] = UserError
) -> dict[str, Any]:
    """Return the values of a table by key, each of the type that ``hints`` has for it."""
    prefix = f"{name}." if name else ""
    return {key: typed(value, hints[key], f"{prefix}{key}", error=error) for key, value in table.items()}


def check_keys(
    table: Mapping[str, Any], known: Iterable[str], name: str, *, error: type[UserError] = UserError
) -> None:
    """Refuse unknown keys; suggest the known one that looks most like them."""
    names = list(known)
    for key in table:
        if key not in names:
            guess = get_close_matches(key, names, n=1)
            hint = f"did you mean {name}.{guess[0]}?" if guess else f"known: {', '.join(names)}"
            raise error(f"unknown key {name}.{key}; {hint}")


def check_fields(settings: Any, table: str = "", *, skip: Collection[str] = ()) -> None:
    """Refuse a dataclass with a number outside its range, or with a choice that does not exist.

    Every settings class calls it in `__post_init__`: what Python code passes is checked like a recipe.

    Args:
        table: Name of its table, for messages.
        skip: Fields that are not checked here, such as choices that others may add to.
    """
    prefix = f"{table}." if table else ""
    for name, hint in hints_of(type(settings)).items():
        if _is_bounded(hint) and name not in skip:
            value = getattr(settings, name)
            found = typed(value, hint, f"{prefix}{name}")
            if isinstance(value, Number) and not isinstance(value, int | float):  # JSON has no place for it
                object.__setattr__(settings, name, found)


def typed(value: Any, hint: Any, name: str, *, error: type[UserError] = UserError) -> Any:
    """Return ``value`` if it has the type ``hint``; an int is also accepted as a float.

    Args:
        name: What the value is called, for messages.
        error: What to raise.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _in_range(typed(value, arguments[0], name, error=error), hint, name, error)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        return typed(value, next(one for one in arguments if one is not NoneType), name, error=error)
    if origin is Literal:
        if not isinstance(value, str | int) or value not in arguments:
            raise error(f"{name}={shown(value)}; expected one of {', '.join(map(str, arguments))}")
        return value
    if isinstance(hint, type) and is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise error(f"{name}={shown(value)}; expected a table")
        return settings_from(hint, value, name, error=error)
    if origin is not None:
        return _typed_items(value, origin, arguments, name, error)
    return _typed_value(value, hint, name, error)


def fits(value: Any, hint: Any) -> bool:
    """Return whether ``value``, and everything in it, has the type ``hint``; an int also fits a float."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin is Literal:
        return isinstance(value, str | int) and value in arguments
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in arguments)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        kinds = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        return len(value) == len(kinds) and all(map(fits, value, kinds))
    if origin in (Mapping, dict):
        return isinstance(value, Mapping) and all(
            fits(name, arguments[0]) and fits(one, arguments[1]) for name, one in value.items()
        )
    if isinstance(hint, type) and is_dataclass(hint):
        return isinstance(value, hint) and all(
            fits(getattr(value, name), one) for name, one in hints_of(hint).items()
        )
    if isinstance(value, bool) or hint is not float:
        return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))
    return isinstance(value, int | float)


def shown(value: Any) -> str:
    """Return a wrong value for a message: on one line, and not too long."""
    try:
        text = repr(value)
    except Exception:  # a number of thousands of digits, or a class of somebody else
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text):,} characters)"


def _in_range(value: Any, hint: Any, name: str, error: type[UserError]) -> Any:
    for limit in hint.__metadata__:
        if isinstance(limit, Range) and value is not None and value not in limit:
            raise error(f"{name}={shown(value)}; expected {_NAMES[hint.__origin__]} of {limit}")
    return value


def _typed_items(
    value: Any, origin: Any, arguments: tuple[Any, ...], name: str, error: type[UserError]
) -> Any:
    """Return a mapping, or a list as a tuple, whose items have the right type."""
    if origin in (Mapping, dict):
        if not isinstance(value, Mapping):
            raise error(f'{name}={shown(value)}; expected a table such as {{ text = "review" }}')
        if arguments[1] is str:  # numbers of columns are written without quotes
            return {str(key): str(item) for key, item in value.items()}
        if _are_all(value.values(), arguments[1]):
            return dict(value)
        return {key: typed(item, arguments[1], f"{name}.{key}", error=error) for key, item in value.items()}
    if not isinstance(value, list | tuple):
        raise error(f"{name}={shown(value)}; expected a list")
    if _are_all(value, arguments[0]):
        return tuple(value)
    return tuple(typed(item, arguments[0], f"{name}[{at}]", error=error) for at, item in enumerate(value))


def _are_all(values: Iterable[Any], kind: Any) -> bool:
    """Return whether values are plain ones of a type; a vocabulary has too many to ask each for more."""
    return kind in (int, float, str) and set(map(type, values)) <= {kind}


def _typed_value(value: Any, hint: Any, name: str, error: type[UserError]) -> Any:
    if hint is Any:
        return value
    if hint in (int, float) and not isinstance(value, bool):  # numpy's numbers too
        value = _plain_number(value, hint)
    if hint is Path and isinstance(value, str):
        return _typed_path(value, name, error)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise error(f"{name}={shown(value)}; expected {_NAMES.get(hint, hint.__name__)}")
    return value


def _plain_number(value: Any, kind: type[int | float]) -> Any:
    """Return a number as ``kind``; anything else, and what ``kind`` cannot hold, unchanged."""
    is_number = isinstance(value, Integral if kind is int else Real)
    try:
        return kind(value) if is_number else value
    except OverflowError:
        return value


def _typed_path(value: str, name: str, error: type[UserError]) -> Path:
    """Return a path that the system can be asked about; asking for another raises errors of all kinds."""
    path = Path(value)
    try:
        longest = max((len(os.fsencode(part)) for part in path.parts), default=0)
    except UnicodeEncodeError:
        raise error(f"{name}={shown(value)}; expected a path of whole characters") from None
    if "\0" in value or longest > _MAX_NAME_BYTES or len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise error(
            f"{name}={shown(value)}; expected a path without the character NUL, of at most "
            f"{_MAX_PATH_BYTES} bytes and {_MAX_NAME_BYTES} in each name"
        )
    return path


def _is_bounded(hint: Any) -> bool:
    """Return whether a type has a range or a list of choices, perhaps beside None."""
    if get_origin(hint) in (Union, UnionType):
        return any(map(_is_bounded, get_args(hint)))
    return get_origin(hint) in (Annotated, Literal)
