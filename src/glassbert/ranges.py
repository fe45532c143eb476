"""Ranges of numbers for settings, options and config fields, written in their types.

`steps: Annotated[int, Range(1, 10**9)]` is checked wherever the value comes from: a recipe, the command line,
Python, or a file. NaN is in no range; infinity only in one that ends there.
"""

from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True)
class Range:
    """All numbers from ``low`` to ``high``."""

    low: float
    high: float
    has_low: bool = True
    """Whether ``low`` itself is one of them."""
    has_high: bool = True

    def __contains__(self, value: float) -> bool:
        is_above = value >= self.low if self.has_low else value > self.low
        return is_above and (value <= self.high if self.has_high else value < self.high)

    def __str__(self) -> str:
        low = f"{'at least' if self.has_low else 'more than'} {_plain(self.low)}"
        return f"{low} and {'at most' if self.has_high else 'less than'} {_plain(self.high)}"

    def __call__(self, _: object, value: Any) -> None:
        """Refuse a value of an option of the command line, as a validator of cyclopts."""
        for one in value if isinstance(value, list | tuple) else (value,):
            if one is not None and one not in self:
                raise ValueError(f"Expected {self}.")


def _plain(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


COUNT = Range(1, 10**9)
COUNT_OR_NONE = Range(0, 10**9)
LENGTH = Range(1, 10**6)
SHARE = Range(0, 1)
SHARE_ABOVE_ZERO = Range(0, 1, has_low=False)
SHARE_BELOW_ONE = Range(0, 1, has_high=False)
SEED = Range(0, 2**62)
PROCESSES = Range(1, 1024)
MINUTES = Range(0, 10**7)
VOCABULARY_SIZE = Range(1, 2**24)
BEAM = Range(1, 1000)
STEPS = Range(1, 1000)
PORT = Range(0, 65_535)
SECONDS = Range(0, 86_400)
LENGTH_PENALTY = Range(-100, 100)
TEMPERATURE = Range(1e-4, 1e4)

Count = Annotated[int, COUNT]
"""At least one of something."""
CountOrNone = Annotated[int, COUNT_OR_NONE]
"""Some of something, or 0 of it."""
Length = Annotated[int, LENGTH]
"""Tokens of one text."""
Share = Annotated[float, SHARE]
"""A part of a whole, which may be all of it."""
ShareAboveZero = Annotated[float, SHARE_ABOVE_ZERO]
"""A part of a whole, but not nothing."""
ShareBelowOne = Annotated[float, SHARE_BELOW_ONE]
"""A part of a whole, but not all of it."""
VocabularySize = Annotated[int, VOCABULARY_SIZE]
"""Rows of a table of pieces."""
Beam = Annotated[int, BEAM]
"""Hypotheses of one sequence."""
Steps = Annotated[int, STEPS]
"""Points of an integral; where to take N of them is found with a matrix of N by N."""
Seed = Annotated[int, SEED]
"""Starts a random sequence."""
SecondsAboveZero = Annotated[float, Range(0, 86_400, has_low=False)]
"""A time that something may take."""
Bytes = Annotated[int, Range(1, 2**40)]
"""A size in memory or on disk."""
Rate = Annotated[float, Range(0, 10, has_low=False)]
"""A learning rate; any higher one would only lose the weights."""
Epochs = Annotated[float, Range(0, 10_000, has_low=False)]
"""Passes over the data, which are counted in steps before the first."""
