"""The training history in a run folder: the logged curves, and the runs with other seeds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from glassbert.errors import ModelError
from glassbert.evaluation.result import Evaluation, SeedResult, TrainingCurve
from glassbert.storage import read_json, read_log
from glassbert.typed import record_from, typed

_NOT_CURVES = frozenset({"step", "epoch", "evaluation"})


def with_training_history(evaluation: Evaluation, run: Path) -> Evaluation:
    """Return the evaluation with the curves and seeds of a run folder."""
    return replace(
        evaluation,
        curves=read_curves(run / "metrics.jsonl"),
        seeds=tuple(
            SeedResult(one.tried["seed"], one.metrics)
            for one in read_runs(run / "seeds.json")
            if isinstance(one.tried.get("seed"), int)
        ),
    )


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run of several, as seeds.json and search.json list it."""

    name: str
    tried: Mapping[str, Any]
    """The settings in which it differs from the others."""
    metrics: Mapping[str, float]
    best_by: str
    best: float | None
    best_step: int | None
    step: int
    elapsed_s: float


def read_runs(path: Path) -> list[RunRecord]:
    """Return the runs that a seeds.json or search.json lists; none if there is no such file."""
    if not path.is_file():
        return []
    listed = typed(read_json(path).get("runs"), tuple[Any, ...], f"{path}: runs", error=ModelError)
    return [record_from(RunRecord, one, str(path), error=ModelError) for one in listed]


def read_curves(path: Path) -> tuple[TrainingCurve, ...]:
    """Return each number of a metrics.jsonl over the steps; nothing if the run logged nothing."""
    found: dict[tuple[Literal["train", "evaluation"], str], dict[int, float]] = {}
    kind: Literal["train", "evaluation"]
    for _, row in read_log(path):
        trained = {name: value for name, value in row.items() if name not in _NOT_CURVES}
        measured = row.get("evaluation")
        for kind, values in (("train", trained), ("evaluation", measured)):
            for name, value in values.items() if isinstance(values, dict) else ():
                if isinstance(value, int | float):
                    found.setdefault((kind, name), {})[row["step"]] = value
    return tuple(
        TrainingCurve(name, kind, tuple(values), tuple(values.values()))
        for (kind, name), values in found.items()
    )
