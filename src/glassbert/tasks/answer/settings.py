"""Settings of answer."""

from dataclasses import dataclass
from typing import get_args

from glassbert.errors import UserError
from glassbert.metrics.answers import MeasureName
from glassbert.tasks.settings import WindowSettings


@dataclass(frozen=True, kw_only=True)
class AnswerSettings(WindowSettings):
    """The `[task]` table of answer."""

    max_answer: int | None = None
    """Pieces of the longest answer; when absent, as many as nearly all training answers need."""
    n_best: int = 5
    """Answers that a prediction lists, the best among them."""
    measure: MeasureName | None = None
    """squad: words, for English; cmrc: characters, for Chinese; when absent, by the answers' script."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_answer", "n_best"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"task.{name}={value}; expected at least 1")
        if self.measure is not None and self.measure not in get_args(MeasureName):
            raise UserError(
                f"task.measure={self.measure!r}; expected one of {', '.join(get_args(MeasureName))}"
            )
