"""Names of tensors and keys: translated by a table, and guessed when they are misspelt."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

_BLOCK_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
# Of the letters of both names, this share must agree to call one a misspelling of the other.
_MISSPELT = 0.85


def translated(name: str, modules: Mapping[str, str], tensors: Mapping[str, str]) -> str | None:
    """Return another name of a tensor, or None for a name that is in no table.

    Args:
        modules: Names without the last word, which is weight or bias; `{}` is the number of a block.
        tensors: Whole names.
    """
    if name in tensors:
        return tensors[name]
    module, _, parameter = name.rpartition(".")
    numbers = _BLOCK_NUMBER.findall(module + ".")
    pattern = modules.get(_BLOCK_NUMBER.sub("{}", module + ".").removesuffix("."))
    if pattern is None or parameter not in ("weight", "bias"):
        return None
    return f"{pattern.format(*numbers)}.{parameter}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that looks most like ``name``, for a helpful message."""
    return next(iter(get_close_matches(name, list(known), n=1)), None)


def misspelt(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``name`` is a misspelling of, if there is one."""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=_MISSPELT)), None)
