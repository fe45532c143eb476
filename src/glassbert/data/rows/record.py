"""What readers pass to each other: records, notes, and the reason why a row cannot be used."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LONGEST_LABEL = 1000
"""Characters; a longer one is a text in the wrong column."""

MAX_COLUMNS = 10_000
"""Of a row or an object; more are not a table."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Record:
    """A row or a JSON object: its place in the file, and its values by name."""

    where: str
    values: dict[str, Any]


class Unusable(Exception):
    """A row that cannot be used; the message is the reason."""


class Notes:
    """What the user should know about a file."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def say(self, remark: str) -> None:
        """Add a remark."""
        self._counts.setdefault(remark, 0)

    def count(self, event: str) -> None:
        """Count an event that may happen more than once."""
        self._counts[event] += 1

    def lines(self) -> list[str]:
        """Return the remarks, with the counts of those that were counted."""
        return [f"{note}: {count:,}" if count else note for note, count in self._counts.items()]


def text_of(values: Mapping[str, Any], role: str) -> str:
    """Return the text under ``role``; raise Unusable if it is missing or not a string. It may be empty."""
    if role not in values:
        raise Unusable(f"no {role}; name its column with --set data.columns.{role}=NAME")
    text = values[role]
    if not isinstance(text, str):
        raise Unusable(f"the {role} is not a string but {shown(text)}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise Unusable(f"the {role} holds half of a character (a lone surrogate)") from None
    return text


def label_of(name: str) -> str:
    """Return the name of a label; raise Unusable for one that no table or log can show on a line."""
    if len(name) > LONGEST_LABEL:
        raise Unusable(f"a label of {len(name):,} characters; expected at most {LONGEST_LABEL:,}")
    if _CONTROL.search(name):
        raise Unusable(f"the label {shown(name)} holds a line end or another control character")
    return name


def shown(value: object, length: int = 40) -> str:
    """Return ``value`` as an error message shows it: quoted, on one line, not too long."""
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= length else text[: length - 3] + "...")


def nearest_place(text: str, part: str, start: int) -> int | None:
    """Return the place of ``part`` in ``text`` that is nearest to ``start``; None if it is not there."""
    start = max(start, 0)
    before = text.rfind(part, 0, start + len(part))
    after = text.find(part, start)
    places = [place for place in (before, after) if place >= 0]
    return min(places, key=lambda place: abs(place - start), default=None)
