"""Thresholds: the score from which a guess is good enough, for a class or for a model that may abstain.

Legend: N examples, C classes.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassbert.metrics.calibration import Gold

USUAL_PRECISION = 0.95
_MARGIN = 1e-4
"""Twice how far a threshold that accepts all scores lies below the lowest."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A score, and the result of accepting every guess that reaches it."""

    threshold: float
    precision: float
    """The share of right ones among those accepted."""
    recall: float
    """The share of accepted ones among those right."""
    coverage: float
    """The share accepted."""


@dataclass(frozen=True, slots=True)
class ClassThreshold:
    """The threshold of a class; None if no score reaches what is wanted."""

    label: str
    support: int
    threshold: Threshold | None

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class ThresholdCurve:
    """The result of each possible threshold, from the highest score to the lowest."""

    threshold: NDArray[np.float64]
    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    coverage: NDArray[np.float64]

    @property
    def f1(self) -> NDArray[np.float64]:
        """The harmonic mean of precision and recall, 0 where both are."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / np.where(total > 0, total, 1.0)

    def __len__(self) -> int:
        return len(self.threshold)

    def __getitem__(self, index: int) -> Threshold:
        values = (self.threshold, self.precision, self.recall, self.coverage)
        return Threshold(*(float(value[index]) for value in values))

    def thinned(self, points: int) -> "ThresholdCurve":
        """Return the curve with at most ``points`` points, first and last included: enough for a plot."""
        chosen = np.unique(np.linspace(0, len(self) - 1, min(points, len(self))).round().astype(np.int64))
        return ThresholdCurve(
            self.threshold[chosen], self.precision[chosen], self.recall[chosen], self.coverage[chosen]
        )

    def to_json(self) -> dict[str, list[float]]:
        """Return everything as plain JSON values."""
        return {field.name: getattr(self, field.name).tolist() for field in fields(self)}


@dataclass(frozen=True, eq=False)
class Acceptance:
    """Which guesses of a classifier can be accepted, and what rejecting the others would give."""

    precision: float
    """The share of right ones that the thresholds promise among accepted guesses."""
    thresholds: tuple[ClassThreshold, ...]
    curve: ThresholdCurve | None
    """Accuracy over the share answered, for a model that gives one label or none."""


def threshold_curve(scores: NDArray[np.floating], is_right: NDArray[np.bool_]) -> ThresholdCurve:
    """Return precision, recall and coverage at every distinct score, each of (N,).

    With the confidence of guesses as scores this is the curve of an abstaining model: its accuracy
    (precision) over the share of examples that it answers (coverage).
    """
    assert scores.shape == is_right.shape == (len(scores),)
    order = np.argsort(-scores, kind="stable")
    in_order = scores[order].astype(np.float64)
    num_right = np.cumsum(is_right[order])
    # Equal scores are accepted together: only the last of each run can be a threshold.
    ends = np.flatnonzero(np.append(np.diff(in_order) != 0, True))[: len(scores)]
    accepted, right = ends + 1, num_right[ends]
    total_right = max(int(is_right.sum()), 1)
    return ThresholdCurve(
        in_order[ends], right / accepted, right / total_right, accepted / max(len(scores), 1)
    )


def threshold_for(
    scores: NDArray[np.floating],
    is_right: NDArray[np.bool_],
    *,
    precision: float | None = None,
    recall: float | None = None,
) -> Threshold | None:
    """Return the threshold with the most recall at the wanted precision, or the most precision at the recall.

    If neither is given, it is the one with the best F1; of equals, the highest. None if nothing is right or
    no threshold reaches what is wanted. With the confidence of guesses as scores, ``precision`` is the
    accuracy that a model should have on what it answers. A threshold lies halfway between the lowest score
    that it accepts and the next one, so that rounding moves no score to the other side.
    """
    assert precision is None or recall is None, "give precision or recall, not both"
    if not is_right.any():
        return None
    curve = threshold_curve(scores, is_right)
    if precision is not None:
        fitting, value = np.flatnonzero(curve.precision >= precision), curve.recall
    elif recall is not None:
        fitting, value = np.flatnonzero(curve.recall >= recall), curve.precision
    else:
        fitting, value = np.arange(len(curve)), curve.f1
    if not len(fitting):
        return None
    index = int(fitting[np.argmax(value[fitting])])
    chosen = curve[index]
    below = float(curve.threshold[index + 1]) if index + 1 < len(curve) else chosen.threshold - _MARGIN
    return replace(chosen, threshold=(chosen.threshold + below) / 2)


def class_thresholds(
    scores: NDArray[np.floating],
    gold: Gold,
    labels: Sequence[str],
    *,
    precision: float | None = None,
    recall: float | None = None,
) -> tuple[ClassThreshold, ...]:
    """Return for each class what threshold_for finds among its scores, (N, C)."""
    assert scores.shape == (len(gold), len(labels))
    is_gold = gold if gold.ndim == 2 else gold[:, None] == np.arange(len(labels))  # (N, C)
    return tuple(
        ClassThreshold(
            label, int(column.sum()), threshold_for(of, column, precision=precision, recall=recall)
        )
        for label, of, column in zip(labels, scores.T, is_gold.T, strict=True)
    )


def acceptance(
    scores: NDArray[np.floating],
    is_gold: NDArray[np.bool_],
    labels: Sequence[str],
    *,
    has_one_label: bool,
    precision: float = USUAL_PRECISION,
    max_points: int = 500,
) -> Acceptance:
    """Find a threshold for each class, and the curve of a model that abstains below a threshold.

    Args:
        scores: The probability of each class, (N, C).
        is_gold: Whether an example has the class, (N, C).
        has_one_label: Whether an example has exactly one class; there is no curve otherwise.
        max_points: Points of the curve at most; more cannot be distinguished in a plot.
    """
    curve = None
    if has_one_label:
        is_right = is_gold[np.arange(len(scores)), scores.argmax(axis=1)]
        curve = threshold_curve(scores.max(axis=1), is_right).thinned(max_points)
    return Acceptance(precision, class_thresholds(scores, is_gold, labels, precision=precision), curve)
