"""Normalise text before it is cut into words, keeping track of the original position of each character.

Four steps, each a function from characters to characters: clean, put spaces around Chinese characters, strip
accents, lower the case. A character carries its span of the original text, so that in the end every piece can
be found in the text that the user wrote.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from glassbert.text.characters import (
    combining_class,
    decompose,
    is_accent,
    is_chinese,
    is_removed,
    is_space,
    lower,
)


class Character(NamedTuple):
    """One character of the text in its current form."""

    value: str
    start: int
    """Where it began in the original text."""
    end: int

    def replaced_by(self, value: str) -> "Character":
        """Return the same place of the text with another value."""
        return self if value == self.value else Character(value, self.start, self.end)


def normalise(
    text: str,
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
) -> list[Character]:
    """Return the characters that words are made of; ``strip_accents`` None means ``lowercase``."""
    characters: Iterable[Character] = (Character(value, at, at + 1) for at, value in enumerate(text))
    characters = clean(characters)
    if tokenize_chinese_chars:
        characters = space_chinese(characters)
    if lowercase if strip_accents is None else strip_accents:
        characters = without_accents(characters)
    if lowercase:
        characters = lowered(characters)
    return list(characters)


def clean(characters: Iterable[Character]) -> Iterator[Character]:
    """Drop control characters and replace every kind of space by a plain one."""
    for character in characters:
        if not is_removed(character.value):
            yield character.replaced_by(" ") if is_space(character.value) else character


def space_chinese(characters: Iterable[Character]) -> Iterator[Character]:
    """Put a space on both sides of each Chinese character: each is a word."""
    for character in characters:
        if is_chinese(character.value):
            yield from (character.replaced_by(value) for value in (" ", character.value, " "))
        else:
            yield character


def without_accents(characters: Iterable[Character]) -> Iterator[Character]:
    """Take letters and accents apart and drop the accents: e with acute becomes e."""
    for character in _decomposed(list(characters)):
        if not is_accent(character.value):
            yield character


def lowered(characters: Iterable[Character]) -> Iterator[Character]:
    """Lower the case; one capital can become two characters."""
    for character in characters:
        for value in lower(character.value):
            yield character.replaced_by(value)


def _decomposed(characters: list[Character]) -> Iterator[Character]:
    """Take each character apart, and sort the accents of a letter by class, as Unicode asks.

    The engine assigns places after sorting, from left to right: the first part of a character moves to the
    next place, a further part stays. So places always rise, even where accents swap.
    """
    parts = [
        (part, combining_class(part), number == 0)
        for character in characters
        for number, part in enumerate(decompose(character.value))
    ]
    at = -1
    for value, _, is_first in _canonically_ordered(parts):
        at += is_first
        yield characters[at].replaced_by(value)


def _canonically_ordered(parts: list[tuple[str, int, bool]]) -> Iterator[tuple[str, int, bool]]:
    """Sort each run of parts whose class is not 0; parts of the same class keep their order."""
    run: list[tuple[str, int, bool]] = []
    for part in parts:
        if part[1] == 0:
            if run:
                yield from sorted(run, key=lambda accent: accent[1])
                run.clear()
            yield part
        else:
            run.append(part)
    yield from sorted(run, key=lambda accent: accent[1])
