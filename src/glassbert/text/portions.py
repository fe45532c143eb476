"""Texts and lists of texts in portions that the engine takes in bounded memory.

The engine needs about 200 times the memory of a text while it cuts it, and kills the process if it gets none.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from glassbert.errors import DataError
from glassbert.text.characters import CJK

T = TypeVar("T")

PORTION_CHARACTERS = 1 << 16
"""A longer text is cut into portions of about this size."""
GROUP_CHARACTERS = 1 << 20
"""Of the texts that are worked on at once."""

_LONGEST_WORD = 1 << 20

# Before each of these a word ends, whatever its neighbours are. Brackets are not among them: [MASK] has some.
_BORDER = re.compile(r"[ \t\n,.;:!?]")
_BORDER_OR_CHINESE = re.compile(f"[ \\t\\n,.;:!?{CJK}]")


def portions(text: str, *, are_chinese_apart: bool) -> Iterator[tuple[int, str]]:
    """Yield the portions of a text, each with its place; together they have the pieces of the whole.

    Args:
        are_chinese_apart: Whether each Chinese character is a word.
    """
    border = _BORDER_OR_CHINESE if are_chinese_apart else _BORDER
    start = 0
    while len(text) - start > PORTION_CHARACTERS:
        found = border.search(text, start + PORTION_CHARACTERS // 2)
        end = found.start() if found else len(text)
        if end - start > _LONGEST_WORD:
            raise DataError(
                f"a text has about {end - start:,} characters without a space or a comma; is it text?"
            )
        yield start, text[start:end]
        start = end
    if start < len(text) or not text:
        yield start, text[start:]


def grouped(
    items: Iterable[T],
    *,
    max_items: int | None = None,
    max_characters: int = GROUP_CHARACTERS,
    length: Callable[[Any], int] | None = None,
) -> Iterator[list[T]]:
    """Yield items in order in groups that are as large as the limits allow; an item is never cut.

    Args:
        length: Returns the characters of an item; not given, items are texts.
    """
    length = length or _length
    group: list[T] = []
    num_characters = 0
    for item in items:
        group.append(item)
        num_characters += length(item)
        if len(group) == max_items or num_characters >= max_characters:
            yield group
            group, num_characters = [], 0
    if group:
        yield group


def _length(text: object) -> int:
    return len(text) if isinstance(text, str) else 0  # the caller reports what is not a text
