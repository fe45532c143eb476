"""Scores of simple methods on the same rows as a model's: is the model worth its cost?"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_WORDS = {
    "bag_of_words": "a bag of words",
    "majority": "the most frequent label",
    "frequent_tags": "the most frequent tags of each word",
}


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """Scores of simple methods and of the model, on the same rows."""

    metric: str
    """What is compared; higher is better."""
    rows: int
    """How many rows it was measured on."""
    model: float
    """The model's score."""
    scores: Mapping[str, float]
    """By method: bag_of_words, majority or frequent_tags."""

    @property
    def best(self) -> float:
        """The score of the best simple method."""
        return max(self.scores.values())

    @property
    def verdict(self) -> str:
        """Whether the model is worth its cost, in a few words."""
        gain = self.model - self.best
        if gain <= 0:
            return "not worth its cost"
        # Half the width of a 68% interval of a share near one half: a smaller difference may be chance.
        if gain < 0.5 / math.sqrt(max(1, self.rows)):
            return "no clear gain"
        return f"better by {gain:.4f}"

    def sentence(self) -> str:
        """Return one line with the score of each method."""
        scores = [f"{_WORDS.get(name, name)} {value:.4f}" for name, value in self.scores.items()]
        return (
            f"{self.metric} on {self.rows:,} dev rows: {', '.join(scores)}, this model {self.model:.4f}: "
            f"{self.verdict}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return what run.json keeps and `evaluate --json` prints."""
        return {**asdict(self), "scores": dict(self.scores), "verdict": self.verdict}
