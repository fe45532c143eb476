"""The accounting as JSON: the same for the command line and the page."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from glassbert.glassbox.accounting import Accounting, Group
from glassbert.glassbox.cost import Cost
from glassbert.glassbox.formula import Formula


def accounting_json(accounting: Accounting, costs: Sequence[Cost]) -> dict[str, Any]:
    """Return a table of parameters and the costs of passes as plain JSON values."""
    return {
        "source": accounting.source,
        "total": accounting.total,
        "includes": accounting.includes,
        "totals": dict(accounting.totals),
        "symbols": dict(accounting.symbols),
        "groups": [_group_as_json(group) for group in accounting.groups],
        "uncounted": [_group_as_json(group) for group in accounting.uncounted],
        "weight_bytes": asdict(accounting.memory),
        "costs": [_cost_as_json(cost) for cost in costs],
        "notes": accounting.notes,
    }


def _group_as_json(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "count": group.count,
        "share": group.share,
        "bytes": group.bytes,
        "subtotals": group.subtotals,
        "rows": [
            {
                "name": row.name,
                "part": row.part,
                "shape": row.shape,
                "formula": row.formula,
                "symbols": row.symbols,
                "count": row.count,
                "share": row.share,
                "bytes": row.bytes,
                "tensors": [{"name": name, "shape": shape} for name, shape in row.tensors],
            }
            for row in group.rows
        ],
    }


def _cost_as_json(cost: Cost) -> dict[str, Any]:
    formulas = {name: value for name, value in vars(cost).items() if isinstance(value, Formula)}
    return {
        "length": cost.length,
        "forward_flops_per_token": cost.forward_flops_per_token,
        "training_flops_per_token": cost.training_flops_per_token,
        "inference_bytes_per_token": cost.inference_bytes_per_token,
        "training_bytes_per_token": cost.training_bytes_per_token,
        "parts": {
            name: {"formula": value.symbolic, "value": value.value} for name, value in formulas.items()
        },
    }
