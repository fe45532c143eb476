"""The numbers that settings, options and config fields may have: written in the type, beside the docstring.

`steps: Annotated[int, Range(1, 10**9)]` is refused outside of it wherever the value comes from: a recipe, the
command line, Python, or a file. NaN is in no range; infinity only where a range ends there.
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
        if value is not None and value not in self:
            raise ValueError(f"Expected {self}.")


def _plain(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


COUNT = Range(1, 10**9)
SHARE = Range(0, 1)
SHARE_BELOW_ONE = Range(0, 1, has_high=False)
SEED = Range(0, 2**63 - 1)

Count = Annotated[int, COUNT]
"""At least one of something."""
CountOrNone = Annotated[int, Range(0, 10**9)]
"""Some of something, or 0 of it."""
Length = Annotated[int, Range(1, 10**6)]
"""Tokens of one text."""
Share = Annotated[float, SHARE]
"""A part of a whole, which may be all of it."""
ShareBelowOne = Annotated[float, SHARE_BELOW_ONE]
"""A part of a whole, but not all of it."""
Seed = Annotated[int, SEED]
"""Starts a random sequence; 64 bits, as torch and numpy take them."""
