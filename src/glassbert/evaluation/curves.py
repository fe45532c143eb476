"""The curves of a training run, read from what it logged."""

import json
from pathlib import Path
from typing import Literal

from glassbert.evaluation.result import TrainingCurve

_NOT_CURVES = frozenset({"step", "epoch", "evaluation"})


def read_curves(path: Path) -> tuple[TrainingCurve, ...]:
    """Return each number of a metrics.jsonl over the steps; none when the run logged nothing."""
    found: dict[tuple[Literal["train", "evaluation"], str], dict[int, float]] = {}
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break  # the run is writing it, or was killed while it did
        row = json.loads(line)
        for name, value in row.items():
            if name not in _NOT_CURVES:
                found.setdefault(("train", name), {})[row["step"]] = value
        for name, value in row.get("evaluation", {}).items():
            found.setdefault(("evaluation", name), {})[row["step"]] = value
    return tuple(
        TrainingCurve(name, kind, tuple(values), tuple(values.values()))
        for (kind, name), values in found.items()
    )
