"""More than one run for one model: adaptation before it, a search for settings, several seeds."""

import math
import os
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from glassbert.errors import UserError
from glassbert.evaluation.result import Evaluation
from glassbert.runs.adapt import adapt
from glassbert.runs.finetune import FineTuneResult, Log, OnStatus, finetune, make_task
from glassbert.runs.finetune_recipe import FineTuneRecipe, RunsSettings, completed
from glassbert.runs.folder import RECIPE, check_data, open_run
from glassbert.runs.rows import Rows, read_rows
from glassbert.storage import new_folder, read_json, write_atomically, write_json
from glassbert.tasks.task import LOWER_IS_BETTER
from glassbert.training.checkpoint import PROGRESS, checkpoints
from glassbert.training.log import METRICS
from glassbert.training.processes import is_main_process, say_nothing

# The grid of BERT's authors; learning rates relative to the one that suits the model.
BATCH_SIZES = (32, 16)
RATE_FACTORS = (1.0, 5 / 3, 2 / 3)
EPOCHS = (3.0, 4.0)


@dataclass(frozen=True)
class Trial:
    """One of the runs of which the best is kept."""

    name: str
    recipe: FineTuneRecipe
    tried: Mapping[str, Any]
    """What sets it apart from the others."""


def finetune_all(
    recipe: FineTuneRecipe, out: Path, log: Log, on_status: OnStatus | None = None
) -> FineTuneResult:
    """Do all that a recipe asks for in the folder ``out``; what is done there already is not done again."""
    if not is_main_process():
        log, on_status = say_nothing, None  # torchrun starts this once per process
    if recipe.runs != RunsSettings() and recipe.data.dev is None and not recipe.data.dev_share:
        raise UserError(
            "data.dev_share=0: without rows to measure on, none of several runs is the best; "
            "give a --dev file, or do one run"
        )
    rows = read_rows(recipe.name, recipe.data, log)
    claimed = recipe.tables()
    if recipe.runs == RunsSettings() and not recipe.adapt.epochs:
        return finetune(recipe, out, log, on_status, rows=rows)
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise UserError("torchrun can share one run; do seeds, a search or an adaptation without it")
    single = recipe.single()
    if not (out / RECIPE).is_file():
        # Whatever is wrong with the rows or the settings is said now: not after the adaptation, not by the
        # second run, and before the folder belongs to this recipe.
        make_task(single, rows, say_nothing)
        if recipe.runs.search_minutes:
            search_grid(single)
    open_run(out, claimed, completed)
    check_data(out, rows.about)
    if recipe.adapt.epochs:
        adapted = adapt(recipe, rows.train, out / "adapt", log, on_status)
        if not isinstance(adapted, Path):
            return FineTuneResult(out, adapted.step, False)
        single = replace(single, model=replace(single.model, folder=adapted))
    tournament = Sweep(out, rows, log, on_status)
    if recipe.runs.search_minutes:
        budget_s = 60 * recipe.runs.search_minutes
        found = tournament.run("search", search_grid(single), lambda done: in_time(done, budget_s))
        if isinstance(found, FineTuneResult) or recipe.runs.seeds == 1:
            return tournament.result(found, "search")
        single = found.recipe
    if recipe.runs.seeds > 1:
        seeds = seed_runs(single, recipe.runs.seeds)
        return tournament.result(tournament.run("seeds", seeds, lambda done: True), "seeds")
    return finetune(single, out, log, on_status, rows=rows, claimed=claimed)


def search_grid(recipe: FineTuneRecipe) -> list[Trial]:
    """Return runs over BERT's grid, the usual settings first."""
    if recipe.train.epochs is None:
        raise UserError("a search tries numbers of epochs; remove train.steps and train.minutes")
    rate = recipe.train.learning_rate
    contenders = []
    for number, (epochs, batch_size, factor) in enumerate(product(EPOCHS, BATCH_SIZES, RATE_FACTORS)):
        tried = {"epochs": epochs, "batch_size": batch_size, "learning_rate": float(f"{rate * factor:.2g}")}
        contenders.append(Trial(f"trial-{number}", recipe.single(**tried), tried))
    return contenders


def seed_runs(recipe: FineTuneRecipe, number: int) -> list[Trial]:
    """Return runs that differ in their seed alone."""
    first = recipe.train.seed
    return [
        Trial(f"seed-{seed}", recipe.single(seed=seed), {"seed": seed})
        for seed in range(first, first + number)
    ]


