"""Fine-tuning from Python: `glassbert.train`."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from glassbert.runs.finetune import FineTuneResult
from glassbert.runs.finetune_recipe import (
    AdaptSettings,
    ExampleFiles,
    FineTuneRecipe,
    RunsSettings,
    StartModel,
)
from glassbert.runs.recipe import check_keys
from glassbert.runs.sweep import finetune_all
from glassbert.tasks.registry import settings_class
from glassbert.training.settings import FineTuneSettings


def train(
    task: str,
    *,
    model: str | Path,
    train: str | Path,
    dev: str | Path | None = None,
    out: str | Path,
    log: Callable[[str], None] = print,
    **settings: Any,
) -> FineTuneResult:
    """Fine-tune a model and return where it is and how good; a run that was stopped goes on.

    Args:
        task: classify, pair, tag or answer.
        model: Model folder to start from.
        train: File of examples to learn from.
        dev: File of examples to measure on; when not given, a tenth of the training rows is held out.
        out: Folder of the run.
        log: Receives remarks for the user.
        settings: Any setting of the tables train, task, data, model, runs, by its name: epochs=4, seeds=5,
            class_weights="balanced"; those of the table adapt begin with adapt_: adapt_epochs=3.
    """
    tables: dict[str, dict[str, Any]] = {
        "model": {"folder": str(model)},
        "data": {"train": str(train)} | ({} if dev is None else {"dev": str(dev)}),
    }
    homes = _homes(task)
    check_keys(settings, homes, "settings")
    for name, value in settings.items():
        table, key = homes[name]
        tables.setdefault(table, {})[key] = str(value) if isinstance(value, Path) else value
    return finetune_all(FineTuneRecipe.of(task, tables), Path(out), log)


def _homes(task: str) -> dict[str, tuple[str, str]]:
    """Return the table and the key of each setting by the name that callers use."""
    kinds: tuple[tuple[str, Any], ...] = (
        ("model", StartModel),
        ("data", ExampleFiles),
        ("runs", RunsSettings),
        ("task", settings_class(task)),
        ("train", FineTuneSettings),
    )
    homes = {field.name: (table, field.name) for table, kind in kinds for field in fields(kind)}
    homes |= {f"adapt_{field.name}": ("adapt", field.name) for field in fields(AdaptSettings)}
    return {name: home for name, home in homes.items() if name not in ("folder", "train", "dev")}
