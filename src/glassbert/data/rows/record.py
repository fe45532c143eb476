"""What the readers hand to each other: records, remarks, and the reason why a value is of no use."""

from collections import Counter
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    """A row, or an object of JSON: what stands in it under which name, and where it stands."""

    where: str
    values: dict[str, Any]


class Unusable(Exception):
    """A row that cannot be used; the message is the reason."""


class Notes:
    """What the user should know about a file."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def say(self, remark: str) -> None:
        """Take down a remark."""
        self._counts.setdefault(remark, 0)

    def count(self, event: str) -> None:
        """Count an event that may come more than once."""
        self._counts[event] += 1

    def lines(self) -> list[str]:
        """Return the remarks, those that were counted with their count."""
        return [f"{note}: {count:,}" if count else note for note, count in self._counts.items()]


def shown(value: object, length: int = 40) -> str:
    """Return ``value`` as an error message shows it: quoted, on one line, not too long."""
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= length else text[: length - 3] + "...")
