"""Evaluate a fine-tuned model on labelled rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassbert.data.examples import ReadOptions
from glassbert.data.rows.read import read_examples
from glassbert.data.rows.schema import Schema
from glassbert.errors import DataError, ModelError
from glassbert.evaluation.comparison import comparison_of
from glassbert.evaluation.result import Evaluation
from glassbert.inference.model import Model
from glassbert.messages import Log
from glassbert.metrics.baselines import Baselines
from glassbert.metrics.mistakes import worst_first
from glassbert.tasks.task import Input, Prediction, Task
from glassbert.typed import record_from

MAX_MISTAKES = 200
"""More would only make the report slow."""
# The settings of a run that a reader of its report asks for, by table and name in the recipe.
_SETTINGS = (
    ("train", "learning_rate"),
    ("train", "epochs"),
    ("train", "batch_size"),
    ("train", "seed"),
    ("task", "long_text"),
    ("task", "class_weights"),
)


def evaluate_file(
    model: Model,
    path: Path,
    schema: Schema[Any],
    *,
    name: str,
    options: ReadOptions,
    log: Log,
) -> Evaluation:
    """Evaluate a model on a file of labelled rows.

    Args:
        schema: How rows are read.
        name: What the result calls the model.
    """
    kind = model.task.kind
    table = read_examples(schema, path, replace(options, kind=options.kind or kind))
    notes = list(table.notes)
    for note in notes:
        log(note)
    for bad in table.bad:
        log(f"left out {bad.where}: {bad.reason}")
    if table.bad:
        first = table.bad[0]
        notes.append(f"{len(table.bad):,} rows left out; the first: {first.where}: {first.reason}")
    if kind == "multi" and table.kind is None:  # it may give no label, so a file without labels fits
        raise DataError(f"{path}: no row has a label; name its column with --set data.columns.label=NAME")
    return evaluate_rows(model, table.examples, name=name, data=str(path), notes=notes)


def evaluate_rows(
    model: Model, rows: Sequence[Any], *, name: str, data: str, notes: Sequence[str] = ()
) -> Evaluation:
    """Evaluate a model on labelled rows.

    Args:
        name: What the result calls the model.
        data: What the result calls the rows.
    """
    for row in rows:
        if not model.task.is_labelled(row):
            raise DataError(f"{row.where}: no label; `evaluate` needs one in every row")
    inputs = model.task.inputs(rows, with_targets=False)
    evaluation = measured(
        model.task, rows, inputs, model.predict_inputs(rows, inputs), unk_id=model.tokenizer.vocabulary.unk_id
    )
    return replace(
        evaluation,
        model=name,
        data=data,
        baselines=baselines_of(model.run),
        comparison=comparison_of(model.run),
        settings=run_settings(model.run),
        notes=tuple(notes),
    )


def measured(
    task: Task[Any, Any],
    rows: Sequence[Any],
    inputs: Sequence[Sequence[Input]],
    predictions: Sequence[Prediction],
    *,
    unk_id: int,
) -> Evaluation:
    """Compare predictions with the labels of their rows.

    Args:
        inputs: What the model read of each row.
        unk_id: The token for characters that the vocabulary lacks.
    """
    report = task.measure(rows, predictions)  # first: it refuses labels that the model does not know
    ids = [one.ids for windows in inputs for one in windows]
    return Evaluation(
        task=task.name,
        model="",
        data="",
        examples=len(rows),
        report=report,
        calibration=task.calibration(rows, predictions),
        acceptance=task.acceptance(rows, predictions),
        mistakes=worst_first(task.mistakes(rows, predictions), MAX_MISTAKES),
        alarm=task.alarm(rows, predictions) if rows else None,
        truncated=sum(one.truncated for one in predictions),
        tokens=sum(map(len, ids)),
        unknown=sum(int((one == unk_id).sum()) for one in ids),
    )


def baselines_of(run: Mapping[str, Any]) -> Baselines | None:
    """Return the scores of simple methods from a run.json; None if they were not measured."""
    content = run.get("baselines")
    return (
        None if content is None else record_from(Baselines, content, "run.json: baselines", error=ModelError)
    )


def run_settings(run: Mapping[str, Any]) -> dict[str, str]:
    """Return the part of a run.json that a report shows."""
    recipe = run.get("recipe", {})
    found = {key: recipe.get(table, {}).get(key) for table, key in _SETTINGS}
    versions = {name: run.get(name) for name in ("glassbert", "torch")}
    return {name: str(value) for name, value in {**found, **versions}.items() if value is not None}
