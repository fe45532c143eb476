"""JSON and TOML, in and out: the one place that parses what others wrote, and that writes JSON.

Whatever the text, the result is bounded: no deeper than `MAX_DEPTH`, no number that a float cannot hold, no
key twice in an object, no lone surrogate. Anything else is a `FormatError` of one line.
"""

import json
import math
import re
import tomllib
from typing import Any

from glassbert.errors import ModelError

MAX_SIZE = 2**30
"""Characters of the longest text that is parsed."""
MAX_DEPTH = 64
"""Depth of nested lists and objects; real files have about ten."""
MAX_PARTS = 100_000
"""Lists and objects in a file that describes something; real ones have a few thousand."""
MAX_DIGITS = 300
"""Digits of the longest whole number: any longer one would be too large for a float."""

_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


class FormatError(ValueError):
    """Why a text was not accepted, in one line; ``line`` and ``column`` count from 1, if they are known."""

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(reason if line is None else f"{reason} at line {line}, column {column}")
        self.reason, self.line, self.column = reason, line, column


def parse_json(text: str | bytes, *, allow_halves: bool = False, max_parts: int | None = None) -> Any:
    """Return the value of a JSON text; raise FormatError for one that is not JSON or not bounded.

    Args:
        allow_halves: Accept strings with half of a character, as raw text from the web may have them.
        max_parts: Lists and objects that it may hold; each costs microseconds.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text))
        elif not allow_halves:
            _check_text(text)
        _check_size(text)
        num_parts = text.count("[") + text.count("{")
        if max_parts is not None and num_parts > max_parts:
            raise FormatError(f"{num_parts:,} lists and objects; at most {max_parts:,} are read")
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise FormatError(error.msg, error.lineno, error.colno) from None
    except UnicodeDecodeError as error:
        raise FormatError(f"byte {error.start} is not {error.encoding}") from None
    except RecursionError:
        raise _too_deep() from None
    # Nearly all texts have few brackets and no escaped halves of characters: they need no second look.
    may_have_halves = not allow_halves and ("\\ud" in text or "\\uD" in text)
    if may_have_halves or num_parts > MAX_DEPTH:
        _check_values(value, allow_halves=allow_halves)
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text; raise FormatError for one that is not TOML or not bounded.

    NaN and infinity are numbers in TOML; the ranges of settings refuse them.
    """
    _check_text(text)
    _check_size(text)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(str(error)) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:  # Python refuses to read thousands of digits
        raise _too_long() from None
    _check_values(tables)
    return tables


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return ``value`` as strict JSON; Chinese is not escaped.

    A number that is not finite is refused. Bytes of a file name that are not UTF-8 are written as `\\udcff`.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    except ValueError:
        raise ModelError(
            f"{_not_finite(value)}, which JSON cannot hold; the model's numbers have overflowed, use another"
        ) from None
    return text if is_text(text) else _HALF_CHARACTER.sub(lambda half: f"\\\\u{ord(half[0]):04x}", text)


def is_text(text: str) -> bool:
    """Return whether a string can be written as UTF-8: it holds no half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FormatError(f"the key {twice[:40]!r} occurs twice")
    return found


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _too_long()
    return int(digits)


def _real(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise FormatError(f"the number {digits[:40]} is too large")
    return number


def _no_number(name: str) -> Any:
    raise FormatError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_float=_real, parse_constant=_no_number
)


def _check_text(text: str) -> None:
    if not is_text(text):
        raise FormatError("half of a character, a lone surrogate")


def _check_size(text: str) -> None:
    if len(text) > MAX_SIZE:
        raise FormatError(f"{len(text):,} characters; at most {MAX_SIZE:,} are read")


def _check_values(value: Any, *, allow_halves: bool = False) -> None:
    """Refuse nesting that is too deep, numbers that are too long, and lone surrogates."""
    level, depth = [value], 0
    while level:
        deeper: list[Any] = []
        for one in level:
            if isinstance(one, str):  # first and quickly: a vocabulary has tens of thousands
                if not (allow_halves or one.isascii()):
                    _check_text(one)
            elif isinstance(one, dict | list):
                if depth == MAX_DEPTH:
                    raise _too_deep()
                deeper += one
                deeper += one.values() if isinstance(one, dict) else ()
            elif isinstance(one, int) and abs(one) >= 10**MAX_DIGITS:
                raise _too_long()
        level, depth = deeper, depth + 1


def _too_deep() -> FormatError:
    return FormatError(f"lists within lists, more than {MAX_DEPTH} deep")


def _too_long() -> FormatError:
    return FormatError(f"a number of more than {MAX_DIGITS} digits")


def _not_finite(value: Any, name: str = "the result") -> str | None:
    """Return what is not finite in a value, such as `scores.neg is nan`; None if everything is."""
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{name} is {value}"
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    prefix = "" if name == "the result" else f"{name}."
    return next(filter(None, (_not_finite(item, f"{prefix}{key}") for key, item in items)), None)
