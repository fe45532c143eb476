"""The HTML report on a finished run."""

from dataclasses import replace
from pathlib import Path

from glassbert.evaluation.rows import evaluate_rows
from glassbert.evaluation.training_history import with_training_history
from glassbert.inference.loading import load
from glassbert.messages import Log
from glassbert.reports.page import write_report
from glassbert.runs.run import RunResult
from glassbert.training.processes import is_main_process

REPORT = "report.html"


def with_report(result: RunResult, log: Log, path: Path | None = None) -> RunResult:
    """Write the report on the dev rows and return the result with its path.

    A run that was stopped, or has no dev rows, gets no report.

    Args:
        path: Where to write it; into the run folder if None.
    """
    if not (is_main_process() and result.is_finished and result.dev):
        return result
    name, data, rows = str(result.model), result.dev.name, result.dev.rows
    evaluation = result.evaluation or evaluate_rows(load(result.model), rows, name=name, data=data)
    path = path or result.out / REPORT
    write_report(path, with_training_history(replace(evaluation, model=name, data=data), result.out))
    values = "  ".join(f"{name} {value:.4f}" for name, value in result.metrics.items())
    log(f"best, from step {result.best_step}: {values}")
    log(f"the report is in {path}")
    return replace(result, report=path)
