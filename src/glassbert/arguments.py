"""Check the arguments of public functions by the functions' own type hints.

A wrong argument is an error of one line that names it, before anything is read, computed or written.
"""

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from types import FunctionType, NoneType, SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from glassbert.errors import UserError
from glassbert.typed import shown

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type[Any])

_UNCHECKED = {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
"""Settings by name have a checker of their own."""
_LISTS = (Sequence, Collection, Iterable, list, tuple)
_NAMES = {int: "a whole number", float: "a number", NoneType: "None", bool: "True or False"}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Make a public function refuse arguments that are not of the types in its signature.

    An array of numpy or a column of pandas may stand where a list is expected.
    """
    signature = inspect.signature(function)

    @cache
    def hints() -> Mapping[str, Any]:
        parameters = signature.parameters.values()
        return {one.name: hint_of(one, function) for one in parameters if one.kind not in _UNCHECKED}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        known = hints()
        by_place = [_fitting(name, known[name], value) for name, value in zip(known, args, strict=False)]
        by_name = {name: _fitting(name, known.get(name, Any), value) for name, value in kwargs.items()}
        return function(*by_place, *args[len(by_place) :], **by_name)  # type: ignore[arg-type]

    return call


def checked_methods(kind: C) -> C:
    """Make the public methods of a class refuse arguments that are not of the types in their signatures."""
    for name, method in list(vars(kind).items()):
        if name.startswith("_"):
            continue
        if isinstance(method, FunctionType):
            setattr(kind, name, checked(method))
        elif isinstance(method, classmethod):
            setattr(kind, name, classmethod(checked(method.__func__)))
    return kind


def _fitting(name: str, hint: Any, value: Any) -> Any:
    """Return an argument that is of its type, or becomes so as a list; refuse any other."""
    if accepts(hint, value):
        return value
    if hasattr(value, "tolist") and accepts(hint, as_list := value.tolist()):
        return as_list
    raise UserError(f"{name}={shown(value)}; expected {described(hint, value)}")


def hint_of(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    """Return the type of a parameter; Any if it has none, or one that only type checkers import."""
    name, hint = parameter.name, parameter.annotation
    if hint is parameter.empty:
        return Any
    try:
        names = getattr(inspect.unwrap(function), "__globals__", {})
        return get_type_hints(SimpleNamespace(__annotations__={name: hint}), names, include_extras=True)[name]
    except NameError:
        return Any


def accepts(hint: Any, value: Any) -> bool:
    """Return whether an argument is of a type; what cannot be checked, such as a protocol, is accepted.

    A str is not accepted as a list of str, although it is a sequence of str.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return accepts(arguments[0], value)
    if origin in (Union, UnionType):
        is_text_or_path = isinstance(value, str | Path) and Path in arguments
        return is_path(value) if is_text_or_path else any(accepts(one, value) for one in arguments)
    if origin is Literal:
        return isinstance(value, str | int) and value in arguments
    if origin is type:
        return isinstance(value, type)
    if origin is Callable:
        return callable(value)
    if origin in _LISTS and isinstance(value, str | bytes | bytearray):
        return False
    if origin in (Sequence, Collection, list, tuple):
        return _is_a(value, origin) and _accepts_all(arguments[0], value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            accepts(arguments[0], name) and accepts(arguments[1], item) for name, item in value.items()
        )
    return _is_a(value, origin or hint)


def is_path(value: str | Path) -> bool:
    """Return whether the system can encode this file name; it cannot if there is a lone surrogate in it."""
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


def _accepts_all(hint: Any, values: Collection[Any]) -> bool:
    if hint in (str, int):  # there may be a million of them: compare only their types, at the speed of C
        return all(issubclass(kind, Integral if hint is int else str) for kind in set(map(type, values)))
    return all(accepts(hint, value) for value in values)


def described(hint: Any, value: object = None) -> str:
    """Return what is expected instead of ``value``, for a message."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return described(arguments[0], value)
    if origin in (Union, UnionType):
        names = [
            "a path" if one in (str, Path) and Path in arguments else described(one) for one in arguments
        ]
        return " or ".join(dict.fromkeys(names))
    if origin is Literal:
        known = [str(one) for one in arguments]
        guess = get_close_matches(value, known, n=1) if isinstance(value, str) else []
        return f"one of {', '.join(known)}" + "".join(f" (nearest: {one!r})" for one in guess)
    if origin in _LISTS:
        advice = "; wrap it in a list" if isinstance(value, str) else ""
        return (f"a list of {described(arguments[0])}" if arguments else "a list") + advice
    if origin in (Mapping, Callable):
        return "a mapping" if origin is Mapping else "a function"
    return _NAMES.get(hint, getattr(hint, "__name__", str(hint)))


def _is_a(value: Any, kind: Any) -> bool:
    if kind in (int, float):  # numpy's numbers too
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    if not isinstance(kind, type) or kind is object:
        return True  # Any, and what is known to type checkers alone
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol
        return True
