"""Settings of answer."""

from dataclasses import dataclass
from typing import Annotated

from glassbert.metrics.answers import MeasureName
from glassbert.ranges import Length, Range
from glassbert.tasks.settings import WindowSettings


@dataclass(frozen=True, kw_only=True)
class AnswerSettings(WindowSettings):
    """The `[task]` table of answer."""

    max_answer: Length | None = None
    """Pieces of the longest answer; when absent, as many as nearly all training answers need."""
    n_best: Annotated[int, Range(1, 1000)] = 5
    """Answers that a prediction lists, the best among them."""
    measure: MeasureName | None = None
    """squad: words, for English; cmrc: characters, for Chinese; when absent, by the answers' script."""
