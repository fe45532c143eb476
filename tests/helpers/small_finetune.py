"""A fine-tuning run of a second, for tests; also started as a program, to be killed."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from glassbert.runs.finetune import FineTuneRecipe
from glassbert.runs.run import RunResult, carry_out
from helpers.small_model import sentiment, small_folder

TRAIN = {
    "epochs": 2.0,
    "batch_size": 16,
    "learning_rate": 3e-3,
    "save_every": 3,
    "log_every": 1,
    "evaluate_every": 5,
}
NUM_TRAIN, NUM_DEV = 100, 40
STEPS = 14


def write_rows(path: Path, number: int, seed: int) -> Path:
    """Write rows of text and label."""
    lines = (f"{one.text}\t{one.labels[0]}\n" for one in sentiment(number, seed))
    path.write_text("text\tlabel\n" + "".join(lines), encoding="utf-8")
    return path


def write_inputs(folder: Path) -> Path:
    """Write a model and files of examples to start from."""
    small_folder(folder / "model", dropout=0.1)
    write_rows(folder / "train.tsv", NUM_TRAIN, seed=0)
    write_rows(folder / "dev.tsv", NUM_DEV, seed=1)
    return folder


def recipe_of(folder: Path, **tables: dict[str, Any]) -> FineTuneRecipe:
    """Return a recipe of a few steps on what `write_inputs` wrote, with changes of its tables."""
    basic: dict[str, dict[str, Any]] = {
        "model": {"start": str(folder / "model")},
        "data": {"train": str(folder / "train.tsv"), "dev": str(folder / "dev.tsv")},
        "train": TRAIN,
    }
    names = {*basic, *tables}
    merged = {name: {**basic.get(name, {}), **tables.get(name, {})} for name in names}
    for table in merged.values():
        for key in [key for key, value in table.items() if value is None]:
            del table[key]
    return FineTuneRecipe.of("classify", merged)


def run(
    folder: Path, out: Path, reported: Callable[[str], None] | None = None, **tables: dict[str, Any]
) -> RunResult:
    """Fine-tune in ``out``."""
    # What the machine could do at best takes longer to measure than the whole run.
    with patch("glassbert.training.log.measured_peak", return_value=1e9):
        return carry_out(recipe_of(folder, **tables), out, log=reported or (lambda line: None))


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]), **json.loads(sys.argv[3]))
