"""More than one run for one model: adaptation before it, a search for settings, several seeds."""

import math
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassbert.errors import ModelError, UserError
from glassbert.evaluation.result import Evaluation
from glassbert.evaluation.training_history import read_runs
from glassbert.messages import say_nothing
from glassbert.outputs import remove_ours
from glassbert.runs.adapt import adapt
from glassbert.runs.folder import RECIPE
from glassbert.runs.rows import Rows
from glassbert.runs.run import RunResult, Session, carry_out
from glassbert.runs.teacher import TEACHER
from glassbert.storage import new_folder, read_json, write_atomically, write_json
from glassbert.tasks.task import LOWER_IS_BETTER
from glassbert.training.checkpoint import PROGRESS, checkpoints
from glassbert.training.log import METRICS
from glassbert.training.processes import world_size
from glassbert.training.settings import TrainSettings
from glassbert.typed import shown

if TYPE_CHECKING:
    from glassbert.runs.finetune import FineTuneRecipe

# The grid of BERT's authors; learning rates relative to the one that suits the model.
BATCH_SIZES = (32, 16)
RATE_FACTORS = (1.0, 5 / 3, 2 / 3)
EPOCHS = (3.0, 4.0)

Record = dict[str, Any]
"""What a journal records about a finished run."""


@dataclass(frozen=True)
class Trial:
    """One of the runs of which the best is kept."""

    name: str
    recipe: "FineTuneRecipe"
    tried: Mapping[str, Any]
    """The settings that make it different from the others."""


@dataclass(frozen=True)
class Sweep:
    """Runs that share their rows and their folder; see `Prepared`."""

    recipe: "FineTuneRecipe"
    rows: Rows

    @classmethod
    def of(cls, recipe: "FineTuneRecipe", rows: Rows, out: Path) -> "Sweep":
        """Check what can be checked before the folder is claimed."""
        if world_size() > 1:
            raise UserError("torchrun can share one run; do seeds, a search or an adaptation without it")
        if not (out / RECIPE).is_file():
            # Reports what is wrong with the rows or the settings now: not after the adaptation, nor in the
            # second run.
            recipe.single().prepare(out, say_nothing)
            if recipe.runs.search_minutes:
                search_grid(recipe)
        return cls(recipe, rows)

    @property
    def settings(self) -> TrainSettings:
        """How each of them is trained, except for what it tries."""
        return self.recipe.train

    @property
    def data(self) -> Mapping[str, Any]:
        """Fingerprints of the rows."""
        return self.rows.about

    def carry_out(self, session: Session) -> RunResult:
        """Adapt, search, repeat with other seeds: whatever the recipe asks for that is not done yet."""
        # The runs share the teacher's answers.
        single, runs = replace(self.recipe.single(), answers=session.out / TEACHER), self.recipe.runs
        if self.recipe.adapt.epochs:
            adapted = adapt(self.recipe, self.rows.train, session)
            if not adapted.is_finished:
                return _stopped(adapted, session)
            single = replace(single, model=replace(single.model, start=adapted.model))
        if runs.search_minutes:
            budget_s = 60 * runs.search_minutes
            journal = Journal(session, "search")
            found = journal.run(search_grid(single), lambda done: in_time(done, budget_s))
            if isinstance(found, RunResult) or runs.seeds == 1:
                return self._result(found, journal)
            single = found.recipe
        if runs.seeds > 1:
            journal = Journal(session, "seeds")
            return self._result(journal.run(seed_runs(single, runs.seeds), lambda done: True), journal)
        return single.prepare(session.out, session.log).carry_out(session)

    def _result(self, best: Trial | RunResult, journal: "Journal") -> RunResult:
        """Put the best run's model and log into the folder itself, and sum up."""
        session = journal.session
        if isinstance(best, RunResult):
            return _stopped(best, session)
        out, done = session.out, journal.read()
        for name in ("best", "last"):
            with new_folder(out / name, overwrite=True) as folder:
                shutil.copytree(out / best.name / name, folder, dirs_exist_ok=True)
        write_atomically(out / METRICS, (out / best.name / METRICS).read_bytes())
        for line in summary(done):
            session.log(line)
        record = best_of(done)
        return RunResult(
            out=out,
            model=out / "best",
            step=record["step"],
            is_finished=True,
            metrics=record["metrics"],
            best_by=record["best_by"],
            best=record.get("best"),
            best_step=record["best_step"],
            runs=tuple(done),
            dev=self.recipe.dev_data(self.rows),
            evaluation=journal.evaluations.get(best.name),
        )


def _stopped(result: RunResult, session: Session) -> RunResult:
    """Return the result of a part that was stopped as that of the whole."""
    return replace(result, out=session.out, model=session.out / "best")


