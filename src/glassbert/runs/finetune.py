"""From files of examples and a pre-trained model to one that does a task."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from glassbert.evaluation.result import Evaluation
from glassbert.interop.config_json import labels_by_id
from glassbert.interop.folder import check_vocabulary
from glassbert.interop.huggingface import build
from glassbert.interop.stored import StoredModel, read_stored
from glassbert.model.bert import Bert
from glassbert.runs.calibrate import calibrate
from glassbert.runs.finetune_recipe import FineTuneRecipe, completed
from glassbert.runs.folder import Tables, check_data, lock_run, open_run
from glassbert.runs.rows import Rows, describe
from glassbert.storage import new_folder, read_json
from glassbert.tasks.fine_tuning import FineTune
from glassbert.tasks.registry import task_class
from glassbert.tasks.task import HeadSpec
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.training.loop import train as run_training
from glassbert.training.processes import is_main_process
from glassbert.training.settings import FineTuneSettings
from glassbert.training.status import Status

Log = Callable[[str], None]
OnStatus = Callable[[Status], None]


@dataclass(frozen=True)
class FineTuneResult:
    """How a fine-tuning run, or this session of it, ended."""

    out: Path
    step: int
    is_finished: bool
    """False when a signal asked to stop; the same command goes on."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Of the best weights, on the rows that are held out."""
    best_by: str = ""
    best_step: int | None = None
    runs: tuple[Mapping[str, Any], ...] = ()
    """With several seeds or a search, what each run came to."""
    dev: Sequence[Any] = field(default=(), repr=False)
    """The rows that are held out."""
    evaluation: Evaluation | None = field(default=None, repr=False)
    """Of the best weights on those rows; None if they were measured by an earlier call."""

    @property
    def model(self) -> Path:
        """The folder of the model to use."""
        return self.out / "best"


def finetune(
    recipe: FineTuneRecipe,
    out: Path,
    log: Log,
    on_status: OnStatus | None = None,
    *,
    rows: Rows,
    claimed: Tables | None = None,
) -> FineTuneResult:
    """Do one run in the folder ``out``; a folder that holds this very run is gone on with.

    Args:
        log: Receives remarks for the user.
        on_status: Draws how the run stands after each step; without it, lines are told.
        claimed: The recipe that the folder belongs to, where this run is only a part of it.
    """
    trainable = make_task(recipe, rows, log)
    tables = claimed or recipe.tables()
    open_run(out, tables, completed)
    check_data(out, rows.about)
    settings = with_evaluations(recipe.train, trainable)
    about = {"recipe": tables, "data": rows.about, "seed": recipe.train.seed}
    metrics: Mapping[str, float] = {}
    evaluation = None
    with lock_run(out):
        result = run_training(trainable, settings, out, about=about, log=log, on_status=on_status)
        if not result.is_finished:
            return FineTuneResult(out, result.step, False)
        if is_main_process():
            if rows.dev:
                evaluation = calibrate(out / "best", trainable, log)
                metrics = read_json(out / "best" / "run.json")["metrics"]
            else:
                _take_last_for_best(out)
    best_by = trainable.task.best_by
    if result.best is not None and best_by not in metrics:
        # Calibration measures predictions; the loss, where it chose, is known from training alone.
        metrics = {**metrics, best_by: result.best}
    return FineTuneResult(
        out, result.step, True, metrics, best_by, result.best_step, dev=rows.dev, evaluation=evaluation
    )


def make_task(recipe: FineTuneRecipe, rows: Rows, log: Log) -> FineTune[Any, Any]:
    """Check the rows, put the task's head on the model and encode the rows."""
    tokenizer = Tokenizer.load(recipe.model.folder)
    source = with_dropout(read_stored(recipe.model.folder), recipe)
    limit = min(source.config.get("max_position_embeddings", 512), tokenizer.max_length)
    task, notes = task_class(recipe.name).for_training(
        recipe.name,
        recipe.task,
        tokenizer,
        rows.train,
        rows.dev,
        max_length=limit,
        **({"kind": rows.kind} if rows.kind else {}),
    )
    for note in (*tokenizer.assumptions, *notes):
        log(note)
    settings = recipe.train
    bert = start_model(source, task.head(), settings.seed, log)
    check_vocabulary(recipe.model.folder, tokenizer, bert.config)
    trainable = FineTune(
        bert,
        tokenizer,
        task,
        rows.train,
        rows.dev,
        batch_size=settings.batch_size,
        batch_tokens=settings.batch_tokens,
        seed=settings.seed,
    )
    trainable.check_metric()
    for what, inputs in (("train", trainable.train_inputs), ("dev", trainable.dev_inputs)):
        for line in describe(what, tokenizer, inputs, task.max_length):
            log(line)
    log(f"learning rate {settings.learning_rate:g}, batches of {settings.batch_size}, seed {settings.seed}")
    return trainable


def start_model(source: StoredModel, head: HeadSpec, seed: int, log: Log) -> Bert:
    """Return the model of a folder with the head that a task needs."""
    labels = tuple(label for _, label in sorted(labels_by_id(source.config).items()))
    if labels != head.labels:
        # A head for other labels is of no use, even where it happens to have the right size.
        kept = {name: tensor for name, tensor in source.tensors.items() if not name.startswith("classifier.")}
        source = replace(source, tensors=kept)
    bert, report = build(
        source, head=head.head, labels=head.labels, problem_type=head.problem_type, seed=seed
    )
    log(f"kept {len(report.kept)} tensors; new, to be trained: {', '.join(report.new) or 'none'}")
    return bert


def with_evaluations(settings: FineTuneSettings, trainable: FineTune[Any, Any]) -> FineTuneSettings:
    """Return the settings with a number of steps between evaluations: an epoch's, when they do not say."""
    if settings.evaluate_every:
        return settings
    return replace(settings, evaluate_every=trainable.steps_in_epochs(1.0))


def with_dropout(source: StoredModel, recipe: FineTuneRecipe) -> StoredModel:
    """Return the model of a folder with the dropout that the recipe asks for."""
    changes: dict[str, Any] = {"attention_probs_dropout_prob": recipe.model.attention_dropout}
    if recipe.model.hidden_dropout is not None:
        changes["hidden_dropout_prob"] = recipe.model.hidden_dropout
    return replace(source, config={**source.config, **changes})


def _take_last_for_best(out: Path) -> None:
    """Without rows to measure on, the last weights are the best that are known."""
    with new_folder(out / "best", may_replace=True) as folder:
        shutil.copytree(out / "last", folder, dirs_exist_ok=True)
