"""Predictions of answer."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """A part of the context that could be the answer."""

    answer: str
    start: int
    """First character, in code points."""
    end: int
    score: float
    """The probability of its first piece times that of its last, in the window where it is highest."""


@dataclass(frozen=True, slots=True)
class AnswerPrediction:
    """The answer to a question; an empty text without a place if the model finds none."""

    answer: str
    start: int | None
    end: int | None
    score: float
    """The probability of the answer, or of there being none."""
    n_best: tuple[FoundAnswer, ...]
    """The likeliest parts of the context, whether or not one of them is the answer."""
    no_answer_score: float
    """Log-odds of no answer against the best one: above the threshold there is none."""
    tokens: int
    """Tokens of question and context, specials included."""
    truncated: bool = False
    uncalibrated: float = 0.0
    """The score before calibration on the dev rows."""

    def to_json(self) -> dict[str, Any]:
        """Return what `predict` prints."""
        content = asdict(self)
        del content["uncalibrated"]
        return content
