"""Predictions of tag."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TaggedSpan:
    """A part of a text that the model has labelled."""

    start: int
    """First character, in code points."""
    end: int
    label: str
    text: str
    score: float
    """How sure the model is of exactly this span: as sure as of its weakest piece, or of its end."""
    uncalibrated: float
    """The score before calibration on the dev rows."""

    def to_json(self) -> dict[str, Any]:
        """Return what `predict` prints."""
        content = asdict(self)
        del content["uncalibrated"]
        return content


@dataclass(frozen=True, slots=True)
class TagPrediction:
    """The spans of a text, in order and without overlap."""

    spans: tuple[TaggedSpan, ...]
    tokens: int
    """Tokens of the text, specials included."""
    truncated: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return what `predict` prints."""
        return {
            "spans": [span.to_json() for span in self.spans],
            "tokens": self.tokens,
            "truncated": self.truncated,
        }
