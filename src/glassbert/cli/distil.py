"""`distil`: a model becomes a smaller one that gives nearly the same vectors."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from glassbert.cli.options import RunOptions, Tables, carry_out_and_print, recipe_tables
from glassbert.ranges import COUNT
from glassbert.text.documents import Form


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DistilOptions(RunOptions):
    """Options of `distil`."""

    model: str | None = None
    """A preset, such as mini, or another model as the student; some of the teacher's blocks if not given."""
    keep: str | None = None
    """Blocks of the teacher that the student begins with, such as 0,2,5; the best choice if not given."""
    blocks: Annotated[int | None, Parameter(validator=COUNT)] = None
    """How many blocks the student has if --keep is not given; half of the teacher's if neither is."""
    text: list[Path] | None = None
    """Raw text to learn from: a file or a folder; may be given several times."""
    form: Form | None = None
    """As for `corpus build`: sentences, paragraphs, documents, jsonl or wikitext; detected when not given."""
    pairs: Path | None = None
    """File of text pairs scored by people, on which both models are measured."""
    recipe: Path | None = None
    """TOML file with the tables data, model, distil and train; the options here override it."""
    report: Path | None = None
    """Where to write the report; report.html in the folder of the run if not given."""


def distil(teacher: str, /, *, options: DistilOptions | None = None) -> None:
    """Train a smaller model to give the vectors of a larger one; for a task, use `train --teacher`.

    Args:
        teacher: Model whose vectors are learned.
    """
    from glassbert.runs.distil import DistilRecipe
    from glassbert.runs.start import BERT_PRESETS

    options = options or DistilOptions()
    given: Tables = {
        "data": {
            "text": None if options.text is None else list(map(str, options.text)),
            "form": options.form,
            "pairs": None if options.pairs is None else str(options.pairs),
        },
        "distil": {"teacher": teacher, "keep": options.keep, "blocks": options.blocks},
    }
    needed = {"--text": ("data", "text")}
    tables = recipe_tables(
        options.recipe, given, options.set_, needed, model=options.model, presets=BERT_PRESETS
    )
    carry_out_and_print(
        DistilRecipe.of(tables), "distil", options, file=options.recipe, report=options.report or True
    )
