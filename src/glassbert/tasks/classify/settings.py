"""Settings of classify and pair."""

from dataclasses import dataclass
from typing import Annotated

from glassbert.ranges import Range
from glassbert.tasks.settings import TaskSettings


@dataclass(frozen=True, kw_only=True)
class ClassifySettings(TaskSettings):
    """The `[task]` table of classify and pair."""

    class_weights: str = "none"
    """How much each label counts: none, balanced (rare ones count more), or a file of labels and weights."""
    focal_gamma: Annotated[float, Range(0, 100)] = 0.0
    """Focal loss: how much less texts count that the model is sure of; 0 is plain cross-entropy."""
