"""From files of examples and a pre-trained model to one that does a task."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from glassbert.interop.config_json import labels_by_id
from glassbert.interop.folder import check_vocabulary
from glassbert.interop.huggingface import build
from glassbert.interop.source import Source, read_source
from glassbert.model.bert import Bert
from glassbert.storage import new_folder
from glassbert.tasks.finetune import FineTune
from glassbert.tasks.form import HeadSpec
from glassbert.tasks.registry import form_class
from glassbert.text.tokenizer import Tokenizer
from glassbert.training.claim import Tables, alone_in, claim_data, claim_folder
from glassbert.training.finetune_recipe import FineTuneRecipe, completed
from glassbert.training.loop import train as run_training
from glassbert.training.processes import is_main_process
from glassbert.training.reading import Reading
from glassbert.training.rows import Rows, describe
from glassbert.training.settings import FineTuneSettings
from glassbert.training.settle import settle

Tell = Callable[[str], None]
Show = Callable[[Reading], None]


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

    @property
    def model(self) -> Path:
        """The folder of the model to use."""
        return self.out / "best"


def finetune(
    recipe: FineTuneRecipe,
    out: Path,
    tell: Tell,
    show: Show | None = None,
    *,
    rows: Rows,
    claimed: Tables | None = None,
) -> FineTuneResult:
    """Do one run in the folder ``out``; a folder that holds this very run is gone on with.

    Args:
        tell: Receives remarks for the user.
        show: Draws how the run stands after each step; without it, lines are told.
        claimed: The recipe that the folder belongs to, where this run is only a part of it.
    """
    task = make_task(recipe, rows, tell)
    tables = claimed or recipe.tables()
    claim_folder(out, tables, completed)
    claim_data(out, rows.about)
    settings = with_evaluations(recipe.train, task)
    about = {"recipe": tables, "data": rows.about, "seed": recipe.train.seed}
    metrics: Mapping[str, float] = {}
    with alone_in(out):
        result = run_training(task, settings, out, about=about, tell=tell, show=show)
        if not result.is_finished:
            return FineTuneResult(out, result.step, False)
        if is_main_process():
            if rows.dev:
                metrics = settle(out / "best", task, tell)
            else:
                _take_last_for_best(out)
    best_by = task.form.best_by
    if result.best is not None and best_by not in metrics:
        # Settling measures predictions; the loss, where it chose, is known from training alone.
        metrics = {**metrics, best_by: result.best}
    return FineTuneResult(out, result.step, True, metrics, best_by, result.best_step, dev=rows.dev)


def make_task(recipe: FineTuneRecipe, rows: Rows, tell: Tell) -> FineTune[Any, Any]:
    """Check the rows, put the task's head on the model and encode the rows."""
    tokenizer = Tokenizer.load(recipe.model.folder)
    source = with_dropout(read_source(recipe.model.folder), recipe)
    limit = min(source.config.get("max_position_embeddings", 512), tokenizer.max_length)
    form, notes = form_class(recipe.name).for_training(
        recipe.name,
        recipe.task,
        tokenizer,
        rows.train,
        rows.dev,
        max_length=limit,
        **({"kind": rows.kind} if rows.kind else {}),
    )
    for note in (*tokenizer.assumptions, *notes):
        tell(note)
    settings = recipe.train
    bert = start_model(source, form.head(), settings.seed, tell)
    check_vocabulary(recipe.model.folder, tokenizer, bert.config)
    task = FineTune(
        bert,
        tokenizer,
        form,
        rows.train,
        rows.dev,
        batch_size=settings.batch_size,
        batch_tokens=settings.batch_tokens,
        seed=settings.seed,
    )
    task.check_metric()
    for what, inputs in (("train", task.train_inputs), ("dev", task.dev_inputs)):
        for line in describe(what, tokenizer, inputs, form.max_length):
            tell(line)
    tell(f"learning rate {settings.learning_rate:g}, batches of {settings.batch_size}, seed {settings.seed}")
    return task


def start_model(source: Source, head: HeadSpec, seed: int, tell: Tell) -> Bert:
    """Return the model of a folder with the head that a task needs."""
    labels = tuple(label for _, label in sorted(labels_by_id(source.config).items()))
    if labels != head.labels:
        # A head for other labels is of no use, even where it happens to have the right size.
        kept = {name: tensor for name, tensor in source.tensors.items() if not name.startswith("classifier.")}
        source = replace(source, tensors=kept)
    bert, report = build(
        source, head=head.head, labels=head.labels, problem_type=head.problem_type, seed=seed
    )
    tell(f"kept {len(report.kept)} tensors; new, to be trained: {', '.join(report.new) or 'none'}")
    return bert


def with_evaluations(settings: FineTuneSettings, task: FineTune[Any, Any]) -> FineTuneSettings:
    """Return the settings with a number of steps between evaluations: an epoch's, when they do not say."""
    if settings.evaluate_every:
        return settings
    return replace(settings, evaluate_every=task.steps_in_epochs(1.0))


def with_dropout(source: Source, recipe: FineTuneRecipe) -> Source:
    """Return the model of a folder with the dropout that the recipe asks for."""
    changes: dict[str, Any] = {"attention_probs_dropout_prob": recipe.model.attention_dropout}
    if recipe.model.hidden_dropout is not None:
        changes["hidden_dropout_prob"] = recipe.model.hidden_dropout
    return replace(source, config={**source.config, **changes})


def _take_last_for_best(out: Path) -> None:
    """Without rows to measure on, the last weights are the best that are known."""
    with new_folder(out / "best", may_replace=True) as folder:
        shutil.copytree(out / "last", folder, dirs_exist_ok=True)
