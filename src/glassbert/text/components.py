"""Chinese characters and the components that they are made of, from a file that the user gives."""

from collections.abc import Collection, Mapping
from pathlib import Path

from glassbert.errors import DataError
from glassbert.text.files import read_lines

Components = Mapping[str, frozenset[str]]
_MOST = 5


def read_components(path: str | Path) -> Components:
    """Read a file with a character and its components, separated by spaces, on each line."""
    found: dict[str, frozenset[str]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) < 2 or len(fields[0]) != 1:
            raise DataError(f"{path}:{number}: expected a character and its components, got {line[:40]!r}")
        found[fields[0]] = frozenset(fields[1:])
    if not found:
        raise DataError(f"{path}: no character in it; expected one with its components on each line")
    return found


def relatives(character: str, components: Components, known: Collection[str]) -> list[str]:
    """Return the known characters that share most components with one; at most five."""
    own = components.get(character, frozenset())
    shares = {
        other: 2 * len(own & components[other]) / (len(own) + len(components[other]))
        for other in known
        if other in components and own & components[other]
    }
    return sorted(shares, key=lambda other: (-shares[other], other))[:_MOST]
