"""`train`: a file of examples and a model become a model that does a task."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import cyclopts
from cyclopts import Parameter

from glassbert.cli.options import RunOptions, Tables, carry_out_and_print, recipe_tables
from glassbert.ranges import COUNT, COUNT_OR_NONE, MINUTES
from glassbert.tasks.registry import TASKS

ADAPT_EPOCHS = 3.0


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TrainOptions(RunOptions):
    """Options of `train TASK`, for every task in the registry."""

    model: str | None = None
    """Model to start from: a folder, or the name of a model; with --teacher, not needed."""
    train: Path | None = None
    """File of examples to learn from."""
    dev: Path | None = None
    """File of examples to measure on; if not given, a tenth of the training rows is held out."""
    recipe: Path | None = None
    """TOML file with the tables data, model, task, train, adapt, distil and runs; the options here
    override it."""
    format: str | None = None
    """The format of the files; recognised from them if not given."""
    skip_bad: Annotated[int | None, Parameter(validator=COUNT_OR_NONE)] = None
    """Rows that may be left out of a file because they cannot be used."""
    seeds: Annotated[int | None, Parameter(validator=COUNT)] = None
    """Do this many runs with different seeds and keep the best; mean and deviation are reported."""
    adapt: bool = False
    """First train on the text of the examples as in pre-training."""
    search: Annotated[float | None, Parameter(name="--search", validator=MINUTES)] = None
    """Minutes in which to try other batch sizes, learning rates and numbers of epochs."""
    teacher: str | None = None
    """Model for the same task to learn from; without --model, some of its blocks are the student."""
    keep: str | None = None
    """Blocks of the teacher that the student begins with, such as 0,2,5; the best choice if not given."""
    blocks: Annotated[int | None, Parameter(validator=COUNT)] = None
    """How many blocks the student has if --keep is not given; half of the teacher's if neither is."""
    unlabelled: Path | None = None
    """File of more rows, without labels: only the teacher's answers are learned from them."""
    no_baseline: bool = False
    """Do not measure simple methods beside the model: a bag of words, or the most frequent tags."""
    report: Path | None = None
    """Where to write the report on the dev rows; report.html in the folder of the run if not given."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TranslateOptions(RunOptions):
    """Options of `train translate`."""

    model: str | None = None
    """transformer-tiny, -small, -base or -big, lstm-small; or a translator to start from."""
    train: str | None = None
    """File of sentence pairs (TSV, JSONL, compressed or not), or two aligned files: FILE,FILE."""
    dev: str | None = None
    """The same, of pairs to measure on."""
    recipe: Path | None = None
    """TOML file with the tables data, vocabulary, model, task and train; the options here override it."""
    skip_bad: Annotated[int | None, Parameter(validator=COUNT_OR_NONE)] = None
    """Rows that may be left out of a file because a side is empty or missing."""
    report: Path | None = None
    """Where to write the report on the dev pairs; report.html in the folder of the run if not given."""


def build_app() -> cyclopts.App:
    """Return the verb, with a command for each task that is registered at this moment."""
    app = cyclopts.App(name="train", help="Train a model for a task.")
    for entry in TASKS.values():
        app.command(_verb_of(entry.name), name=entry.name, help=entry.help)
    app.command(train_translate, name="translate")
    return app


def _verb_of(task: str) -> Callable[[TrainOptions | None], None]:
    def train(options: TrainOptions | None = None) -> None:
        from glassbert.runs.finetune import FineTuneRecipe

        options = options or TrainOptions()
        recipe = FineTuneRecipe.of(task, tables_of(options))
        carry_out_and_print(recipe, task, options, file=options.recipe, report=options.report or True)

    return train


def train_translate(options: TranslateOptions | None = None) -> None:
    """Train on sentences with their translations."""
    from glassbert.runs.translate import TranslateRecipe

    options = options or TranslateOptions()
    recipe = TranslateRecipe.of(translate_tables(options))
    carry_out_and_print(recipe, "translate", options, file=options.recipe, report=options.report or True)


def tables_of(options: TrainOptions) -> Tables:
    """Return the tables of the run's recipe."""
    given: Tables = {
        "data": {
            "train": None if options.train is None else str(options.train),
            "dev": None if options.dev is None else str(options.dev),
            "format": options.format,
            "skip_bad": options.skip_bad,
        },
        "runs": {"seeds": options.seeds, "search_minutes": options.search},
        "adapt": {"epochs": ADAPT_EPOCHS if options.adapt else None},
        "task": {"baseline": False if options.no_baseline else None},
        "distil": {
            "teacher": options.teacher,
            "keep": options.keep,
            "blocks": options.blocks,
            "unlabelled": None if options.unlabelled is None else str(options.unlabelled),
        },
    }
    needed = {"--train": ("data", "train")}
    if options.teacher is None:
        needed["--model"] = ("model", "start")
    return recipe_tables(options.recipe, given, options.set_, needed, model=options.model)


def translate_tables(options: TranslateOptions) -> Tables:
    """Return the tables of the run's recipe."""
    from glassbert.config import TRANSLATOR_PRESETS

    given: Tables = {"data": {"train": options.train, "dev": options.dev, "skip_bad": options.skip_bad}}
    needed = {"--train": ("data", "train")}
    return recipe_tables(
        options.recipe, given, options.set_, needed, model=options.model, presets=TRANSLATOR_PRESETS
    )
