"""`evaluate`: how good a model is."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassbert.cli.device import DeviceOptions, place_of
from glassbert.cli.options import read_options
from glassbert.cli.output import print_json, print_remarks, remark
from glassbert.data.sentence_pairs import ParallelFiles
from glassbert.errors import GateError, UserError
from glassbert.model_names import model_folder
from glassbert.ranges import COUNT_OR_NONE, LENGTH

if TYPE_CHECKING:
    from glassbert.evaluation.result import Evaluation


def evaluate(
    model: str,
    data: Path,
    /,
    *,
    min_: Annotated[list[str] | None, Parameter(name="--min")] = None,
    report: Path | None = None,
    task: str | None = None,
    format: str | None = None,
    skip_bad: Annotated[int, Parameter(validator=COUNT_OR_NONE)] = 0,
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None,
    max_length: Annotated[int | None, Parameter(validator=LENGTH)] = None,
    where: DeviceOptions | None = None,
    json: bool = False,
) -> None:
    """Measure a model on the kind of data it was trained for: labelled rows, sentence pairs, or a corpus.

    Args:
        model: Model folder, or folder of a run.
        data: File of labelled rows; of sentence pairs (or FILE,FILE), for a translator; a folder of
            `corpus build`, for a pre-trained model.
        min_: Fail, with exit code 5, unless a metric is at least this high: f1=0.9; may be given several
            times. For a metric that is better when low, such as mse or ece, it is the highest allowed.
        report: Write everything, with plots and the worst mistakes, to this HTML file.
        task: What the model does, if its folder does not name its task.
        format: The format of a file of rows; detected when not given.
        skip_bad: Bad rows that may be left out.
        set_: Change how a file of rows is read, such as data.columns.text=review; may be given several times.
        max_length: Tokens of the longest example of a corpus; as in training when not given.
        json: Print the result as JSON.
    """
    from glassbert.evaluation.evaluate import evaluate as run_evaluation
    from glassbert.inference.loading import load
    from glassbert.inference.model import Model
    from glassbert.reports.page import check_report_file, write_report

    gates = [_gate(text) for text in min_ or ()]
    options = read_options(set_, format, skip_bad)
    if report is not None:
        check_report_file(report, [model_folder(model), *ParallelFiles.of(data).paths])
    loaded = load(model, **place_of(where))
    if isinstance(loaded, Model):
        print_remarks(loaded)
    evaluation = run_evaluation(
        loaded, data, task=task, options=options, max_length=max_length, name=model, log=remark
    )
    if json:
        print_json(evaluation.to_json())
    else:
        _print_tables(evaluation)
    if report is not None:
        write_report(report, evaluation)
        remark(f"the report is in {report}")
    check_gates(gates, evaluation.metrics)


def _print_tables(evaluation: "Evaluation") -> None:
    from rich.console import Console

    from glassbert.reports.terminal import render

    console = Console()
    width = {"width": console.width} if console.is_terminal else {}
    print(render(evaluation, is_terminal=console.is_terminal, **width))


def _gate(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        wanted = float(value)
    except ValueError:
        wanted = math.nan
    if not name.strip() or not math.isfinite(wanted):
        raise UserError(f"--min {text}: expected a metric and a number, such as f1=0.9")
    return name.strip(), wanted


def check_gates(gates: Iterable[tuple[str, float]], metrics: Mapping[str, float]) -> None:
    """Raise GateError unless every metric is as good as its gate."""
    from glassbert.tasks.task import LOWER_IS_BETTER

    failed = []
    for name, wanted in gates:
        if name not in metrics:
            raise UserError(f"--min {name}={wanted:g}: no such metric; there are {', '.join(metrics)}")
        is_lower_better = name in LOWER_IS_BETTER or name.endswith("_loss")
        is_met = metrics[name] <= wanted if is_lower_better else metrics[name] >= wanted
        if not is_met:
            limit = "at most" if is_lower_better else "at least"
            failed.append(f"{name} is {metrics[name]:.4f}, expected {limit} {wanted:g}")
    if failed:
        raise GateError("; ".join(failed))
