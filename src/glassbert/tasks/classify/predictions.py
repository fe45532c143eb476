"""Predictions of classify and pair."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ClassPrediction:
    """The label, the labels or the number of a text or a pair."""

    label: str | None
    """The likeliest label; None for a number."""
    score: float
    """The probability of that label, or the number."""
    scores: Mapping[str, float]
    """The probability of every label."""
    tokens: int
    """Tokens that the model read, specials included."""
    truncated: bool
    """Whether some of the text was left out."""
    labels: tuple[str, ...] | None = None
    """For a model that gives any number of labels: those whose probability reaches the threshold."""

    def to_json(self) -> dict[str, Any]:
        """Return what `predict` prints."""
        content = asdict(self)
        if self.labels is None:
            del content["labels"]
        return content
