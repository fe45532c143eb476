"""The learning rate as a function of how much of the run is done."""

import math

from glassbert.training.settings import Schedule


def rate_factor(schedule: Schedule, warmup: float, progress: float) -> float:
    """Return the share of the highest rate at ``progress``: 0 is the start of the run, 1 its end."""
    if progress < warmup:
        return progress / warmup
    if schedule == "constant":
        return 1.0
    if schedule == "inverse_sqrt":
        return math.sqrt(max(warmup, 1e-12) / max(progress, 1e-12)) if warmup else 1.0
    remaining = max(0.0, (1.0 - progress) / (1.0 - warmup))
    return remaining if schedule == "linear" else 0.5 * (1.0 - math.cos(math.pi * remaining))
