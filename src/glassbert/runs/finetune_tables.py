"""The tables of a fine-tuning recipe that other runs do not have."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from glassbert.data.examples import ReadOptions
from glassbert.ranges import (
    MINUTES,
    TEMPERATURE,
    Count,
    CountOrNone,
    Length,
    Range,
    Rate,
    Share,
    ShareBelowOne,
)
from glassbert.storage import read_json
from glassbert.training.settings import TrainSettings
from glassbert.typed import check_fields

# From this width on: the highest rate at which models of the width train well.
_RATES = ((768, 3e-5), (384, 1e-4), (0, 3e-4))


@dataclass(frozen=True, kw_only=True)
class ExampleFiles(ReadOptions):
    """The `[data]` table."""

    train: Path
    """File of examples to learn from."""
    dev: Path | None = None
    """File of examples to measure on."""
    dev_share: ShareBelowOne = 0.1
    """Without such a file: the share of the training rows to hold out."""


@dataclass(frozen=True, kw_only=True)
class FineTuneSettings(TrainSettings):
    """The `[train]` table; three epochs unless something else ends the run."""

    batch_size: Count = 32
    """Examples of one update, over all processes."""
    batch_tokens: Count = 16384
    """Tokens of one update at most: longer texts make fewer examples."""
    micro_tokens: Count = 4096
    """Most tokens computed at once; a larger batch is accumulated in parts."""
    evaluate_every: CountOrNone = 0
    """Steps between evaluations; 0: once an epoch. The end of the run is always evaluated."""


@dataclass(frozen=True, kw_only=True)
class AdaptSettings:
    """The `[adapt]` table: further pre-training on the task's own text before fine-tuning."""

    epochs: Annotated[float, Range(0, 10_000)] = 0.0
    """Passes over the text of the training rows; 0: none."""
    learning_rate: Rate | None = None
    """The highest learning rate; half of fine-tuning's if not set."""
    batch_tokens: Count = 4096
    """Tokens of one update."""
    max_length: Length = 128
    """Tokens of the longest example."""

    def __post_init__(self) -> None:
        check_fields(self, "adapt")


@dataclass(frozen=True, kw_only=True)
class DistilSettings:
    """The `[distil]` table: a teacher, whose answers count beside the labels."""

    teacher: Path | None = None
    """A model that was trained for the task; if no other model is named, its blocks are the student."""
    keep: str = "auto"
    """The teacher's blocks that the student begins with, such as 0,2,5; auto tries choices beforehand."""
    blocks: Count | None = None
    """With auto: how many blocks; half of the teacher's if not set."""
    unlabelled: Path | None = None
    """File of more rows, without labels: only the teacher's answers are learned from them."""
    temperature: Annotated[float, TEMPERATURE] = 2.0
    """What the logits of both are divided by, so that less likely answers teach as well."""
    gold_weight: Share = 0.3
    """The part of the loss that labels have; the teacher has the rest."""

    def __post_init__(self) -> None:
        check_fields(self, "distil")


@dataclass(frozen=True, kw_only=True)
class RunsSettings:
    """The `[runs]` table: more than one run for one model."""

    seeds: Annotated[int, Range(1, 1000)] = 1
    """Runs that differ only in their seed; the best is kept, mean and deviation are reported."""
    search_minutes: Annotated[float, MINUTES] = 0.0
    """Minutes in which to try other batch sizes, learning rates and numbers of epochs; 0: none."""

    def __post_init__(self) -> None:
        check_fields(self, "runs")


def usual_rate(folder: Path) -> float:
    """Return the learning rate that suits a model of this width."""
    for name in ("config.json", "bert_config.json"):
        if (folder / name).is_file():
            width = read_json(folder / name).get("hidden_size", 768)
            if isinstance(width, int):
                return next((rate for least, rate in _RATES if width >= least), _RATES[-1][1])
    return _RATES[0][1]  # no model there; opening the folder reports it
