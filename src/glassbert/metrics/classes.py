"""Scores of labels: one for each example, or any number of them.

Legend: N examples, C classes.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ClassScore:
    """How well one class, or one type of span, was found."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int
    """How often it is gold."""
    guessed: int
    """How often it was guessed."""


@dataclass(frozen=True, eq=False)
class ClassReport:
    """Scores of guesses where every example has exactly one label."""

    labels: tuple[str, ...]
    accuracy: float
    precision: float
    recall: float
    f1: float
    """Macro, as precision and recall: the mean over the classes that are gold or guessed at least once."""
    micro_f1: float
    weighted_f1: float
    mcc: float
    per_class: tuple[ClassScore, ...]
    confusion: NDArray[np.int64]
    """How often each guess (column) met each gold label (row), (C, C)."""

    def metrics(self) -> dict[str, float]:
        """Return the scores by the names that gates use."""
        names = ("accuracy", "precision", "recall", "f1", "micro_f1", "weighted_f1", "mcc")
        return {name: getattr(self, name) for name in names}

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {
            **self.metrics(),
            "per_class": [asdict(score) for score in self.per_class],
            "confusion": {"labels": list(self.labels), "counts": self.confusion.tolist()},
        }


@dataclass(frozen=True, eq=False)
class MultiLabelReport:
    """Scores of guesses where an example has any number of labels."""

    labels: tuple[str, ...]
    accuracy: float
    """The share of examples whose whole set of labels is right."""
    precision: float
    recall: float
    f1: float
    """Macro, as precision and recall: the mean over all classes."""
    micro_f1: float
    weighted_f1: float
    hamming_loss: float
    """The share of wrong decisions; there is one for each example and class."""
    per_class: tuple[ClassScore, ...]

    def metrics(self) -> dict[str, float]:
        """Return the scores by the names that gates use."""
        names = ("accuracy", "precision", "recall", "f1", "micro_f1", "weighted_f1", "hamming_loss")
        return {name: getattr(self, name) for name in names}

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {**self.metrics(), "per_class": [asdict(score) for score in self.per_class]}


def classification(
    gold: NDArray[np.integer], guess: NDArray[np.integer], labels: Sequence[str]
) -> ClassReport:
    """Score one guess for each example; ``gold`` and ``guess`` are indices of ``labels``, (N,)."""
    confusion = confusion_matrix(gold, guess, len(labels))
    right, num_gold, num_guessed = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    scores = class_scores(labels, right, num_gold, num_guessed)
    seen = [score for score in scores if score.support or score.guessed]
    accuracy = ratio(right.sum(), confusion.sum())
    return ClassReport(
        labels=tuple(labels),
        accuracy=accuracy,
        precision=mean([score.precision for score in seen]),
        recall=mean([score.recall for score in seen]),
        f1=mean([score.f1 for score in seen]),
        micro_f1=accuracy,  # each wrong guess is one false positive and one false negative
        weighted_f1=weighted_f1(scores),
        mcc=_correlation(confusion),
        per_class=scores,
        confusion=confusion,
    )


def multi_label(gold: NDArray[np.bool_], guess: NDArray[np.bool_], labels: Sequence[str]) -> MultiLabelReport:
    """Score a yes or no for each example and class, (N, C)."""
    assert gold.shape == guess.shape == (len(gold), len(labels))
    gold, guess = gold.astype(np.bool_), guess.astype(np.bool_)
    right, num_gold, num_guessed = (gold & guess).sum(axis=0), gold.sum(axis=0), guess.sum(axis=0)
    scores = class_scores(labels, right, num_gold, num_guessed)
    return MultiLabelReport(
        labels=tuple(labels),
        accuracy=ratio((gold == guess).all(axis=1).sum(), len(gold)),
        precision=mean([score.precision for score in scores]),
        recall=mean([score.recall for score in scores]),
        f1=mean([score.f1 for score in scores]),
        micro_f1=ratio(2 * right.sum(), num_gold.sum() + num_guessed.sum()),
        weighted_f1=weighted_f1(scores),
        hamming_loss=ratio((gold != guess).sum(), gold.size),
        per_class=scores,
    )


def confusion_matrix(
    gold: NDArray[np.integer], guess: NDArray[np.integer], num_classes: int
) -> NDArray[np.int64]:
    """Count how often each guess (column) met each gold class (row), (C, C)."""
    assert gold.shape == guess.shape == (len(gold),)
    assert not len(gold) or 0 <= min(gold.min(), guess.min()) <= max(gold.max(), guess.max()) < num_classes
    cells = gold.astype(np.int64) * num_classes + guess.astype(np.int64)
    return np.bincount(cells, minlength=num_classes**2).reshape(num_classes, num_classes)


def class_scores(
    labels: Sequence[str],
    right: NDArray[np.integer],
    num_gold: NDArray[np.integer],
    num_guessed: NDArray[np.integer],
) -> tuple[ClassScore, ...]:
    """Return the scores of each class from its counts, each (C,)."""
    return tuple(
        ClassScore(
            label=label,
            precision=ratio(hits, guessed),
            recall=ratio(hits, support),
            f1=ratio(2 * hits, support + guessed),
            support=support,
            guessed=guessed,
        )
        for label, hits, support, guessed in zip(
            labels, right.tolist(), num_gold.tolist(), num_guessed.tolist(), strict=True
        )
    )


def weighted_f1(scores: Sequence[ClassScore]) -> float:
    """Return the mean F1 of the classes, weighted by how often they are gold."""
    return ratio(sum(score.f1 * score.support for score in scores), sum(score.support for score in scores))


def ratio(part: float, whole: float) -> float:
    """Return ``part / whole``; 0 if ``whole`` is 0."""
    return float(part / whole) if whole else 0.0


def mean(values: Sequence[float]) -> float:
    """Return the mean; 0 if there are no values."""
    return ratio(sum(values), len(values))


def _correlation(confusion: NDArray[np.int64]) -> float:
    """Return Matthews' correlation for any number of classes (Gorodkin 2004), 0 if a side is constant."""
    # Python's integers: the product of four counts exceeds 64 bits at about 55,000 examples.
    num_gold, num_guessed = confusion.sum(axis=1).tolist(), confusion.sum(axis=0).tolist()
    total, right = int(confusion.sum()), int(np.trace(confusion))
    both = total * right - sum(a * b for a, b in zip(num_gold, num_guessed, strict=True))
    of_gold = total**2 - sum(count**2 for count in num_gold)
    of_guess = total**2 - sum(count**2 for count in num_guessed)
    return ratio(both, (of_gold * of_guess) ** 0.5)
