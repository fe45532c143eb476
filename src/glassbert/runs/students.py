"""Students of a task: how they begin, how they learn from their teacher, and how they compare with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassbert.data.examples import Example
from glassbert.errors import UserError
from glassbert.evaluation.comparison import STUDENT, comparison_of, side, speeds
from glassbert.evaluation.result import Evaluation
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.messages import Log
from glassbert.metrics.comparison import Comparison
from glassbert.model.bert import Bert
from glassbert.model.student import check_number
from glassbert.runs.finetune_tables import DistilSettings
from glassbert.runs.rows import Rows
from glassbert.runs.start import StartModel
from glassbert.runs.teacher import Teacher, remember_blocks, student_of
from glassbert.storage import read_json, write_json
from glassbert.tasks.fine_tuning import FineTune
from glassbert.tasks.forward import raw_outputs
from glassbert.tasks.task import LOWER_IS_BETTER, Input, Task
from glassbert.tasks.teaching import Teaching, num_taught

if TYPE_CHECKING:
    from glassbert.runs.finetune import FineTuneRecipe

_SAMPLE = 128
"""Training inputs on which choices of blocks are tried."""
_TIMED_ROWS = 200


@dataclass(frozen=True)
class Student:
    """What is trained, with the teacher if there is one."""

    trainable: FineTune[Any, Any]
    teacher: Teacher | None = None
    keep: tuple[int, ...] = ()
    """The teacher's blocks that it began as."""

    @property
    def about(self) -> Mapping[str, Any]:
        """Fingerprints: a run is only resumed with the same teacher."""
        return {} if self.teacher is None else {"teacher": {"sha256": list(self.teacher.sha256)}}

    def listen(self, answers: Path, out: Path, log: Log) -> None:
        """Let the teacher answer every training input, unless it has, and record which blocks were kept."""
        if self.teacher is None:
            return
        order = self.trainable.order
        order.taught = self.teacher.outputs(list(order.flat()), answers, log)
        remember_blocks(out, self.keep)

    def compared(self, evaluation: Evaluation, folder: Path) -> Evaluation:
        """Return the evaluation with the teacher beside the student; run.json of ``folder`` keeps it."""
        if self.teacher is None:
            return evaluation
        run = read_json(folder / "run.json")
        found = comparison_of(run)
        if found is None:
            found = self._comparison(load(folder, Model), evaluation)
            write_json(folder / "run.json", {**run, STUDENT: found.to_json()})
        return replace(evaluation, comparison=found)

    def _comparison(self, student: Model, evaluation: Evaluation) -> Comparison:
        assert self.teacher is not None
        teacher, rows, task = self.teacher.model, self.trainable.dev, self.trainable.task
        theirs, ours = teacher.predict_examples(rows), student.predict_examples(rows)
        measured = teacher.task.measure(rows, theirs).metrics()
        named = (task.best_by, task.usual_metric, *evaluation.metrics)
        metric = next(one for one in named if one in evaluation.metrics and one not in LOWER_IS_BETTER)
        scores = {"student": evaluation.metrics[metric], "teacher": measured[metric]}
        models = {"teacher": teacher, "student": student}
        timed: Sequence[Example] = rows[:_TIMED_ROWS]
        rates = speeds(models, partial(_predict, timed), len(timed))
        sides = {name: side(model, scores[name], rates[name]) for name, model in models.items()}
        return Comparison(metric=metric, agreement=task.agreement(ours, theirs), keep=self.keep, **sides)


def check_distil(settings: DistilSettings, model: StartModel) -> None:
    """Refuse settings of a student that contradict each other."""
    if settings.teacher is None:
        for name in ("unlabelled", "blocks"):
            if getattr(settings, name) is not None:
                raise UserError(f"distil.{name} is for students; name the teacher with --teacher")
        if settings.keep != "auto":
            raise UserError("distil.keep is for students; name the teacher with --teacher")
    elif model.start != settings.teacher and (settings.keep != "auto" or settings.blocks is not None):
        raise UserError(
            f"the student starts from {model.start}, so no blocks of the teacher are kept; leave out "
            "--model, or --keep and --blocks"
        )


def teaching_of(settings: DistilSettings) -> Teaching:
    """Return how much the teacher's answers count."""
    return Teaching(temperature=settings.temperature, gold_weight=settings.gold_weight)


def shallower(
    recipe: "FineTuneRecipe",
    bert: Bert,
    teacher: Teacher,
    task: Task[Any, Any],
    rows: Rows,
    out: Path,
    log: Log,
) -> tuple[Bert, tuple[int, ...]]:
    """Return the student before training: some blocks of the teacher, or a model that is given, as it is."""
    settings, depth = recipe.distil, teacher.model.config.encoder.num_hidden_layers
    if recipe.model.start != settings.teacher:
        given = bert.config.encoder.num_hidden_layers
        if given > depth:
            check_number(given, depth)
        return bert, ()
    sample = [windows[0] for windows in task.inputs(rows.train[:_SAMPLE], with_targets=False)]
    taught = teacher.answers(sample) if settings.keep == "auto" else []
    known = [replace(one, taught=said) for one, said in zip(sample, taught, strict=False)]
    cost = partial(_lost, known, task, teaching_of(settings))
    return student_of(bert, settings.keep, settings.blocks, out, cost, log)


def _lost(known: Sequence[Input], task: Task[Any, Any], teaching: Teaching, student: Bert) -> float:
    """Return how far an untrained student is from its teacher on some inputs."""
    losses: list[float] = []

    def note(output: Any, chosen: Sequence[Input]) -> None:
        losses.append(teaching.taught_loss(task.logits(output, chosen), chosen, task.contest).item())

    raw_outputs(task, partial(student, heads_only=True), [known], note=note)
    return sum(losses) / num_taught(known, task.contest)


def _predict(rows: Sequence[Example], model: Model) -> object:
    return model.predict_examples(rows)
