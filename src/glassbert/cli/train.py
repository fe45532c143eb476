"""`train`: a file of examples and a pre-trained model become a model that does a task."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import cyclopts
from cyclopts import Parameter

from glassbert.cli.live import live_readings
from glassbert.cli.options import Tables, recipe_tables
from glassbert.cli.output import print_json, remark
from glassbert.errors import Interrupted

if TYPE_CHECKING:
    from glassbert.runs.finetune import FineTuneResult
    from glassbert.runs.finetune_recipe import FineTuneRecipe

app = cyclopts.App(name="train", help="Train a model for a task.")
ADAPT_EPOCHS = 3.0


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What the four tasks can be told alike."""

    model: str | None = None
    """Model folder to start from."""
    train: Path | None = None
    """File of examples to learn from."""
    dev: Path | None = None
    """File of examples to measure on; when not given, a tenth of the training rows is held out."""
    out: Path | None = None
    """Folder of the run; runs/ and the task's name when not given. The model is in its folder best."""
    recipe: Path | None = None
    """TOML file with the tables data, model, task, train, adapt and runs; the options here go before it."""
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None
    """Change a setting, such as train.epochs=4; may be given several times."""
    format: str | None = None
    """The format of the files; seen from them when not given."""
    skip_bad: int | None = None
    """Rows that may be left out of a file because they cannot be used."""
    seeds: int | None = None
    """Do this many runs with different seeds and keep the best; mean and deviation are told."""
    adapt: bool = False
    """First train on the text of the examples as in pre-training."""
    search: Annotated[float | None, Parameter(name="--search")] = None
    """Minutes to try other batch sizes, learning rates and numbers of epochs in."""
    report: Path | None = None
    """Where to write the report on the dev rows; report.html in the folder of the run when not given."""
    json: bool = False
    """Print the result as JSON."""


NOTHING_GIVEN = TrainOptions()


@app.command
def classify(options: TrainOptions = NOTHING_GIVEN) -> None:
    """Train on texts with one label, with any number of labels, or with a number."""
    _train("classify", options)


@app.command
def pair(options: TrainOptions = NOTHING_GIVEN) -> None:
    """Train on pairs of texts with one label, with any number of labels, or with a number."""
    _train("pair", options)


@app.command
def tag(options: TrainOptions = NOTHING_GIVEN) -> None:
    """Train on texts with labelled spans, such as names."""
    _train("tag", options)


@app.command
def answer(options: TrainOptions = NOTHING_GIVEN) -> None:
    """Train on questions whose answers are parts of a text."""
    _train("answer", options)


def tables_of(options: TrainOptions) -> Tables:
    """Return the tables of the run's recipe."""
    given: Tables = {
        "model": {"folder": options.model},
        "data": {
            "train": None if options.train is None else str(options.train),
            "dev": None if options.dev is None else str(options.dev),
            "format": options.format,
            "skip_bad": options.skip_bad,
        },
        "runs": {"seeds": options.seeds, "search_minutes": options.search},
        "adapt": {"epochs": ADAPT_EPOCHS if options.adapt else None},
    }
    needed = {"--model": ("model", "folder"), "--train": ("data", "train")}
    return recipe_tables(options.recipe, given, options.set_, needed)


def _train(task: str, options: TrainOptions) -> None:
    from glassbert.runs.finetune_recipe import FineTuneRecipe
    from glassbert.runs.sweep import finetune_all
    from glassbert.training.processes import is_main_process

    out = options.out or Path("runs") / task
    recipe = FineTuneRecipe.of(task, tables_of(options))
    with live_readings() as on_status:
        result = finetune_all(recipe, out, remark, on_status)
    if not is_main_process():  # torchrun starts this verb once per process
        return
    if not result.is_finished:
        if options.json:
            print_json(_as_json(result))
        raise Interrupted(f"stopped at step {result.step}, saved in {out}; the same command goes on")
    report = _write_report(result, recipe, options.report)
    if options.json:
        print_json({**_as_json(result), "report": None if report is None else str(report)})
    else:
        print(result.model)


def _write_report(result: "FineTuneResult", recipe: "FineTuneRecipe", path: Path | None) -> Path | None:
    """Write the report on the dev rows; None if there are no such rows."""
    from glassbert.evaluation.rows import evaluate_rows
    from glassbert.evaluation.training_history import with_training_history
    from glassbert.inference.model import load
    from glassbert.reports.page import write_report

    if not result.dev:
        return None
    data = str(recipe.data.dev or f"{len(result.dev)} held-out rows of {recipe.data.train}")
    name = str(result.model)
    evaluation = result.evaluation or evaluate_rows(load(result.model), result.dev, name=name, data=data)
    path = path or result.out / "report.html"
    write_report(path, with_training_history(replace(evaluation, model=name, data=data), result.out))
    values = "  ".join(f"{name} {value:.4f}" for name, value in result.metrics.items())
    remark(f"best, from step {result.best_step}: {values}")
    remark(f"the report is in {path}")
    return path


def _as_json(result: "FineTuneResult") -> dict[str, Any]:
    return {
        "out": str(result.out),
        "model": str(result.model),
        "step": result.step,
        "is_finished": result.is_finished,
        "metrics": dict(result.metrics),
        "best_by": result.best_by,
        "best_step": result.best_step,
        "runs": list(result.runs),
    }


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """What `train translate` can be told."""

    model: str | None = None
    """transformer-tiny, -small, -base or -big, lstm-small; or a translator to go on with."""
    train: str | None = None
    """File of sentence pairs (TSV, JSONL, packed or not), or two aligned files: FILE,FILE."""
    dev: str | None = None
    """The same, of pairs to measure on."""
    out: Path | None = None
    """Folder of the run; runs/translate when not given. The model is in its folder best."""
    recipe: Path | None = None
    """TOML file with the tables data, vocabulary, model, task and train; the options here go before it."""
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None
    """Change a setting, such as train.epochs=4; may be given several times."""
    skip_bad: int | None = None
    """Rows that may be left out of a file because a side is empty or missing."""
    json: bool = False
    """Print the result as JSON."""


@app.command(name="translate")
def train_translate(options: TranslateOptions | None = None) -> None:
    """Train on sentences with their translations; goes on by itself where a run was stopped."""
    options = options or TranslateOptions()
    from glassbert.inference.translator import best_targets
    from glassbert.runs.translate import train_translator
    from glassbert.runs.translate_recipe import TranslateRecipe
    from glassbert.training.processes import is_main_process

    recipe = TranslateRecipe.of(translate_tables(options))
    out = options.out or Path("runs") / "translate"
    with live_readings() as on_status:
        result = train_translator(recipe, out, best_targets, remark, on_status)
    if not is_main_process():  # torchrun starts this verb once per process
        return
    if options.json:
        print_json(
            {
                "out": str(result.out),
                "model": str(result.model),
                "step": result.step,
                "is_finished": result.is_finished,
                "metrics": dict(result.metrics),
                "best_by": result.best_by,
                "best_step": result.best_step,
            }
        )
    if not result.is_finished:
        raise Interrupted(f"stopped at step {result.step}, saved in {out}; the same command goes on")
    if not options.json:
        print(result.model)


def translate_tables(options: TranslateOptions) -> Tables:
    """Return the tables of the run's recipe."""
    given: Tables = {
        "model": {"folder": options.model},
        "data": {"train": options.train, "dev": options.dev, "skip_bad": options.skip_bad},
    }
    return recipe_tables(options.recipe, given, options.set_, {"--train": ("data", "train")})
