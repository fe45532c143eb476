"""A quantity that was measured several times, and what follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import Literal

Verdict = Literal["holds", "does not hold", "unclear"]

# Student's t at 97.5% for 1, 2, ... degrees of freedom; the normal distribution's value beyond.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_T_OF_MANY = 1.96


@dataclass(frozen=True)
class Estimate:
    """The mean of several measurements with its 95% interval."""

    mean: float
    low: float
    high: float
    values: tuple[float, ...] = ()
    """One of each seed."""
    kind: Literal["estimate"] = "estimate"

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """Return the mean with Student's interval; of a single value the interval is that value."""
        values = tuple(float(value) for value in values)
        centre = mean(values)
        if len(values) == 1:
            return cls(centre, centre, centre, values)
        t = _T[len(values) - 2] if len(values) - 2 < len(_T) else _T_OF_MANY
        reach = t * stdev(values) / sqrt(len(values))
        return cls(centre, centre - reach, centre + reach, values)

    def __str__(self) -> str:
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"

    def above(self, limit: float) -> Verdict:
        """Return whether the quantity is above ``limit``: unclear while the interval contains the limit."""
        return "holds" if self.low > limit else "does not hold" if self.high < limit else "unclear"

    def below(self, limit: float) -> Verdict:
        """Return whether the quantity is below ``limit``."""
        return "holds" if self.high < limit else "does not hold" if self.low > limit else "unclear"

    def about(self, value: float, tolerance: float) -> Verdict:
        """Return whether the quantity is within ``tolerance`` of ``value``: unclear while it may not be."""
        low, high = value - tolerance, value + tolerance
        if low <= self.low and self.high <= high:
            return "holds"
        return "does not hold" if self.high < low or high < self.low else "unclear"


def differences(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Return the mean of first - second, seed by seed: what the seeds share cancels."""
    return Estimate.of([a - b for a, b in zip(first, second, strict=True)])


def verdict(is_so: bool) -> Verdict:
    """Return the verdict on something that was computed and not sampled."""
    return "holds" if is_so else "does not hold"
