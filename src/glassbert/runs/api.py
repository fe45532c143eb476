"""Training from Python: `glassbert.train` and `glassbert.pretrain`."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any

from glassbert.arguments import checked
from glassbert.config import TRANSLATOR_PRESETS
from glassbert.errors import UserError
from glassbert.messages import Log, to_stderr
from glassbert.runs.distil import MODEL_FIELDS as DISTIL_MODEL_FIELDS
from glassbert.runs.distil import DistilRecipe, TextSettings, VectorStudent, VectorTrainSettings
from glassbert.runs.extend import ExtendRecipe, NewPieces
from glassbert.runs.finetune import MODEL_FIELDS, FineTuneRecipe
from glassbert.runs.finetune_tables import (
    AdaptSettings,
    DistilSettings,
    ExampleFiles,
    FineTuneSettings,
    RunsSettings,
)
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


@checked
def train(
    task: str,
    *,
    model: str | Path | None = None,
    teacher: str | Path | None = None,
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
        model: Model to start from: a folder, or its name; for translate also a preset. Not needed with a
            teacher: the student then begins as some of its blocks.
        teacher: Model for the same task from which to learn, beside the labels: see `distil_keep`,
            `distil_blocks` and `unlabelled`. Not for translate.
        train: File of examples to learn from.
        dev: File of examples to measure on; without one, a tenth of the training rows is held out (not for
            translate).
        out: Folder of the run.
        report: Whether to write report.html into it, on the dev rows.
        log: Receives lines for the user.
        on_status: Receives the status after each step; without it, some of them are logged as lines.
        settings: Any setting of the recipe by table and key: {"train.epochs": 4}.
        named: The same by key alone: epochs=4, seeds=5, class_weights="balanced". Keys of the tables adapt,
            distil and vocabulary have the table's name before them: adapt_epochs=3, vocabulary_size=8000.
    """
    is_translation = task == TRANSLATE
    tables: Tables = {"data": {"train": str(train)} | ({} if dev is None else {"dev": str(dev)})}
    if model is not None:
        tables["model"] = with_model({}, model, TRANSLATOR_PRESETS if is_translation else ())
    if teacher is not None:
        if is_translation:
            raise UserError("a translator does not learn from a teacher; leave the teacher out")
        tables["distil"] = {"teacher": str(teacher)}
    homes = translate_homes() if is_translation else finetune_homes(task)
    _change(tables, homes, named, settings or {})
    recipe: Recipe = TranslateRecipe.of(tables) if is_translation else FineTuneRecipe.of(task, tables)
    return _reported(recipe, Path(out), report, log, on_status)


@checked
def distil(
    teacher: str | Path,
    *,
    text: str | Path | Sequence[str | Path],
    out: str | Path,
    model: str | Path | None = None,
    keep: str | Sequence[int] = "auto",
    report: bool = False,
    log: Log = to_stderr,
    on_status: OnStatus | None = None,
    settings: Mapping[str, Any] | None = None,
    **named: Any,
) -> RunResult:
    """Train a smaller model to give the vectors of a larger one; resume if ``out`` already holds this run.

    Args:
        teacher: Model whose vectors are learned: a folder, or its name.
        text: Raw text to learn from: files or folders.
        out: Folder of the run.
        model: A preset, or another model as the student; some of the teacher's blocks if None.
        keep: The teacher's blocks that the student begins with, such as (0, 2, 5); auto tries choices before
            it trains: as many as ``blocks`` says, or half of them.
        report: Whether to write report.html into it.
        log: Receives lines for the user.
        on_status: Receives the status after each step; without it, some of them are logged as lines.
        settings: Any setting of the recipe by table and key: {"data.texts": 5000}.
        named: The same by key alone: texts=5000, epochs=2, blocks=4, pairs="dev.tsv".
    """
    files = [text] if isinstance(text, str | Path) else list(text)
    blocks = keep if isinstance(keep, str) else ",".join(map(str, keep))
    tables: Tables = {
        "data": {"text": list(map(str, files))},
        "distil": {"teacher": str(teacher), "keep": blocks},
    }
    if model is not None:
        tables["model"] = with_model({}, model, BERT_PRESETS)
    _change(tables, distil_homes(), named, settings or {})
    recipe = DistilRecipe.of(tables)
    return _reported(recipe, Path(out), report, log, on_status)


@checked
def extend_from_text(
    model: str | Path,
    text: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    log: Log = to_stderr,
    on_status: OnStatus | None = None,
    settings: Mapping[str, Any] | None = None,
    **named: Any,
) -> RunResult:
    """Add what a text needs to the vocabulary of a model, and train the new rows alone.

    Words that become [UNK] or many pieces get a row each. ``out`` becomes a run folder; a run that is there
    already is resumed.

    Args:
        model: Model with an MLM head: a folder, or its name.
        text: Raw text: files or folders.
        log: Receives lines for the user.
        on_status: Receives the status after each step; without it, some of them are logged as lines.
        settings: Any setting of the recipe by table and key: {"extend.most": 100}.
        named: The same by key alone: most=100, min_count=2, start="contexts", steps=50.
    """
    files = [text] if isinstance(text, str | Path) else list(text)
    tables: Tables = {"extend": {"model": str(model), "text": list(map(str, files))}}
    homes = {**_homes("train", _names(TrainSettings)), **_homes("extend", _names(NewPieces))}
    _change(tables, homes, named, settings or {})
    return carry_out(ExtendRecipe.of(tables), Path(out), log=log, on_status=on_status)


@checked
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
        **_homes("distil", _names(DistilSettings), "distil_"),
        "unlabelled": ("distil", "unlabelled"),
    }


def distil_homes() -> dict[str, Home]:
    """Return the table and key of each setting of distillation by the name that callers use."""
    own = {**_homes("data", _names(TextSettings)), **_homes("distil", _names(VectorStudent))}
    trained = _homes("train", [name for name in _names(VectorTrainSettings) if name not in own])
    return {**_homes("model", DISTIL_MODEL_FIELDS), **trained, **own}


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


def _reported(recipe: Recipe, out: Path, report: bool, log: Log, on_status: OnStatus | None) -> RunResult:
    """Carry out a recipe; check first that its report can be written, and write it afterwards."""
    if report:
        check_report(recipe, out)
    result = carry_out(recipe, out, log=log, on_status=on_status)
    return with_report(result, log) if report else result


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
