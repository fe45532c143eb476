"""Fine-tuning: labelled rows and a pre-trained model become a model that does a task."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from glassbert.config import BertConfig
from glassbert.errors import UserError
from glassbert.evaluation.result import Evaluation
from glassbert.evaluation.rows import evaluate_rows
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.messages import Log
from glassbert.model.bert import Bert
from glassbert.model_names import model_folder
from glassbert.runs.calibrate import calibrate
from glassbert.runs.describe import describe_rows
from glassbert.runs.finetune_tables import (
    AdaptSettings,
    DistilSettings,
    ExampleFiles,
    FineTuneSettings,
    RunsSettings,
    usual_rate,
)
from glassbert.runs.folder import plain_tables
from glassbert.runs.recipe import Tables
from glassbert.runs.rows import Rows, read_rows
from glassbert.runs.run import DevData, Finish, Prepared, Session, SingleRun
from glassbert.runs.start import StartModel
from glassbert.runs.students import Student, check_distil, shallower, teaching_of
from glassbert.runs.sweep import Sweep
from glassbert.runs.teacher import TEACHER, Teacher
from glassbert.storage import new_folder, read_json
from glassbert.tasks.fine_tuning import FineTune
from glassbert.tasks.registry import settings_class, task_class
from glassbert.tasks.settings import TaskSettings
from glassbert.tasks.task import HeadSpec
from glassbert.training.loop import TrainResult
from glassbert.typed import check_keys, hints_of, settings_from

EPOCHS = 3.0
MODEL_FIELDS: Mapping[str, Any] = hints_of(BertConfig)
# Without it, attention is several times as fast on a CPU.
_ATTENTION_DROPOUT = {"attention_probs_dropout_prob": 0.0}


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
    distil: DistilSettings = field(default_factory=DistilSettings)
    answers: Path | None = field(default=None, repr=False, compare=False)
    """Where the teacher's answers are kept; in the folder of the run if None. Several runs share them."""
    rows: Rows | None = field(default=None, repr=False, compare=False)
    """The rows of `[data]`, once they are read; several runs share them."""

    @classmethod
    def of(cls, name: str, tables: Mapping[str, Mapping[str, Any]]) -> "FineTuneRecipe":
        """Check the tables of a recipe; fill in what depends on the model."""
        task_settings = settings_class(name)
        check_keys(tables, ("data", "model", "task", "train", "adapt", "runs", "distil"), "recipe")
        distil = settings_from(DistilSettings, tables.get("distil", {}), "distil")
        model = StartModel.of(tables.get("model", {}), MODEL_FIELDS)
        if distil.teacher is not None:
            distil = replace(distil, teacher=model_folder(distil.teacher))
            model = replace(model, start=model.start or distil.teacher)
        check_distil(distil, model)
        if model.start is None:
            raise UserError(
                "model.start is missing; name the model to fine-tune in the recipe or with --model"
            )
        task = {key: value for key, value in tables.get("task", {}).items() if key != "name"}
        train = dict(tables.get("train", {}))
        if not any(key in train for key in ("steps", "epochs", "minutes")):
            train["epochs"] = EPOCHS
        train.setdefault("learning_rate", usual_rate(model.start))
        return cls(
            name=name,
            data=settings_from(ExampleFiles, tables.get("data", {}), "data"),
            model=replace(model, fields={**_ATTENTION_DROPOUT, **model.fields}),
            task=settings_from(task_settings, task, "task"),
            train=settings_from(FineTuneSettings, train, "train"),
            adapt=settings_from(AdaptSettings, tables.get("adapt", {}), "adapt"),
            runs=settings_from(RunsSettings, tables.get("runs", {}), "runs"),
            distil=distil,
        )

    def tables(self) -> Tables:
        """Return every setting of the run, defaults included."""
        return plain_tables(
            {
                "data": asdict(self.data),
                "model": self.model.table(),
                "task": {"name": self.name, **asdict(self.task)},
                "train": asdict(self.train),
                "adapt": asdict(self.adapt),
                "runs": asdict(self.runs),
                **({} if self.distil.teacher is None else {"distil": asdict(self.distil)}),
            }
        )

    def completed(self, before: Tables) -> Tables:
        """Return the tables of an older recipe under today's keys, with the settings that it lacks."""
        return FineTuneRecipe.of(str(before["task"]["name"]), before).tables()

    def single(self, **train: Any) -> "FineTuneRecipe":
        """Return the recipe of one of several runs, with these changes of `[train]`."""
        return replace(self, train=replace(self.train, **train), adapt=AdaptSettings(), runs=RunsSettings())

    def reads(self) -> list[Path]:
        """Return the files and folders that the run reads."""
        named = (
            self.data.train,
            self.data.dev,
            self.model.start,
            self.distil.teacher,
            self.distil.unlabelled,
        )
        return [path for path in named if path is not None]

    def prepare(self, out: Path, log: Log) -> Prepared:
        """Read the rows and make what is trained: one run, or several that share the rows."""
        is_sweep = self.runs != RunsSettings()
        if is_sweep and self.data.dev is None and not self.data.dev_share:
            raise UserError(
                "data.dev_share=0: without rows to measure on, none of several runs is the best; "
                "give a --dev file, or do one run"
            )
        rows = self.rows or read_rows(self.name, self.data, log, self.distil.unlabelled)
        if is_sweep or self.adapt.epochs:
            return Sweep.of(replace(self, rows=rows), rows, out)
        student = make_student(self, rows, out, log)
        trainable = student.trainable

        def begin(out: Path) -> None:
            student.listen(self.answers or out / TEACHER, out, log)

        return SingleRun(
            trainable=trainable,
            settings=with_evaluations(self.train, trainable),
            data={**rows.about, **student.about},
            begin=begin,
            finish=partial(_finish, student),
            dev=self.dev_data(rows),
        )

    def dev_data(self, rows: Rows) -> DevData | None:
        """Return the rows to measure on with a name for them; None if there are none."""
        name = str(self.data.dev or f"{len(rows.dev)} held-out rows of {self.data.train}")

        def evaluate(folder: Path) -> Evaluation:
            return evaluate_rows(load(folder, Model), rows.dev, name=str(folder), data=name)

        return DevData(name, evaluate) if rows.dev else None


