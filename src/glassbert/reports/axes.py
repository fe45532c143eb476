"""Scales that map numbers to positions, round ticks, and labels that fit."""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear map of [low, high] to [start, stop]."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """Return the position of a value."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + share * (self.stop - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Return about ``count`` round values within the range."""
        if not self.high > self.low:
            return [self.low]
        step = round_step((self.high - self.low) / count)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [index * step for index in range(first, last + 1)]


def round_step(rough: float) -> float:
    """Return the 1, 2 or 5 times a power of ten that is nearest above ``rough``."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))


def spanning(values: Sequence[float], start: float, stop: float) -> Scale:
    """Return a scale from the lowest to the highest value, or from 0 if the lowest is close to it.

    It is a little wider if all values are the same.
    """
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if 0 < low < high / 2:
        low = 0.0
    if low == high:
        room = abs(low) * 0.1 or 1.0
        low, high = low - room, high + room
    return Scale(low, high, start, stop)


def written(value: float) -> str:
    """Return a number as the label of a tick."""
    if value and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def width_of(text: str) -> int:
    """Return the width of a text in columns; Chinese characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def shortened(text: str, columns: int) -> str:
    """Return ``text`` cut to ``columns``, with an ellipsis if something was cut."""
    if width_of(text) <= columns:
        return text
    kept = ""
    for character in text:
        if width_of(kept + character) > columns - 1:
            break
        kept += character
    return kept + "\u2026"
