"""`evaluate`: how good a model is."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassbert.cli.options import read_options
from glassbert.cli.output import print_json, remark, tell_assumptions
from glassbert.data.corpus.manifest import MANIFEST
from glassbert.errors import GateError, UserError
from glassbert.model_names import model_folder

if TYPE_CHECKING:
    from glassbert.evaluation.result import Evaluation
    from glassbert.inference.model import Model
    from glassbert.inference.translator import Translator


def evaluate(
    model: str,
    data: Path,
    /,
    *,
    min_: Annotated[list[str] | None, Parameter(name="--min")] = None,
    report: Path | None = None,
    task: str | None = None,
    format: str | None = None,
    skip_bad: int = 0,
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None,
    json: bool = False,
) -> None:
    """Measure a model on what it was trained for: labelled examples, sentence pairs, or a corpus.

    Parameters
    ----------
    model:
        Model folder, or folder of a run.
    data:
        File of labelled examples; of sentence pairs (or FILE,FILE), for a translator; a folder of
        `corpus build`, for a pre-trained model.
    min_:
        Fail, with exit code 5, unless a metric is at least this high: f1=0.9; may be given several times.
        For a metric that is better when low, such as mse or ece, it is the highest allowed.
    report:
        Write everything, with plots and the worst mistakes, to this HTML file.
    task:
        What the model does, for a folder that does not say it.
    format:
        The format of the file; seen from it when not given.
    skip_bad:
        Rows that may be left out because they cannot be used.
    set_:
        Change how the file is read, such as data.columns.text=review; may be given several times.
    json:
        Print the result as JSON.
    """
    from glassbert.evaluation.evaluate import evaluate_file
    from glassbert.inference.loading import load
    from glassbert.inference.translator import Translator
    from glassbert.reports.page import write_report

    gates = [_gate(text) for text in min_ or ()]
    loaded = load(model_folder(model))
    is_corpus = (data / MANIFEST).is_file()
    if (is_corpus or isinstance(loaded, Translator)) and (report or task or format or set_):
        raise UserError("--report, --task, --format and --set are for labelled examples; leave them out")
    if isinstance(loaded, Translator):
        return check_gates(gates, _measure_translator(loaded, data, skip_bad, is_json=json))
    tell_assumptions(loaded.tokenizer)
    if is_corpus:
        return check_gates(gates, _measure_corpus(loaded, data, is_json=json))
    options = read_options(set_, format, skip_bad)
    evaluation = evaluate_file(loaded, model, task, data, options, remark)
    _print_evaluation(evaluation, is_json=json)
    if report is not None:
        write_report(report, evaluation)
        remark(f"the report is in {report}")
    check_gates(gates, evaluation.metrics())


def _print_evaluation(evaluation: "Evaluation", *, is_json: bool) -> None:
    from rich.console import Console

    from glassbert.reports.terminal import render

    if is_json:
        return print_json(evaluation.to_json())
    console = Console()
    width = {"width": console.width} if console.is_terminal else {}
    print(render(evaluation, is_terminal=console.is_terminal, **width))


def _measure_translator(
    translator: "Translator", data: Path, skip_bad: int, *, is_json: bool
) -> dict[str, float]:
    """Print BLEU and chrF on sentence pairs, by the usual search; return them."""
    from glassbert.cli.translate import tell_cut
    from glassbert.data.sentence_pairs import ParallelFiles

    pairs = ParallelFiles.of(data, skip_bad=skip_bad)
    report = translator.evaluate(pairs)
    for bad in pairs.bad:
        remark(f"left out {bad.where}: {bad.reason}")
    num_pairs = sum(group.sentences for group in report.by_length)
    settings = translator.usual_settings()
    tell_cut(num_pairs, report.num_truncated, report.num_unfinished, translator, settings)
    if is_json:
        print_json({"metrics": report.metrics(), "examples": num_pairs, **report.to_json()})
        return report.metrics()
    print(f"BLEU  {report.bleu:.2f}   {report.bleu_signature}")
    print(f"chrF  {report.chrf:.2f}   {report.chrf_signature}")
    for group in report.by_length:
        print(f"{group.words:>8} words  BLEU {group.bleu:.2f}  ({group.sentences:,} sentences)")
    return report.metrics()


def _measure_corpus(loaded: "Model", folder: Path, *, is_json: bool) -> dict[str, float]:
    """Print the losses and accuracies of pre-training on a corpus; return them."""
    from glassbert.evaluation.corpus import measure_corpus

    metrics, num_examples = measure_corpus(loaded, folder)
    if is_json:
        print_json({"metrics": metrics, "examples": num_examples})
    else:
        for name, value in metrics.items():
            print(f"{name:<14}{value:.4f}")
    return metrics


def _gate(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise UserError(f"--min {text}: expected a metric and a number, such as f1=0.9") from None


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
            failed.append(f"{name} is {metrics[name]:.4f}, {limit} {wanted:g} is asked for")
    if failed:
        raise GateError("; ".join(failed))
