"""Measure two models side by side."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from glassbert.errors import ModelError
from glassbert.inference.model import Model
from glassbert.metrics.comparison import Comparison, Side
from glassbert.typed import record_from

STUDENT = "student"
"""The key of run.json that holds the comparison with the teacher."""
_ROUNDS = 3
_BYTES = 4
"""Of a float32."""


def speeds(models: Mapping[str, Model], work: Callable[[Model], object], num_texts: int) -> dict[str, float]:
    """Return the texts that each model reads in a second: the best of some rounds, taken in turns."""
    best: dict[str, float] = {}
    for _ in range(_ROUNDS + 1):  # the first one warms up
        for name, model in models.items():
            began = time.perf_counter()
            work(model)
            elapsed_s = max(time.perf_counter() - began, 1e-9)
            best[name] = max(best.get(name, 0.0), num_texts / elapsed_s)
    return best


def side(model: Model, score: float | None, texts_per_second: float) -> Side:
    """Return one model's side of a comparison."""
    return Side(
        score=score,
        blocks=model.config.encoder.num_hidden_layers,
        parameters=model.num_parameters,
        megabytes=model.num_parameters * _BYTES / 1e6,
        texts_per_second=texts_per_second,
    )


def comparison_of(run: Mapping[str, Any]) -> Comparison | None:
    """Return the comparison with the teacher from a run.json; None if there was no teacher."""
    content = run.get(STUDENT)
    return (
        None
        if content is None
        else record_from(Comparison, content, f"run.json: {STUDENT}", error=ModelError)
    )
