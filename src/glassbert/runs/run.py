"""The spine of every run: prepare, claim the folder, lock it, train, finish. One result for all of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any, Protocol

from glassbert.errors import UserError
from glassbert.evaluation.result import Evaluation
from glassbert.messages import Log, say_nothing
from glassbert.model.torch_state import own_generator, with_own_torch_state
from glassbert.outputs import check_folder
from glassbert.runs.folder import check_data, forget_run, lock_run, open_run
from glassbert.runs.recipe import Tables, write_recipe
from glassbert.training.checkpoint import full_disk_reported
from glassbert.training.loop import TrainResult, train
from glassbert.training.processes import choose_device, is_main_process
from glassbert.training.settings import TrainSettings
from glassbert.training.status import OnStatus
from glassbert.training.trainable import Trainable


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run, or this session of it, ended."""

    out: Path
    """Folder of the run."""
    model: Path
    """Folder of the model to use."""
    step: int
    """Updates done."""
    is_finished: bool
    """False when a signal stopped the run; the same call resumes it."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Of the model, on held-out data; of a stopped run, its last evaluation."""
    best_by: str = ""
    """The metric that chooses the best weights."""
    best: float | None = None
    """Its best value during training."""
    best_step: int | None = None
    """The step with that value."""
    runs: Sequence[Mapping[str, Any]] = ()
    """With several seeds or a search: what each run tried and reached."""
    report: Path | None = None
    """The HTML report, if one was written."""
    dev: "DevData | None" = field(default=None, repr=False)
    """The data that the model was measured on; None if there is none."""
    evaluation: Evaluation | None = field(default=None, repr=False)
    """Of the model on that data; None if an earlier call measured it."""

    def to_json(self) -> dict[str, Any]:
        """Return the form that every verb prints."""
        return {
            "out": str(self.out),
            "model": str(self.model),
            "step": self.step,
            "is_finished": self.is_finished,
            "metrics": dict(self.metrics),
            "best_by": self.best_by,
            "best": self.best,
            "best_step": self.best_step,
            "runs": [dict(run) for run in self.runs],
            "report": None if self.report is None else str(self.report),
        }


@dataclass(frozen=True)
class DevData:
    """Rows or sentence pairs that were held out, and what to call them."""

    name: str
    evaluate: Callable[[Path], Evaluation]
    """Measures the model of a folder on them, as the end of the run does."""


@dataclass(frozen=True)
class Session:
    """Where a run works and whom it reports to."""

    out: Path
    about: Mapping[str, Any]
    """What run.json says about every model of the run."""
    log: Log
    on_status: OnStatus | None


class Prepared(Protocol):
    """A recipe whose data is read and whose settings are checked; nothing is written yet."""

    @property
    def settings(self) -> TrainSettings:
        """How it is trained."""

    @property
    def data(self) -> Mapping[str, Any]:
        """Fingerprints of the data by name: a run is only resumed on the same data."""

    def carry_out(self, session: Session) -> RunResult:
        """Do the work in a folder that is claimed and locked."""


class Recipe(Protocol):
    """The tables of a recipe.toml, and how they become a run."""

    def tables(self) -> Tables:
        """Return every setting of the run, defaults included."""

    def completed(self, before: Tables) -> Tables:
        """Return the tables of an older recipe under today's keys, with the settings that it lacks."""

    def reads(self) -> Sequence[Path]:
        """Return the files and folders that the run reads."""

    def prepare(self, out: Path, log: Log) -> Prepared:
        """Read the data and make what is trained. ``out`` may hold an earlier session; it is only read."""


_TRAINING = RLock()
"""Held by the thread that trains. torch draws dropout from one generator for all threads of a process."""


@with_own_torch_state
def carry_out(recipe: Recipe, out: Path, *, log: Log, on_status: OnStatus | None = None) -> RunResult:
    """Carry out a recipe in the folder ``out``; resume if ``out`` already holds this run.

    Args:
        log: Receives lines for the user.
        on_status: Receives the status after each step; without it, some of them are logged as lines.
    """
    if not is_main_process():  # torchrun calls this in every process
        log, on_status = say_nothing, None
    check_folder(out, recipe.reads(), is_replaced=False)
    write_recipe(recipe.tables())  # what it cannot hold is refused before data is read
    is_new = not out.exists()
    prepared = recipe.prepare(out, log)
    choose_device(prepared.settings.device)
    tables = recipe.tables()
    # Only now: a recipe that cannot be carried out leaves no folder behind.
    with full_disk_reported(out):
        open_run(out, tables, recipe.completed)
        check_data(out, prepared.data)
    about = {"recipe": tables, "data": prepared.data, "seed": prepared.settings.seed}
    with only_training(), lock_run(out):
        try:
            return prepared.carry_out(Session(out, about, log, on_status))
        except UserError:
            if is_new:
                forget_run(out)
            raise


@contextmanager
def only_training() -> Iterator[None]:
    """Refuse to train while another thread does; a run may consist of several trainings."""
    if not _TRAINING.acquire(blocking=False):
        raise UserError(
            "another thread of this process is training, and both would draw from one random generator; "
            "wait for it, or train in another process"
        )
    try:
        with own_generator():
            yield
    finally:
        _TRAINING.release()


def _nothing_to_begin(out: Path) -> None:
    """Start with the first step."""


@dataclass(frozen=True)
class Finish:
    """What was found about a finished model."""

    metrics: Mapping[str, float]
    evaluation: Evaluation | None = None


def _metrics_of_training(session: Session, trained: TrainResult) -> Finish:
    return Finish(trained.metrics)


@dataclass(frozen=True, kw_only=True)
class SingleRun:
    """One training, ready to start."""

    trainable: Trainable
    settings: TrainSettings
    data: Mapping[str, Any]
    begin: Callable[[Path], None] = _nothing_to_begin
    """Called in the run folder before the first step."""
    finish: Callable[[Session, TrainResult], Finish] = _metrics_of_training
    """Called after the last step; measures the model."""
    has_best: bool = True
    """Whether the model to use is in the folder `best`, otherwise in `last`."""
    dev: DevData | None = None

    def carry_out(self, session: Session) -> RunResult:
        """Train, and finish when training reached its end."""
        out = session.out
        if is_main_process():
            self.begin(out)
        trained = train(
            self.trainable,
            self.settings,
            out,
            about=session.about,
            log=session.log,
            on_status=session.on_status,
        )
        found = Finish(trained.metrics)
        if trained.is_finished and is_main_process():
            found = self.finish(session, trained)
        return RunResult(
            out=out,
            model=self._model(out, trained),
            step=trained.step,
            is_finished=trained.is_finished,
            metrics=found.metrics,
            best_by=self.trainable.best_by[0],
            best=trained.best,
            best_step=trained.best_step,
            dev=self.dev,
            evaluation=found.evaluation,
        )

    def _model(self, out: Path, trained: TrainResult) -> Path:
        best = out / "best"
        return best if self.has_best and (best.is_dir() or not trained.is_finished) else out / "last"
