"""Training from Python: `glassbert.train` and `glassbert.pretrain`."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any

from glassbert.config import TRANSLATOR_PRESETS
from glassbert.messages import Log, to_stderr
from glassbert.runs.finetune import MODEL_FIELDS, FineTuneRecipe
from glassbert.runs.finetune_tables import AdaptSettings, ExampleFiles, FineTuneSettings, RunsSettings
from glassbert.runs.folder import check_recipe_file
from glassbert.runs.pretrain import MODEL_FIELDS as PRETRAIN_MODEL_FIELDS
from glassbert.runs.pretrain import DataSettings, PretrainRecipe
from glassbert.runs.recipe import Tables, read_recipe, set_value
from glassbert.runs.report import check_report, with_report
from glassbert.runs.run import Recipe, RunResult, carry_out
from glassbert.runs.start import BERT_PRESETS, OLD_KEYS, with_model
from glassbert.runs.translate import TranslateRecipe
from glassbert.runs.translate_tables import ParallelData, TranslateSettings, known_fields
from glassbert.tasks.objectives.parts import ObjectiveSettings
from glassbert.tasks.registry import settings_class
from glassbert.text.bpe.learn import SubwordSettings
from glassbert.training.settings import TrainSettings
from glassbert.training.status import OnStatus
from glassbert.typed import check_keys

TRANSLATE = "translate"
Home = tuple[str, str]
"""Table and key of a setting."""


def train(
    task: str,
    *,
    model: str | Path,
    train: str | Path,
    dev: str | Path | None = None,
    out: str | Path,
    report: bool = False,
    log: Log = to_stderr,
    on_status: OnStatus | None = None,
    settings: Mapping[str, Any] | None = None,
    **named: Any,
) -> RunResult:
    """Train a model for a task; resume if ``out`` already holds this run.

    Args:
        task: classify, pair, tag, answer or translate.
        model: Model to start from: a folder, or its name; for translate also a preset.
        train: File of examples to learn from.
        dev: File of examples to measure on; without one, a tenth of the training rows is held out (not for
            translate).
        out: Folder of the run.
        report: Whether to write report.html into it, on the dev rows.
        log: Receives lines for the user.
        on_status: Receives the status after each step; without it, some of them are logged as lines.
        settings: Any setting of the recipe by table and key: {"train.epochs": 4}.
        named: The same by key alone: epochs=4, seeds=5, class_weights="balanced". Keys of the tables adapt
            and vocabulary have the table's name before them: adapt_epochs=3, vocabulary_size=8000.
    """
    is_translation = task == TRANSLATE
    tables: Tables = {
        "model": with_model({}, model, TRANSLATOR_PRESETS if is_translation else ()),
        "data": {"train": str(train)} | ({} if dev is None else {"dev": str(dev)}),
    }
    homes = translate_homes() if is_translation else finetune_homes(task)
    _change(tables, homes, named, settings or {})
    recipe: Recipe = TranslateRecipe.of(tables) if is_translation else FineTuneRecipe.of(task, tables)
    if report:
        check_report(recipe, Path(out))
    result = carry_out(recipe, Path(out), log=log, on_status=on_status)
    return with_report(result, log) if report else result


def pretrain(
    source: str | Path | Mapping[str, Mapping[str, Any]],
    *,
    out: str | Path,
    model: str | Path | None = None,
    log: Log = to_stderr,
    on_status: OnStatus | None = None,
    settings: Mapping[str, Any] | None = None,
    **named: Any,
) -> RunResult:
    """Pre-train an encoder; resume if ``out`` already holds this run.

    Args:
        source: A recipe, as a TOML file or as its tables, or a corpus folder.
        out: Folder of the run.
        model: A preset, or a model to start from; as the recipe says if None.
        log: Receives lines for the user.
        on_status: Receives the status after each step; without it, some of them are logged as lines.
        settings: Any setting of the recipe by table and key: {"train.steps": 100}.
        named: The same by key alone: steps=100, hidden_size=128; objective="mlm" is objective.name.
    """
    if isinstance(source, Mapping):
        tables: Tables = {name: deepcopy(dict(table)) for name, table in source.items()}
    elif Path(source).is_dir():
        tables = {"data": {"corpus": str(source)}}
    else:
        tables = read_recipe(Path(source))
        check_recipe_file(Path(source), Path(out))
    if model is not None:
        tables["model"] = with_model(tables.get("model", {}), model, BERT_PRESETS)
    _change(tables, pretrain_homes(), named, settings or {})
    return carry_out(PretrainRecipe.of(tables), Path(out), log=log, on_status=on_status)


def finetune_homes(task: str) -> dict[str, Home]:
    """Return the table and key of each setting of fine-tuning by the name that callers use."""
    return {
        **_homes("model", (*MODEL_FIELDS, *OLD_KEYS)),
        **_homes("data", _names(ExampleFiles)),
        **_homes("runs", _names(RunsSettings)),
        **_homes("task", _names(settings_class(task))),
        **_homes("train", _names(FineTuneSettings)),
        **_homes("adapt", _names(AdaptSettings), "adapt_"),
    }


def translate_homes() -> dict[str, Home]:
    """Return the table and key of each setting of translation by the name that callers use."""
    return {
        **_homes("model", known_fields(None)),
        **_homes("data", _names(ParallelData)),
        **_homes("task", _names(TranslateSettings)),
        **_homes("train", _names(TrainSettings)),
        **_homes("vocabulary", _names(SubwordSettings), "vocabulary_"),
    }


def pretrain_homes() -> dict[str, Home]:
    """Return the table and key of each setting of pre-training by the name that callers use."""
    return {
        **_homes("model", PRETRAIN_MODEL_FIELDS),
        **_homes("data", _names(DataSettings)),
        **_homes("objective", _names(ObjectiveSettings)),
        "objective": ("objective", "name"),
        **_homes("train", _names(TrainSettings)),
    }


def _names(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]


def _homes(table: str, keys: Iterable[str], prefix: str = "") -> dict[str, Home]:
    # Arguments of their own, or only old names of `model`.
    taken = ("name", "train", "dev", "folder", "init_from")
    return {f"{prefix}{key}": (table, key) for key in keys if key not in taken}


def _change(
    tables: Tables, homes: Mapping[str, Home], named: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    """Set settings by their names and by table and key, in place."""
    check_keys(named, homes, "settings")
    by_place = {".".join(homes[name]): value for name, value in named.items()} | dict(settings)
    for key, value in by_place.items():
        plain = str(value) if isinstance(value, Path) else value
        set_value(tables, key, plain, shown=f"settings[{key!r}]")
