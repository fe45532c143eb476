"""Evaluate the formula of a trace's step in float64: the other reading of what a trace says of itself."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glassbert.glassbox.trace.graph import Step
from glassbert.model.positions import rotate, sinusoids

Array = NDArray[Any]
UNWRITTEN = ("lstm(", "crf_loss(")
"""Functions that a formula names and that are not a line of NumPy."""


def evaluated(step: Step, values: dict[str, Array], weights: dict[str, Array], num_heads: int) -> Array:
    """Return what the formula gives."""
    symbols: dict[str, Any] = {symbol: values[name] for symbol, name in step.inputs.items()}
    symbols |= {symbol: weights[name] for symbol, name in step.weights.items()}
    symbols |= step.constants
    return np.asarray(eval(step.formula, {**FUNCTIONS, **_heads(num_heads)}, symbols))


def _heads(number: int) -> dict[str, Any]:
    def rotated(x: Array) -> Array:
        return rotate(torch.from_numpy(x), torch.arange(len(x)), number).numpy()

    return {
        "heads": lambda x: x.reshape(len(x), number, -1).transpose(1, 0, 2)[None],
        "join": lambda x: x[0].transpose(1, 0, 2).reshape(x.shape[2], -1),
        "rotated": rotated,
    }


def softmax(x: Array) -> Array:
    """Return the probabilities of the last axis."""
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


FUNCTIONS: dict[str, Any] = {
    **{name: getattr(np, name) for name in ("sqrt", "exp", "log", "tanh", "maximum", "where", "tril")},
    **{name: getattr(np, name) for name in ("inf", "pi", "ones_like")},
    "mean": lambda x: x.mean(axis=-1, keepdims=True),
    "var": lambda x: x.var(axis=-1, keepdims=True),
    "sum": lambda x: x.sum(axis=-1),
    "erf": np.vectorize(math.erf),
    "softmax": softmax,
    "take": lambda x, columns: np.take_along_axis(x, columns[:, None], axis=1)[:, 0],
    "sinusoids": lambda positions, width: sinusoids(len(positions), int(width)).numpy()[positions],
}