@dataclass(frozen=True)
class Journal:
    """Carries out trials one after the other and remembers those that are done.

    Only the best so far keeps its weights.
    """

    session: Session
    name: str
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    """Of the runs that this call carried out, by their names."""

    @property
    def path(self) -> Path:
        """The JSON file."""
        return self.session.out / f"{self.name}.json"

    def read(self) -> list[Record]:
        """Return what the runs that are done tried and reached."""
        return [asdict(record) for record in read_runs(self.path)]

    def run(self, trials: list[Trial], may_start: Callable[[list[Record]], bool]) -> Trial | RunResult:
        """Carry out the trials and return the best, or the result of the one that a signal stopped.

        Args:
            may_start: Decides from what is done whether another run may start.
        """
        done, log = self.read(), self.session.log
        # Names lead to folders, of which parts are deleted.
        if [record["name"] for record in done] != [trial.name for trial in trials[: len(done)]]:
            raise ModelError(f"{self.path}: lists other runs than these settings make; name another folder")
        for trial in trials[len(done) :]:
            if not may_start(done):
                log(f"{len(done)} of {len(trials)} runs done: the time is up")
                break
            log(f"{trial.name}: {_shown(trial.tried)}")
            folder = self.session.out / trial.name
            result = carry_out(trial.recipe, folder, log=log, on_status=self.session.on_status)
            if not result.is_finished:
                return result
            if result.evaluation is not None:
                self.evaluations[trial.name] = result.evaluation
            done.append(_record(trial, result, folder))
            write_json(self.path, {"runs": done})
            self._strip_losers(done)
        best = best_of(done)["name"]
        return next(trial for trial in trials if trial.name == best)

    def _strip_losers(self, done: list[Record]) -> None:
        best = best_of(done)["name"]
        for record in done:
            folder = self.session.out / record["name"]
            for path in checkpoints(folder):
                remove_ours(path)
            if record["name"] != best:
                for name in ("best", "last"):
                    remove_ours(folder / name)


def search_grid(recipe: "FineTuneRecipe") -> list[Trial]:
    """Return runs over BERT's grid, the usual settings first."""
    if recipe.train.epochs is None:
        raise UserError("a search tries numbers of epochs; remove train.steps and train.minutes")
    rate = recipe.train.learning_rate
    trials = []
    for number, (epochs, batch_size, factor) in enumerate(product(EPOCHS, BATCH_SIZES, RATE_FACTORS)):
        tried = {"epochs": epochs, "batch_size": batch_size, "learning_rate": float(f"{rate * factor:.2g}")}
        trials.append(Trial(f"trial-{number}", recipe.single(**tried), tried))
    return trials


def seed_runs(recipe: "FineTuneRecipe", number: int) -> list[Trial]:
    """Return runs that differ only in their seed."""
    first = recipe.train.seed
    return [
        Trial(f"seed-{seed}", recipe.single(seed=seed), {"seed": seed})
        for seed in range(first, first + number)
    ]


def in_time(done: list[Record], budget_s: float) -> bool:
    """Whether another run like those that are ``done`` fits in the rest of the budget."""
    spent_s = sum(run["elapsed_s"] for run in done)
    return not done or spent_s + spent_s / len(done) <= budget_s


def best_of(done: list[Record]) -> Record:
    """Return the run with the best metric, the first of equals; one without it is worse than any."""
    sign = -1 if done[0]["best_by"] in LOWER_IS_BETTER else 1
    return max(done, key=lambda run: sign * run["metrics"].get(run["best_by"], -sign * math.inf))


def summary(done: list[Record]) -> Iterator[str]:
    """Yield a line for each run and, if there are several, one with their mean and deviation."""
    metric = done[0]["best_by"]
    values = [run["metrics"][metric] for run in done if metric in run["metrics"]]
    for run in done:
        value = f"{run['metrics'][metric]:.4f}" if metric in run["metrics"] else "unknown"
        yield f"{run['name']}: {_shown(run['tried'])}: {metric} {value}"
    if len(values) > 1:
        mean, deviation = statistics.mean(values), statistics.stdev(values)
        yield f"{metric} over {len(values)} runs: mean {mean:.4f}, standard deviation {deviation:.4f}"


def _record(trial: Trial, result: RunResult, folder: Path) -> Record:
    newest = checkpoints(folder)[-1]
    return {
        "name": trial.name,
        "tried": dict(trial.tried),
        "metrics": dict(result.metrics),
        "best_by": result.best_by,
        "best": result.best,
        "best_step": result.best_step,
        "step": result.step,
        "elapsed_s": read_json(newest / PROGRESS)["elapsed_s"],
    }


def _shown(tried: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, int | float) else f"{name} {shown(value)}"
        for name, value in tried.items()
    )
