"""Scores of a pre-trained model on a corpus."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CorpusReport:
    """How well masked tokens are predicted and pairs of texts are judged."""

    scores: Mapping[str, float]
    objective: str
    """What the model was asked, such as `mlm+nsp`."""
    max_length: int
    """Tokens of the longest example."""

    def metrics(self) -> dict[str, float]:
        """Return the scores by the names that gates use."""
        return dict(self.scores)

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {**self.scores, "objective": self.objective, "max_length": self.max_length}
