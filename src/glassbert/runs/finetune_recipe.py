"""What a fine-tuning run can be told: the tables of its recipe.toml."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from glassbert.data.examples import ReadOptions
from glassbert.errors import UserError
from glassbert.model_names import model_folder
from glassbert.runs.folder import Tables, plain_tables
from glassbert.runs.recipe import check_keys, settings_from
from glassbert.storage import read_json
from glassbert.tasks.registry import settings_class
from glassbert.tasks.task import TaskSettings
from glassbert.training.settings import FineTuneSettings

EPOCHS = 3.0
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
    """Without such a file: the share of the training rows that is held out for it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.dev_share < 1:
            raise UserError(f"data.dev_share={self.dev_share}; expected from 0 up to, but not including, 1")


@dataclass(frozen=True, kw_only=True)
class StartModel:
    """The `[model]` table."""

    folder: Path
    """Model folder to start from."""
    hidden_dropout: float | None = None
    """Dropout of hidden states; the model's own when absent."""
    attention_dropout: float = 0.0
    """Dropout of attention probabilities; without it attention is several times as fast on a CPU."""


@dataclass(frozen=True, kw_only=True)
class AdaptSettings:
    """The `[adapt]` table: further pre-training on the task's own text before fine-tuning."""

    epochs: float = 0.0
    """Passes over the text of the training rows; 0: none."""
    learning_rate: float | None = None
    """The highest learning rate; half of fine-tuning's when absent."""
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
    """Runs that differ in their seed alone; the best is kept, mean and deviation are told."""
    search_minutes: float = 0.0
    """Time to try other batch sizes, learning rates and numbers of epochs in; 0: none."""

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise UserError(f"runs.seeds={self.seeds}; expected at least 1")
        if self.search_minutes < 0:
            raise UserError(f"runs.search_minutes={self.search_minutes}; expected 0 or more")


@dataclass(frozen=True, kw_only=True)
class FineTuneRecipe:
    """All tables of a fine-tuning recipe."""

    name: str
    data: ExampleFiles
    model: StartModel
    task: TaskSettings
    train: FineTuneSettings
    adapt: AdaptSettings = field(default_factory=AdaptSettings)
    runs: RunsSettings = field(default_factory=RunsSettings)

    @classmethod
    def of(cls, name: str, tables: Mapping[str, Mapping[str, Any]]) -> "FineTuneRecipe":
        """Check the tables of a recipe; what they leave open and depends on the model is filled in."""
        settings = settings_class(name)
        check_keys(tables, ("data", "model", "task", "train", "adapt", "runs"), "recipe")
        model = settings_from(StartModel, tables.get("model", {}), "model")
        model = replace(model, folder=model_folder(model.folder))
        task = {key: value for key, value in tables.get("task", {}).items() if key != "name"}
        train = dict(tables.get("train", {}))
        if not any(key in train for key in ("steps", "epochs", "minutes")):
            train["epochs"] = EPOCHS
        train.setdefault("learning_rate", usual_rate(model.folder))
        return cls(
            name=name,
            data=settings_from(ExampleFiles, tables.get("data", {}), "data"),
            model=model,
            task=settings_from(settings, task, "task"),
            train=settings_from(FineTuneSettings, train, "train"),
            adapt=settings_from(AdaptSettings, tables.get("adapt", {}), "adapt"),
            runs=settings_from(RunsSettings, tables.get("runs", {}), "runs"),
        )

    def tables(self) -> Tables:
        """Return every setting of the run, defaults included."""
        return plain_tables(
            {
                "data": asdict(self.data),
                "model": asdict(self.model),
                "task": {"name": self.name, **asdict(self.task)},
                "train": asdict(self.train),
                "adapt": asdict(self.adapt),
                "runs": asdict(self.runs),
            }
        )

    def single(self, **train: Any) -> "FineTuneRecipe":
        """Return the recipe of one of several runs, with these changes of `[train]`."""
        return replace(self, train=replace(self.train, **train), adapt=AdaptSettings(), runs=RunsSettings())


def completed(tables: Tables) -> Tables:
    """Return the recipe of a run with the settings that came after it was begun."""
    return FineTuneRecipe.of(str(tables["task"]["name"]), tables).tables()


def usual_rate(folder: Path) -> float:
    """Return the learning rate that suits a model of this width."""
    for name in ("config.json", "bert_config.json"):
        if (folder / name).is_file():
            width = read_json(folder / name).get("hidden_size", 768)
            return next(rate for least, rate in _RATES if width >= least)
    return _RATES[0][1]  # there is no model; whoever opens the folder says so
