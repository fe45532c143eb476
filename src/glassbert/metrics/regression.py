"""Scores of numbers."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RegressionReport:
    """How close guessed numbers are to the right ones."""

    pearson: float
    spearman: float
    mse: float
    mae: float
    points: tuple[tuple[float, float], ...] = field(default=(), repr=False)
    """Gold and guess of each example; for a plot, not for JSON."""

    def metrics(self) -> dict[str, float]:
        """Return the scores by the names that gates use."""
        return {name: getattr(self, name) for name in ("pearson", "spearman", "mse", "mae")}

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return self.metrics()


def regression(gold: NDArray[np.floating], guess: NDArray[np.floating]) -> RegressionReport:
    """Score one number for each example, (N,); the correlation with a constant is 0."""
    assert gold.shape == guess.shape == (len(gold),)
    a, b = gold.astype(np.float64), guess.astype(np.float64)
    error = b - a
    return RegressionReport(
        pearson=pearson(a, b),
        spearman=pearson(ranks(a), ranks(b)),
        mse=float(np.mean(error**2)) if len(error) else 0.0,
        mae=float(np.mean(np.abs(error))) if len(error) else 0.0,
        points=tuple(zip(a.tolist(), b.tolist(), strict=True)),
    )


def pearson(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return the linear correlation of two lists of numbers, 0 if either is constant."""
    unit_a, unit_b = _direction(a), _direction(b)
    if unit_a is None or unit_b is None:
        return 0.0
    return float(np.clip(unit_a @ unit_b, -1.0, 1.0))


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each value, counted from 1; equal values share the mean of their ranks."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[group]


def _direction(values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the values minus their mean as a vector of length 1; None if all are equal."""
    if not len(values) or values.max() == values.min():
        return None
    centred = values - values.mean()
    centred /= np.abs(centred).max()  # the square of a difference of 1e-200 is 0 in floating point
    return centred / np.linalg.norm(centred)
