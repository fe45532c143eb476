"""The gradients of one pass: the size of the gradient of each weight, and the numbers of one weight."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from glassbert.errors import UserError
from glassbert.glassbox.trace.record import GRAD
from glassbert.glassbox.trace.trace import Trace

SIDE = 8
"""Rows and columns of a weight that are shown: those with the largest gradients."""

Array = NDArray[Any]
Weight = Callable[[str], Array]


def gradients_of(trace: Trace, weights: Mapping[str, Any], weight: Weight) -> dict[str, Any]:
    """Return the loss and, for each weight, its size beside the size of its gradient.

    Args:
        weights: The parameters by name.
        weight: Returns the values of one.
    """
    found = []
    for name in weights:
        if f"{GRAD}{name}" not in trace:
            continue
        gradient, value = _norm(trace[f"{GRAD}{name}"]), _norm(weight(name))
        found.append({"name": name, "shape": list(weight(name).shape), "gradient": gradient, "weight": value})
    return {"loss": float(trace["loss"]), "target": str(trace.info.target or ""), "weights": found}


def weight_beside_gradient(trace: Trace, name: str, weight: Weight) -> bytes:
    """Return the part of a weight where its gradient is largest, as a safetensors file."""
    if f"{GRAD}{name}" not in trace:
        raise UserError(f"{name[:80]}: this trace has no gradient of such a weight")
    gradient, value = _flat(trace[f"{GRAD}{name}"]), _flat(weight(name))
    rows, columns = (_largest(np.linalg.norm(gradient, axis=axis)) for axis in (1, 0))
    return save(
        {
            "rows": rows,
            "columns": columns,
            "weight": np.ascontiguousarray(value[np.ix_(rows, columns)]),
            "gradient": np.ascontiguousarray(gradient[np.ix_(rows, columns)]),
        }
    )


def check_by_moving(source: str, trace: Trace, name: str) -> str:
    """Return code that compares the largest gradient of a weight with the slope of the loss."""
    gradient = trace[f"{GRAD}{name}"]
    place = tuple(int(one) for one in np.unravel_index(np.abs(gradient).argmax(), gradient.shape))
    given = [trace.info.text, trace.info.pair, *([] if trace.info.target is None else [trace.info.target])]
    asked = ", ".join(f"{name}{one!r}" for name, one in zip(("", "", "target="), given, strict=False))
    return "\n".join(
        [
            "import torch",
            "import glassbert as gb",
            "",
            f"model = gb.load({source!r})",
            f"weight = dict(model.network.named_parameters())[{name!r}]",
            "step, losses = 1e-2, []",
            "for sign in (1, -1):",
            "    with torch.no_grad():",
            f"        weight[{place}] += sign * step",
            f"    trace = model.trace({asked}, grad=True)",
            '    losses.append(float(trace["loss"]))',
            "    with torch.no_grad():",
            f"        weight[{place}] -= sign * step",
            f"trace = model.trace({asked}, grad=True)",
            f'print((losses[0] - losses[1]) / (2 * step), float(trace["{GRAD}{name}"][{place}]))',
            "",
        ]
    )


def _flat(values: Array) -> Array:
    return values.reshape(1, -1) if values.ndim == 1 else values


def _norm(values: Array) -> float:
    return float(np.linalg.norm(values.astype(np.float64)))


def _largest(sizes: Array) -> NDArray[np.int32]:
    """Return the indices of the largest sizes, in their order."""
    return np.sort(np.argsort(-sizes, kind="stable")[:SIDE]).astype(np.int32)
