"""All that is known of a model and a file of labelled examples, put together for the reports."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassbert.data.examples import Example, ReadOptions, TextExample
from glassbert.data.rows.read import read_examples
from glassbert.errors import DataError
from glassbert.evaluation.curves import read_curves
from glassbert.evaluation.mistakes import Content, mistakes
from glassbert.evaluation.result import Evaluation, SeedResult
from glassbert.inference.predict import schema_for
from glassbert.metrics.thresholds import class_thresholds, threshold_curve
from glassbert.storage import read_json

if TYPE_CHECKING:
    from glassbert.inference.model import Model

MAX_MISTAKES = 200
"""The worst ones; more would only make the report slow."""
WANTED_PRECISION = 0.95
MAX_CURVE_POINTS = 500
# What a reader should know of a run, by its table and name in the recipe.
_SETTINGS = (
    ("train", "learning_rate"),
    ("train", "epochs"),
    ("train", "batch_size"),
    ("train", "seed"),
    ("task", "long_text"),
    ("task", "class_weights"),
)


def evaluate_file(
    model: "Model",
    name: str,
    task: str | None,
    path: Path,
    options: ReadOptions,
    log: Callable[[str], None],
) -> Evaluation:
    """Read a file of labelled examples and measure the model on it.

    Args:
        name: What the user calls the model.
        task: The task to read rows for, where the model's folder leaves it open.
    """
    kind = getattr(model.task, "kind", None)
    table = read_examples(schema_for(model.task, task), path, replace(options, kind=options.kind or kind))
    for note in table.notes:
        log(note)
    for bad in table.bad:
        log(f"left out {bad.where}: {bad.reason}")
    if kind == "multi" and table.kind is None:  # to such a model, no label is an answer too
        raise DataError(f"{path}: no row has a label; name its column with --set data.columns.label=NAME")
    for example in table.examples:
        if not is_labelled(example, kind):
            raise DataError(f"{example.where}: no label; `evaluate` needs one in every row")
    return evaluation_of(model, name, str(path), table.examples, notes=table.notes)


def evaluation_of(
    model: "Model", name: str, data: str, examples: Sequence[Any], *, notes: Sequence[str] = ()
) -> Evaluation:
    """Measure the model on examples."""
    task = model.task
    predictions = model.predict_examples(examples)
    report = task.measure(examples, predictions)  # first, since it refuses labels that it does not know
    contents = [one.to_json() for one in predictions]
    ids = [one.ids for windows in task.inputs(examples, with_targets=False) for one in windows]
    unk_id = model.tokenizer.vocabulary.unk_id
    measure_of = getattr(task, "measure_of", None)
    wrong = mistakes(examples, contents, measure_of(examples) if measure_of else None)
    found = sorted(wrong, key=lambda mistake: -mistake.score)
    evaluation = Evaluation(
        task=task.name,
        model=name,
        data=data,
        examples=len(examples),
        report=report,  # type: ignore[arg-type]
        calibration=task.calibration(examples, predictions),
        mistakes=tuple(found[:MAX_MISTAKES]),
        truncated=sum(bool(content.get("truncated")) for content in contents),
        tokens=sum(map(len, ids)),
        unknown=sum(int((one == unk_id).sum()) for one in ids),
        settings=_settings(model.run),
        notes=tuple(notes),
    )
    return _with_scores(evaluation, getattr(task, "kind", None), examples, contents)


def with_run(evaluation: Evaluation, run: Path) -> Evaluation:
    """Return the evaluation with what a run folder tells of the training."""
    seeds = read_json(run / "seeds.json")["runs"] if (run / "seeds.json").is_file() else []
    return replace(
        evaluation,
        curves=read_curves(run / "metrics.jsonl"),
        seeds=tuple(SeedResult(one["tried"]["seed"], one["metrics"]) for one in seeds),
    )


def is_labelled(example: Example, kind: str | None) -> bool:
    """Whether it is known what is right for an example."""
    if isinstance(example, TextExample):
        return example.score is not None if kind == "regression" else kind == "multi" or bool(example.labels)
    return example.is_labelled


def _with_scores(
    evaluation: Evaluation, kind: str | None, examples: Sequence[Any], contents: Sequence[Content]
) -> Evaluation:
    """Add what only classes or numbers have."""
    if kind == "regression":
        points = [(one.score, content["score"]) for one, content in zip(examples, contents, strict=True)]
        return replace(evaluation, points=tuple(points))
    if kind is None or not contents:
        return evaluation
    labels = list(contents[0]["scores"])
    scores = np.array([list(content["scores"].values()) for content in contents])  # (N, C)
    is_gold = np.array([[label in example.labels for label in labels] for example in examples])
    evaluation = replace(
        evaluation,
        thresholds=class_thresholds(scores, is_gold, labels, precision=WANTED_PRECISION),
        thresholds_for=f"precision {WANTED_PRECISION:g}",
    )
    if kind == "multi":
        return evaluation
    is_right = is_gold[np.arange(len(scores)), scores.argmax(axis=1)]
    return replace(
        evaluation, abstain=threshold_curve(scores.max(axis=1), is_right).thinned(MAX_CURVE_POINTS)
    )


def _settings(run: Mapping[str, Any]) -> dict[str, str]:
    recipe = run.get("recipe", {})
    found = {key: recipe.get(table, {}).get(key) for table, key in _SETTINGS}
    versions = {name: run.get(name) for name in ("glassbert", "torch")}
    return {name: str(value) for name, value in {**found, **versions}.items() if value is not None}
