"""Scores of vectors of texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class VectorReport:
    """How alike a student's vectors are to its teacher's, and how well they rank pairs as people do."""

    scores: Mapping[str, float]

    def metrics(self) -> dict[str, float]:
        """Return the scores by the names that gates use."""
        return dict(self.scores)

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return dict(self.scores)
