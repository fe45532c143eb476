"""What a run folder remembers of the training: the curves that it logged, and the runs with other seeds."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from glassbert.evaluation.result import Evaluation, SeedResult, TrainingCurve
from glassbert.storage import read_json, read_log

_NOT_CURVES = frozenset({"step", "epoch", "evaluation"})


def with_training_history(evaluation: Evaluation, run: Path) -> Evaluation:
    """Return the evaluation with the curves and seeds of a run folder."""
    seeds = read_json(run / "seeds.json")["runs"] if (run / "seeds.json").is_file() else []
    return replace(
        evaluation,
        curves=read_curves(run / "metrics.jsonl"),
        seeds=tuple(SeedResult(one["tried"]["seed"], one["metrics"]) for one in seeds),
    )


def read_curves(path: Path) -> tuple[TrainingCurve, ...]:
    """Return each number of a metrics.jsonl over the steps; nothing if the run logged nothing."""
    found: dict[tuple[Literal["train", "evaluation"], str], dict[int, float]] = {}
    for _, row in read_log(path):
        for name, value in row.items():
            if name not in _NOT_CURVES and isinstance(value, int | float):
                found.setdefault(("train", name), {})[row["step"]] = value
        for name, value in row.get("evaluation", {}).items():
            found.setdefault(("evaluation", name), {})[row["step"]] = value
    return tuple(
        TrainingCurve(name, kind, tuple(values), tuple(values.values()))
        for (kind, name), values in found.items()
    )
