"""Settings that every task has."""

from dataclasses import dataclass
from typing import Annotated, Literal

from glassbert.errors import UserError
from glassbert.ranges import Length, Range
from glassbert.typed import check_fields

LongText = Literal["head", "tail", "head+tail", "window"]
"""What a model reads of a text that is too long: one or both of its ends, or all of it in windows."""


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """The `[task]` table."""

    max_length: Annotated[int, Range(4, 10**6)] | None = None
    """Tokens of the longest input, [CLS] and [SEP] included; the model's own limit when absent."""
    long_text: LongText = "head"
    """What is read of a longer text: its head, its tail, head+tail, or all of it in overlapping windows."""
    stride: Length | None = None
    """Pieces from one window to the next, at most; half a window when absent."""
    freeze_encoder: bool = False
    """Train the head alone."""
    metric: str | None = None
    """The metric on the dev rows that chooses the best weights; the task's usual one when absent."""
    baseline: bool = True
    """Whether to measure simple methods on the dev rows too: a bag of words, the most frequent tags."""

    def __post_init__(self) -> None:
        check_fields(self, "task")

    def length_limit(self, max_length: int) -> int:
        """Return the tokens of the longest input, for a model that reads at most ``max_length``."""
        if self.max_length is None:
            return max_length
        if self.max_length > max_length:
            raise UserError(
                f"task.max_length={self.max_length} exceeds the {max_length} tokens that the model reads"
            )
        return self.max_length


@dataclass(frozen=True, kw_only=True)
class WindowSettings(TaskSettings):
    """The `[task]` table of a task that always reads all of a text."""

    long_text: LongText = "window"
    """Only window: all of a text is read."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.long_text != "window":
            raise UserError(
                f"task.long_text={self.long_text}: the task reads all of a text, in windows; remove it"
            )
