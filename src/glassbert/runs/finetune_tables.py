"""The tables of a fine-tuning recipe that other runs do not have."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from glassbert.data.examples import ReadOptions
from glassbert.errors import UserError
from glassbert.storage import read_json
from glassbert.training.settings import TrainSettings

# From this width on: the highest rate at which models of the width train well.
_RATES = ((768, 3e-5), (384, 1e-4), (0, 3e-4))


@dataclass(frozen=True, kw_only=True)
class ExampleFiles(ReadOptions):
    """The `[data]` table."""

    train: Path
    """File of examples to learn from."""
    dev: Path | None = None
    """File of examples to measure on."""
    dev_share: float = 0.1
    """Without such a file: the share of the training rows to hold out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.dev_share < 1:
            raise UserError(f"data.dev_share={self.dev_share}; expected from 0 up to, but not including, 1")


@dataclass(frozen=True, kw_only=True)
class FineTuneSettings(TrainSettings):
    """The `[train]` table; three epochs unless something else ends the run."""

    batch_size: int = 32
    """Examples of one update, over all processes."""
    batch_tokens: int = 16384
    """Tokens of one update at most: longer texts make fewer examples."""
    micro_tokens: int = 4096
    """Most tokens computed at once; a larger batch is accumulated in parts."""
    evaluate_every: int = 0
    """Steps between evaluations; 0: once an epoch. The end of the run is always evaluated."""

    _positive: ClassVar[tuple[str, ...]] = (
        "batch_size",
        "batch_tokens",
        "micro_tokens",
        "learning_rate",
        "save_every",
        "keep",
        "log_every",
    )


@dataclass(frozen=True, kw_only=True)
class AdaptSettings:
    """The `[adapt]` table: further pre-training on the task's own text before fine-tuning."""

    epochs: float = 0.0
    """Passes over the text of the training rows; 0: none."""
    learning_rate: float | None = None
    """The highest learning rate; half of fine-tuning's if not set."""
    batch_tokens: int = 4096
    """Tokens of one update."""
    max_length: int = 128
    """Tokens of the longest example."""

    def __post_init__(self) -> None:
        if self.epochs < 0:
            raise UserError(f"adapt.epochs={self.epochs:g}; expected 0 or more")
        for name in ("learning_rate", "batch_tokens", "max_length"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UserError(f"adapt.{name}={value:g}; expected more than 0")


@dataclass(frozen=True, kw_only=True)
class RunsSettings:
    """The `[runs]` table: more than one run for one model."""

    seeds: int = 1
    """Runs that differ only in their seed; the best is kept, mean and deviation are reported."""
    search_minutes: float = 0.0
    """Minutes in which to try other batch sizes, learning rates and numbers of epochs; 0: none."""

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise UserError(f"runs.seeds={self.seeds}; expected at least 1")
        if self.search_minutes < 0:
            raise UserError(f"runs.search_minutes={self.search_minutes}; expected 0 or more")


def usual_rate(folder: Path) -> float:
    """Return the learning rate that suits a model of this width."""
    for name in ("config.json", "bert_config.json"):
        if (folder / name).is_file():
            width = read_json(folder / name).get("hidden_size", 768)
            return next(rate for least, rate in _RATES if width >= least)
    return _RATES[0][1]  # no model there; opening the folder reports it
