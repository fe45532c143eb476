"""The types of what run.json keeps of a task, so that a damaged one is refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from glassbert.data.examples import Kind
from glassbert.data.rows.columns import is_number
from glassbert.errors import ModelError
from glassbert.metrics.answers import MeasureName
from glassbert.ranges import Count, Length, Range
from glassbert.tasks.settings import LongText


@dataclass(frozen=True, kw_only=True)
class SavedTask:
    """The fields that `Task.to_run` saves for every task; a task adds its own in a subclass."""

    name: str = ""
    max_length: Length | None = None
    long_text: LongText = "head"
    stride: Count | None = None
    metric: str | None = None
    temperature: Annotated[float, Range(0, 1e6, has_low=False)] = 1.0
    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for share, row in self.thresholds.items():
            if not is_number(share) or "threshold" not in row:
                raise ModelError(f"thresholds: expected a threshold for each share, got {share[:40]!r}")


@dataclass(frozen=True, kw_only=True)
class SavedClassify(SavedTask):
    """Of classify and pair."""

    kind: Kind | None = None
    threshold: float = 0.5


@dataclass(frozen=True, kw_only=True)
class SavedTag(SavedTask):
    """Of tag."""

    crf: bool = False
    whole_words: bool = True


@dataclass(frozen=True, kw_only=True)
class SavedAnswer(SavedTask):
    """Of answer."""

    n_best: Count = 5
    measure: MeasureName | None = None
    max_answer: Count = 30
    whole_words: bool = True
    can_be_none: bool = False
    threshold: float = 0.0