def _finish(student: Student, session: Session, trained: TrainResult) -> Finish:
    """Calibrate the best weights; without rows to measure on, the last weights are the best known."""
    out, trainable = session.out, student.trainable
    if not trainable.dev:
        with new_folder(out / "best", overwrite=True) as folder:
            shutil.copytree(out / "last", folder, dirs_exist_ok=True)
        return Finish({})
    evaluation = student.compared(calibrate(out / "best", trainable, session.log), out / "best")
    metrics: Mapping[str, float] = read_json(out / "best" / "run.json")["metrics"]
    best_by = trainable.task.best_by
    if trained.best is not None and best_by not in metrics:
        # Calibrating measures predictions; the loss, if it chose the weights, is known from training alone.
        metrics = {**metrics, best_by: trained.best}
    return Finish(metrics, evaluation)


def make_trainable(recipe: FineTuneRecipe, rows: Rows, log: Log) -> FineTune[Any, Any]:
    """Check the rows, put the task's head on the model and encode the rows; without a teacher."""
    assert recipe.distil.teacher is None
    return make_student(recipe, rows, Path(), log).trainable


def make_student(recipe: FineTuneRecipe, rows: Rows, out: Path, log: Log) -> Student:
    """Check the rows, put the task's head on the model, encode the rows; open the teacher if there is one."""
    source = recipe.model.folder()
    tokenizer = source.tokenizer()
    limit = min(source.config.encoder.max_position_embeddings, tokenizer.max_length)
    task, notes = task_class(recipe.name).for_training(
        recipe.name,
        recipe.task,
        tokenizer,
        rows.train,
        rows.dev,
        max_length=limit,
        kind=rows.kind,
    )
    for note in (*tokenizer.assumptions, *notes):
        log(note)
    settings = recipe.train
    bert = start_model(recipe.model, task.head(), settings.seed, log)
    teacher: Teacher | None = None
    keep: tuple[int, ...] = ()
    if recipe.distil.teacher is not None:
        teacher = Teacher.of_task(recipe.distil.teacher, task)
        bert, keep = shallower(recipe, bert, teacher, task, rows, out, log)
    recipe.model.check_same(bert.config.encoder)
    trainable = FineTune(
        bert,
        tokenizer,
        task,
        rows.train,
        rows.dev,
        batch_size=settings.batch_size,
        batch_tokens=settings.batch_tokens,
        seed=settings.seed,
        unlabelled=rows.unlabelled,
        teaching=None if teacher is None else teaching_of(recipe.distil),
    )
    trainable.check_metric()
    for what, inputs in (("train", trainable.train_inputs), ("dev", trainable.dev_inputs)):
        for line in describe_rows(what, tokenizer, inputs, task.max_length):
            log(line)
    log(f"learning rate {settings.learning_rate:g}, batches of {settings.batch_size}, seed {settings.seed}")
    return Student(trainable, teacher, keep)


def start_model(start: StartModel, head: HeadSpec, seed: int, log: Log) -> Bert:
    """Return the model to start from with the head that a task needs."""
    bert, report = start.folder().build(
        head=head.head,
        labels=head.labels,
        problem_type=head.problem_type,
        seed=seed,
        changes=start.dropout,
    )
    for note in report.notes:
        log(note)
    log(f"kept {len(report.kept)} tensors; new, to be trained: {', '.join(report.new) or 'none'}")
    return bert


def with_evaluations(settings: FineTuneSettings, trainable: FineTune[Any, Any]) -> FineTuneSettings:
    """Return the settings with the steps of an epoch between evaluations, unless they name a number."""
    if settings.evaluate_every:
        return settings
    return replace(settings, evaluate_every=trainable.steps_in_epochs(1.0))
