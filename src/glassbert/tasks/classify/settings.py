"""Settings of classify and pair."""

from dataclasses import dataclass

from glassbert.errors import UserError
from glassbert.tasks.settings import TaskSettings


@dataclass(frozen=True, kw_only=True)
class ClassifySettings(TaskSettings):
    """The `[task]` table of classify and pair."""

    class_weights: str = "none"
    """How much each label counts: none, balanced (rare ones count more), or a file of labels and weights."""
    focal_gamma: float = 0.0
    """Focal loss: how strongly texts that the model is sure of are discounted; 0 is plain cross-entropy."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.focal_gamma < 0:
            raise UserError(f"task.focal_gamma={self.focal_gamma}; expected 0 or more, such as 2")
