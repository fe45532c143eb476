"""Calibration: how far confidence and accuracy are apart, and the temperature that brings them together.

Legend: N examples, C classes. ``gold`` is one class index for each example, (N,), or a yes or no for each
example and class, (N, C); the latter makes probabilities by the sigmoid instead of the softmax.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassbert.metrics.classes import ratio

Gold = NDArray[np.integer] | NDArray[np.bool_]

# Beyond these, the scores are noise or the examples too few; a temperature does not help.
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 20.0


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The guesses whose confidence lies in (low, high]; means of an empty bin are 0."""

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Calibration:
    """The distance between confidence and accuracy, with and without a temperature."""

    temperature: float
    ece: float
    """The expected calibration error of the scores divided by the temperature."""
    ece_uncalibrated: float
    bins: tuple[ReliabilityBin, ...]
    bins_uncalibrated: tuple[ReliabilityBin, ...]

    def metrics(self) -> dict[str, float]:
        """Return the scores by the names that gates use."""
        return {"ece": self.ece, "ece_uncalibrated": self.ece_uncalibrated}

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return asdict(self) | {
            "bins": [asdict(part) for part in self.bins],
            "bins_uncalibrated": [asdict(part) for part in self.bins_uncalibrated],
        }


def calibration(logits: NDArray[np.floating], gold: Gold, temperature: float, bins: int = 15) -> Calibration:
    """Measure how trustworthy the probabilities of ``logits``, (N, C), are at a temperature."""
    ((ece, after), (raw_ece, before)) = (
        (expected_calibration_error(confidence, is_right, bins), reliability(confidence, is_right, bins))
        for confidence, is_right in (confidences(logits, gold, scale) for scale in (temperature, 1.0))
    )
    return Calibration(temperature, ece, raw_ece, after, before)


def confidences(
    logits: NDArray[np.floating], gold: Gold, temperature: float = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return how sure each decision is and whether it is right: N of one label, N x C of many labels."""
    scores = probabilities(logits, temperature, is_multi_label=gold.ndim == 2)
    if gold.ndim == 2:
        is_guessed = scores >= 0.5
        return np.where(is_guessed, scores, 1 - scores).ravel(), (is_guessed == gold).ravel()
    return scores.max(axis=1), scores.argmax(axis=1) == gold


def probabilities(
    logits: NDArray[np.floating], temperature: float = 1.0, *, is_multi_label: bool = False
) -> NDArray[np.float64]:
    """Return softmax, or sigmoid, of ``logits / temperature``, (N, C)."""
    scaled = logits.astype(np.float64) / temperature
    if is_multi_label:
        small = np.exp(-np.abs(scaled))
        return np.where(scaled >= 0, 1.0, small) / (1.0 + small)
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def fit_temperature(logits: NDArray[np.floating], gold: Gold) -> float:
    """Return the temperature at which ``gold`` is likeliest, (N, C) logits.

    The log-likelihood is concave in 1 / temperature, so Newton's steps inside a shrinking bracket find the
    one best value. If every guess is right there is none, since more confidence is always likelier. Then, and
    without examples, return 1.
    """
    values = logits.astype(np.float64)
    low, high = 1 / MAX_TEMPERATURE, 1 / MIN_TEMPERATURE
    _, is_right = confidences(values, gold)
    if is_right.all():
        return 1.0
    inverse = 1.0
    for _ in range(100):
        slope, curvature = _loss_derivatives(values, gold, inverse)
        low, high = (low, inverse) if slope > 0 else (inverse, high)
        step = inverse - slope / curvature if curvature > 0 else low
        previous, inverse = inverse, step if low < step < high else (low + high) / 2
        if abs(inverse - previous) <= 1e-10 * inverse:
            break
    return 1 / inverse


def expected_calibration_error(
    confidence: NDArray[np.floating], is_right: NDArray[np.bool_], bins: int = 15
) -> float:
    """Return the mean distance of confidence and accuracy over bins of equal width (Guo et al. 2017)."""
    parts = reliability(confidence, is_right, bins)
    return ratio(sum(part.count * abs(part.confidence - part.accuracy) for part in parts), len(confidence))


def reliability(
    confidence: NDArray[np.floating], is_right: NDArray[np.bool_], bins: int = 15
) -> tuple[ReliabilityBin, ...]:
    """Sort guesses, each (N,), into bins of equal width by their confidence."""
    assert confidence.shape == is_right.shape
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.digitize(confidence, edges, right=True) - 1, 0, bins - 1)
    counts, sums, rights = (
        np.bincount(place, weights=weights, minlength=bins).tolist()
        for weights in (np.ones(len(place)), confidence, is_right)
    )
    return tuple(
        ReliabilityBin(float(low), float(high), int(count), ratio(total, count), ratio(num_right, count))
        for low, high, count, total, num_right in zip(edges, edges[1:], counts, sums, rights, strict=False)
    )


def _loss_derivatives(logits: NDArray[np.float64], gold: Gold, inverse: float) -> tuple[float, float]:
    """Return slope and curvature of the negative log-likelihood in ``inverse``, the 1 / temperature."""
    scores = probabilities(logits, 1 / inverse, is_multi_label=gold.ndim == 2)
    if gold.ndim == 2:
        return float(((scores - gold) * logits).sum()), float((scores * (1 - scores) * logits**2).sum())
    expected = (scores * logits).sum(axis=1)
    spread = (scores * (logits - expected[:, None]) ** 2).sum()
    return float((expected - logits[np.arange(len(gold)), gold]).sum()), float(spread)


def score_calibration(
    scores: NDArray[np.float64],
    uncalibrated: NDArray[np.float64],
    is_right: NDArray[np.bool_],
    temperature: float,
) -> Calibration | None:
    """Return the calibration of guesses by their scores with and without the temperature.

    None if there are no guesses.
    """
    if not len(scores):
        return None
    return Calibration(
        temperature=temperature,
        ece=expected_calibration_error(scores, is_right),
        ece_uncalibrated=expected_calibration_error(uncalibrated, is_right),
        bins=reliability(scores, is_right),
        bins_uncalibrated=reliability(uncalibrated, is_right),
    )