def in_time(done: list[dict[str, Any]], budget_s: float) -> bool:
    """Whether another run like those that are ``done`` fits what is left of the budget."""
    spent_s = sum(run["elapsed_s"] for run in done)
    return not done or spent_s + spent_s / len(done) <= budget_s


@dataclass(frozen=True)
class Sweep:
    """Runs one after the other; only the best so far keeps its weights."""

    out: Path
    rows: Rows
    log: Log
    on_status: OnStatus | None
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    """Of the runs that were done by this call, by their names."""

    def run(
        self,
        journal: str,
        contenders: list[Trial],
        may_start: Callable[[list[dict[str, Any]]], bool],
    ) -> Trial | FineTuneResult:
        """Let the contenders run and return the best, or how far one came when a signal asked to stop.

        Args:
            journal: Name of the JSON file that remembers what is done.
            may_start: Says from what is done whether another run may begin.
        """
        done = self.done(journal)
        for contender in contenders[len(done) :]:
            if not may_start(done):
                self.log(f"{len(done)} of {len(contenders)} runs done: the time is up")
                break
            self.log(f"{contender.name}: {_shown(contender.tried)}")
            folder = self.out / contender.name
            result = finetune(contender.recipe, folder, self.log, self.on_status, rows=self.rows)
            if not result.is_finished:
                return result
            if result.evaluation is not None:
                self.evaluations[contender.name] = result.evaluation
            done.append(_record(contender, result, folder))
            write_json(self.out / f"{journal}.json", {"runs": done})
            self._strip_losers(done)
        best = best_of(done)
        return next(contender for contender in contenders if contender.name == best["name"])

    def done(self, journal: str) -> list[dict[str, Any]]:
        """Return what a journal says."""
        path = self.out / f"{journal}.json"
        return list(read_json(path)["runs"]) if path.is_file() else []

    def result(self, best: Trial | FineTuneResult, journal: str) -> FineTuneResult:
        """Put the best run's model and log into the folder itself, and sum up."""
        if isinstance(best, FineTuneResult):
            return replace(best, out=self.out)
        done = self.done(journal)
        for name in ("best", "last"):
            with new_folder(self.out / name, may_replace=True) as folder:
                shutil.copytree(self.out / best.name / name, folder, dirs_exist_ok=True)
        write_atomically(self.out / METRICS, (self.out / best.name / METRICS).read_bytes())
        for line in summary(done):
            self.log(line)
        record = best_of(done)
        return FineTuneResult(
            self.out,
            record["step"],
            True,
            record["metrics"],
            record["best_by"],
            record["best_step"],
            tuple(done),
            self.rows.dev,
            self.evaluations.get(best.name),
        )

    def _strip_losers(self, done: list[dict[str, Any]]) -> None:
        best = best_of(done)["name"]
        for record in done:
            folder = self.out / record["name"]
            for path in checkpoints(folder):
                shutil.rmtree(path)
            if record["name"] != best:
                for name in ("best", "last"):
                    shutil.rmtree(folder / name, ignore_errors=True)


def best_of(done: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the run with the best metric, the first of equals; one without it is worse than any."""
    sign = -1 if done[0]["best_by"] in LOWER_IS_BETTER else 1
    return max(done, key=lambda run: sign * run["metrics"].get(run["best_by"], -sign * math.inf))


def summary(done: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what the runs came to: each, and with more than one their mean and deviation."""
    metric = done[0]["best_by"]
    values = [run["metrics"][metric] for run in done if metric in run["metrics"]]
    for run in done:
        value = f"{run['metrics'][metric]:.4f}" if metric in run["metrics"] else "unknown"
        yield f"{run['name']}: {_shown(run['tried'])}: {metric} {value}"
    if len(values) > 1:
        mean, deviation = statistics.mean(values), statistics.stdev(values)
        yield f"{metric} over {len(values)} runs: mean {mean:.4f}, standard deviation {deviation:.4f}"


def _record(contender: Trial, result: FineTuneResult, folder: Path) -> dict[str, Any]:
    newest = checkpoints(folder)[-1]
    return {
        "name": contender.name,
        "tried": dict(contender.tried),
        "metrics": dict(result.metrics),
        "best_by": result.best_by,
        "best_step": result.best_step,
        "step": result.step,
        "elapsed_s": read_json(newest / PROGRESS)["elapsed_s"],
    }


def _shown(tried: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in tried.items())
