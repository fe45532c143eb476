"""The HTML report on a finished run."""

from dataclasses import replace
from pathlib import Path

from glassbert.errors import UserError
from glassbert.messages import Log
from glassbert.open_files import real_path
from glassbert.reports.page import check_report_file, write_report
from glassbert.runs.run import Recipe, RunResult
from glassbert.storage import read_json
from glassbert.training.processes import is_main_process

REPORT = "report.html"


def check_report(recipe: Recipe, out: Path, path: Path | None = None) -> None:
    """Refuse, before a run, a report that would replace something else.

    Args:
        path: Where to write it; into the run folder if None.
    """
    path = path or out / REPORT
    check_report_file(path, recipe.reads())
    if path.suffix != ".html" and real_path(path).is_relative_to(real_path(out)):
        raise UserError(f"{path} is a place in the folder of the run; name a report there with .html")


def with_report(result: RunResult, log: Log, path: Path | None = None) -> RunResult:
    """Write the report on the dev data and return the result with its path.

    A run that was stopped, or has nothing to measure on, gets no report.

    Args:
        path: Where to write it; into the run folder if None.
    """
    if not (is_main_process() and result.is_finished and result.dev):
        return result
    evaluation = result.evaluation or result.dev.evaluate(result.model)
    evaluation = replace(evaluation, model=str(result.model), data=result.dev.name)
    path = path or result.out / REPORT
    write_report(path, evaluation, run=result.out)
    values = "  ".join(f"{name} {value:.4f}" for name, value in result.metrics.items())
    is_average = "average_of" in read_json(result.model / "run.json")
    origin = "an average of checkpoints" if is_average else f"from step {result.best_step}"
    log(f"best, {origin}: {values}")
    if evaluation.baselines:
        log(evaluation.baselines.sentence())
    if evaluation.comparison:
        log(evaluation.comparison.sentence())
    log(f"the report is in {path}")
    return replace(result, report=path)
